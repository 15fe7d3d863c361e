"""Short texts of every kind: each attribute that the language has, drawn off its slot.

Comes in: a source of randomness. Goes out: a text with a few declarations that name one another,
lets, imports and heirs; most can be read, few are whole. A new attribute is drawn from the day it
is declared. Not its job: whole specs (specs) and damage (mutations).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from kvdsl.project.catalog import PLURALS, Catalog
from kvdsl.resolve.schema import KINDS, Attribute, Schema, schema_of
from kvdsl.spec.declaration import Block
from kvdsl.spec.deployment import Draft, Pool
from kvdsl.spec.model import FORMS
from kvdsl.spec.slots import (
    Count,
    Counted,
    Flag,
    Listed,
    Measured,
    Nested,
    PerScope,
    Quoted,
    Ratio,
    Referred,
    Selected,
    Slot,
    Table,
    Word,
)
from kvdsl.spec.workload import RequestClass
from kvdsl.units import EXAMPLES, NONE, UNITS, Dimension
from tests.fuzz import specs
from tests.fuzz.specs import CLAIMS, Draw

_OF = {dimension: [n for n, (d, _) in UNITS.items() if d == dimension] for _, (dimension, _) in
       UNITS.items()}  # fmt: skip
_PLURAL = {kind: plural for plural, kind in PLURALS.items()}
_CATALOG = {plural: Catalog().names(plural) for plural in PLURALS}
TEXTS = ("v1", "a page, p. 3", "", "<b>&amp;</b>", "漢字 é", "{0} %s", "=1+1", "C:\\\\x", "a" * 300)
PATHS = (
    '"hardware.kvspec"', '"hardware.kvspec" as hw', '"broken.kvspec"', '"circle.kvspec" as c',
    '"gone.kvspec"', '"../imported/hardware.kvspec" as again', '""', '"."', '"a/b.kvspec" as m',
)  # fmt: skip
IMPORTED = ("hardware.chip", "hardware.tray", "hw.room", "hardware.long_context", "broken.size")


class Pieces:
    """Draws declarations; what it has declared, later ones name."""

    def __init__(self, random: Random) -> None:
        self.draw = Draw(random)
        self.names: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self.lets: list[str] = []

    # --- values ------------------------------------------------------------------------------

    def measure(self, dimension: Dimension, depth: int = 0) -> str:
        """A quantity of that dimension, now and then an expression of it."""
        if depth < 4 and self.draw.chance(0.12):
            return self.expression(dimension, depth + 1)
        number = self.draw.of(("1", "2", "80", "0.5", "3.35", "1_000", "1e3", "7", "100", "0"))
        if self.draw.chance(self.draw.silly):
            number = self.draw.of(("0", "1e40", "9" * 60, "1e-30", "1e99", "0.1", "1"))
        if dimension == NONE:
            return self.draw.of((number, number, f"{number} %"))
        if self.draw.chance(0.03):
            return f"{number} {self.draw.of(tuple(UNITS))}"
        if dimension in _OF:
            return f"{number} {self.draw.of(_OF[dimension])}"
        example = EXAMPLES.get(dimension, "1 GB/s")
        return example if self.draw.chance(0.3) else f"{number} {example.split()[1]}"

    def expression(self, dimension: Dimension, depth: int) -> str:
        one = self.measure(dimension, depth)
        other = self.measure(dimension, depth)
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"{one} + {other}",
            lambda: f"({one} - {other})",
            lambda: f"{self.measure(NONE, depth)} * {one}",
            lambda: f"{one} / {self.measure(NONE, depth)}",
            lambda: f"min({one}, {other})",
            lambda: f"max({one}, {other}, {one})",
            lambda: f"sum([{one}, {other}])",
            lambda: f"ceil({one}, {other})",
            lambda: f"floor({one}, 1)",
            lambda: f"-{one}",
            lambda: self.draw.of(self.lets) if self.lets else one,
            lambda: f"{self.draw.random.randrange(10)} x {one}",
            lambda: f"{one} per node",
            lambda: f"devices.{self.draw.of(_CATALOG['devices'])}.memory",
            lambda: f"{self.reference('device')}.bandwidth * 1 s",
        )
        return self.draw.random.choice(forms)()

    def reference(self, kind: str) -> str:
        own = self.names[kind]
        plural = _PLURAL.get(kind)
        if own and (plural is None or self.draw.chance(0.7)):
            return self.draw.of(own)
        if plural is not None:
            return f"{plural}.{self.draw.of(_CATALOG[plural] or ('nothing',))}"
        return self.draw.of(IMPORTED)

    def value(self, attribute: Attribute, slot: Slot, depth: int) -> str:
        """The right of `=`, or a block where it starts with a brace."""
        match slot:
            case Measured(dimension=dimension):
                return self.measure(dimension)
            case Count():
                return str(self.draw.n())
            case Ratio():
                return self.draw.of(("50 %", "0.5", "1", "100 %", "0", "92 %", "101 %"))
            case Flag():
                return self.draw.of(("true", "false"))
            case Word(choices=choices):
                return self.draw.of(choices or ("vllm", "x1", "native"))
            case Quoted():
                return f'"{self.draw.of(TEXTS)}"'
            case _:
                return self._compound(attribute, slot, depth)

    def _compound(self, attribute: Attribute, slot: Slot, depth: int) -> str:
        match slot:
            case Listed(item=item):
                many = self.draw.random.randrange(4)
                return f"[{', '.join(self.value(attribute, item, depth) for _ in range(many))}]"
            case Referred(kinds=kinds, accepts=accepts):
                kind = self.draw.of((*kinds, *accepts))
                if depth < 2 and self.draw.chance(0.15):
                    return self.block(schema_of(KINDS[kind]), depth + 1)
                return self.reference(kind)
            case Counted(kind=kind):
                one = f"{self.draw.n(16)} x {self.reference(kind)}"
                return one if self.draw.chance(0.8) else f"[{one}, 2 x {self.reference(kind)}]"
            case Selected():
                return self.selection()
            case Nested(words=words):
                if words and self.draw.chance(0.3):
                    return self.draw.of(words)
                assert attribute.block is not None
                return self.block(schema_of(attribute.block), depth + 1)
            case Table(item=item):
                return f"{{ bf16 = {self.value(attribute, item, depth)}; fp8 = 1 PFLOP/s }}"
            case PerScope(dimension=dimension, scopes=scopes):
                return f"{self.measure(dimension)} per {self.draw.of(scopes)}"
            case _:
                return self.draw.of(("1", "x", "[1]", "true"))

    def selection(self) -> str:
        kind = self.draw.of(("cluster", "rack", "node", "device"))
        one = self.reference(kind)
        if kind != "cluster" or self.draw.chance(0.2):
            one = f"{self.draw.n(16)} x {one}"
        first, last = self.draw.random.randrange(4), self.draw.random.randrange(6)
        unit = self.draw.of(("nodes", "devices", "racks"))
        return self.draw.of((one, one, f"{self.reference('cluster')}.{unit}[{first}..{last}, 0]"))

    # --- blocks ------------------------------------------------------------------------------

    def block(self, schema: Schema, depth: int = 0) -> str:
        lines = []
        for name, attribute in schema.attributes.items():
            if attribute.special or not self.draw.chance(0.92 if attribute.required else 0.25):
                continue
            value = self.value(attribute, self.draw.random.choice(attribute.slots), depth)
            sign = " " if value.startswith("{") else " = "
            source = ' from "a page"' if self.draw.chance(0.05) and sign != " " else ""
            lines.append(f"{name}{sign}{value}{source}")
        special = SPECIAL.get(schema.model.__name__)
        if special is not None:
            lines += special(self)
        if self.draw.chance(0.04):
            lines.append(self.draw.of(('source = "a page"', "abstract = true", "drop memory")))
        if self.draw.chance(0.1):
            self.draw.random.shuffle(lines)
        if depth and len(lines) < 5:
            return f"{{ {'; '.join(lines)} }}" if lines else "{ }"
        return "{\n" + "".join(f"  {line}\n" for line in lines) + "}"

    def declaration(self, kind: str) -> str:
        name = f"{kind}_{len(self.names[kind])}"
        body = self.block(schema_of(KINDS[kind]))
        parent = ""
        if self.draw.chance(0.2) and (self.names[kind] or kind in _PLURAL):
            parent = f" extends {self.reference(kind)}"
            body = body if self.draw.chance(0.5) else "{ }"
        self.names[kind].append(name)
        return self.draw.some(0.2, "## Told of it.") + f"{kind} {name}{parent} {body}\n"

    def text(self) -> str:
        parts = [f"import {self.draw.of(PATHS)}\n" for _ in range(self.draw.chance(0.1))]
        for index in range(self.draw.random.choice((0, 0, 0, 1, 3))):
            dimension = self.draw.random.choice(tuple(_OF))
            parts.append(f"let v{index} = {self.measure(dimension)}\n")
            self.lets.append(f"v{index}")
        many = self.draw.random.choice((1, 1, 2, 2, 3, 5))
        parts += [self.declaration(self.draw.of(tuple(KINDS))) for _ in range(many)]
        if self.draw.chance(0.2):
            self.draw.random.shuffle(parts)
        return "kvspec 1\n" + "".join(parts)


def _model(pieces: Pieces) -> list[str]:
    forms = [(kind, form) for kind, each in FORMS.items() for form in each]
    lines, names = [], []
    for index in range(pieces.draw.random.randrange(1, 4)):
        kind, form = pieces.draw.random.choice(forms)
        body = pieces.block(schema_of(FORMS[kind][form]), 1)
        body = body.replace("{", "{ of = p0;", 1) if form == "shared" else body
        lines.append(f"{kind} p{index} = {form} {body}")
        names.append(f"p{index}")
    inner = f"layer {{ {'; '.join(names)} }}"
    runs = pieces.draw.of(
        (
            f"{pieces.draw.n()} x {inner}",
            f"{pieces.draw.n()} x pattern {{ 3 x {inner}; layer {{ p0 }} }}",
            f"{inner}; 2 x pattern {{ {pieces.draw.n(8)} x pattern {{ {inner}; layer {{ }} }} }}",
            f"500 x pattern {{ {inner}; layer {{ p0; norms = 3; extra = 7 }} }}",
        )
    )
    lines.append(f"stack {{ {runs} }}")
    if pieces.draw.chance(0.1):
        lines.append(f"mtp {{ {inner} }}")
    if pieces.draw.chance(0.1):
        lines.append("tower eye { parameters = 1_000; format = formats.bf16 }")
    return lines


def _recipe(pieces: Pieces) -> list[str]:
    form = pieces.reference("format")
    lines = (
        f"default = {form}", f"layers[0..{pieces.draw.n()}] = {form}", f"attention = {form}",
        f"layers[3, 5..7] = {form}", f"routed_experts = {form}", f"p0 = {form}", f"key = {form}",
        f"nothing = {form}",
    )  # fmt: skip
    return pieces.draw.random.sample(lines, pieces.draw.random.randrange(1, 4))


def _workload(pieces: Pieces) -> list[str]:
    if pieces.draw.chance(0.8):
        return []
    many = pieces.draw.random.randrange(1, 4)
    return [f"class c{n} {pieces.block(schema_of(RequestClass), 1)}" for n in range(many)]


def claim(pieces: Pieces) -> str:
    word = pieces.draw.of(("require", "require", "expect"))
    one, other = pieces.draw.of(CLAIMS), pieces.draw.of(CLAIMS)
    said = pieces.draw.of(
        (one, one, f"not ({one})", f"{one} and {other.split(' when')[0]}", f"({one}) or gpus > 1")
    )
    said = one if " when" in one else said
    tail = pieces.draw.some(0.1, 'because "so it is"').strip()
    name = pieces.draw.some(0.1, "as room").strip()
    return " ".join(part for part in (word, said, name, tail) if part)


def _claims(pieces: Pieces) -> list[str]:
    return [claim(pieces) for _ in range(pieces.draw.random.randrange(3))]


def _deployment(pieces: Pieces) -> list[str]:
    draw = pieces.draw
    lines = _claims(pieces)
    if draw.chance(0.2):
        for name in ("prefill", "decode"):
            lines.append(f"pool {name} {pieces.block(schema_of(Pool), 1)}")
    extras = (
        f"compare {pieces.reference('layout')}, layout {{ tp = 2 }}",
        f"sweep {{ layout.tp = [1, {draw.n(8)}]; show = [kv.tokens, gpus] }}",
        f"sweep s {{ workload.context = [1 ktok, {draw.length()}]; kv = [formats.fp8] }}",
        "search { axes = [tp, pp]; devices = 8; minimize = decode.tpot }",
        'allow KV143 because "it is known"',
        f"tiers {{ host {{ tier = {pieces.reference('tier')}; capacity = 1 TB per node }} }}",
        f"draft {pieces.block(schema_of(Draft), 1)}",
        f"weights {{ {'; '.join(_recipe(pieces))} }}",
    )
    return lines + [line for line in extras if draw.chance(0.08)]


SPECIAL: Mapping[str, Callable[[Pieces], list[str]]] = {
    "Model": _model,
    "Recipe": _recipe,
    "Workload": _workload,
    "Deployment": _deployment,
    "Fleet": _claims,
    "Policy": _claims,
}


def piece(random: Random) -> str:
    """A short text of a few declarations."""
    return Pieces(random).text()


def small(random: Random) -> str:
    """A whole spec with a catalog's model and hardware, whose deployment is drawn."""
    draw = Draw(random)
    node = draw.of(specs.NODES)
    model = draw.of(_CATALOG["models"]) if draw.chance(0.3) else draw.of(specs.MODELS)
    text = f"kvspec 1\nlayout l0 {{\n{specs.layout(draw)}}}\nlayout l1 {{ tp = {draw.n(8)} }}\n"
    text += "layout l2 { tp = 8 }\n"
    made = specs.deployment(draw)
    for old, new in (
        ("hall.nodes[0]", f"1 x nodes.{node}"), ("hall.nodes[1..2]", f"2 x nodes.{node}"),
        ("hall.nodes[0..1]", f"2 x nodes.{node}"), ("hall.devices[0, 2..3]", f"4 x nodes.{node}"),
        ("on = hall", f"on = 4 x nodes.{node}"), ("x box", f"x nodes.{node}"),
        ("x gpu", "x devices.h200_sxm"), ("x r\n", "x racks.gb200_nvl72\n"),
        ("over = k", "over = links.infiniband_ndr"), ("model = m\n", f"model = models.{model}\n"),
    ):  # fmt: skip
        made = made.replace(old, new)
    return text + specs.workload(draw, "workload w") + made


def layout_alone(random: Random) -> str:
    """A few layouts, workloads and lets: the cheapest whole texts."""
    draw = Draw(random)
    parts = [f"layout l{n} {{\n{specs.layout(draw)}}}\n" for n in range(random.randrange(1, 4))]
    return "kvspec 1\n" + "".join(parts) + specs.workload(draw, "workload w")


BLOCKS: tuple[type[Block], ...] = tuple(KINDS.values())
"""What `piece` draws; a test asks that each of their attributes comes up."""
