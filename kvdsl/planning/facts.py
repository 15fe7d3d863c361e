"""What a plan was made from: each attribute that somebody wrote, in the spec or in the catalog.

Comes in: a resolved deployment. Goes out: `Fact`s with canonical values, those of the spec by their
path in the deployment, those of the catalog by entry and path. Attributes that nobody wrote are no
facts. Not its job: what two lists of facts have apart (review), or keeping them (lock).

Why: a reviewer asks who moved a number, the author or the catalog. Both are read off the same walk,
so that what a lock keeps is what a review compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from kvdsl.plan import Fact
from kvdsl.resolve.schema import schema_of
from kvdsl.source import Span
from kvdsl.spec.declaration import Block, Declaration, Origin
from kvdsl.spec.deployment import Deployment, Fleet, Rate, Requirement, Waiver
from kvdsl.spec.formats import Recipe, RecipeLine
from kvdsl.spec.hardware import Selection
from kvdsl.spec.slots import Measured, PerScope, Table
from kvdsl.syntax import nodes
from kvdsl.units import BYTES, MONEY_RATE, NONE, Dimension, Quantity, exact, shown, tidy

_FRAME = frozenset(
    {*Declaration.model_fields, *Block.model_fields, "libraries", "pools", "requirements"}
    | {"waivers", "lines"}
)
"""Fields that are no attributes, or that have a walk of their own."""

_EXPRESSIONS = (nodes.Name, nodes.Number, nodes.Measure, nodes.Text, nodes.Truth, nodes.Path,
                nodes.Items, nodes.Call, nodes.Unary, nodes.Binary, nodes.Within)  # fmt: skip
_CATALOG = re.compile(r"catalog/(\w+)/(\w+)\.kvspec")


def deployment_facts(deployment: Deployment) -> tuple[Fact, ...]:
    """Every fact behind a deployment: its own first, then those of each catalog entry."""
    walk = _Walk()
    walk.deployment(deployment)
    return tuple(walk.found.values())


def fleet_facts(fleet: Fleet) -> tuple[Fact, ...]:
    """What a fleet itself says; its deployments have facts of their own."""
    walk = _Walk()
    names = ", ".join(deployment.name for deployment in fleet.deployments)
    walk.fact("", "deployments", f"[{names}]", None, fleet.origins.get("deployments"))
    if fleet.price is not None:
        walk.value(fleet.price, "", "price", MONEY_RATE, fleet.origins.get("price"))
    for requirement in fleet.requirements:
        walk.requirement(requirement)
    return tuple(walk.found.values())


def declaration_facts(declaration: Declaration) -> tuple[Fact, ...]:
    """Facts of one declaration and of the entries below it."""
    walk = _Walk()
    walk.declared(declaration, "", declaration.name)
    return tuple(walk.found.values())


@dataclass(slots=True)
class _Walk:
    found: dict[tuple[str, str], Fact] = field(default_factory=dict)
    entries: set[str] = field(default_factory=set)

    def add(self, fact: Fact) -> None:
        self.found.setdefault(fact.key, fact)

    # --- the deployment ------------------------------------------------------------------------

    def deployment(self, deployment: Deployment) -> None:
        pools = deployment.pools
        for name, pool in pools.items():
            self.block(pool, "", f"pools.{name}" if name else "")
            for library in pool.libraries:
                self.declared(library, "", "")
        self.shared(tuple(name for name in pools if name))
        self.block(deployment, "", "")
        for requirement in deployment.requirements:
            self.requirement(requirement)
        for waiver in deployment.waivers:
            self.waiver(waiver)

    def shared(self, pools: Sequence[str]) -> None:
        """What every pool has from the deployment is told once, without a pool's name."""
        if len(pools) < 2:
            return
        heads = [f"pools.{name}." for name in pools]
        for fact in list(self.found.values()):
            if not fact.path.startswith(heads[0]) or fact.entry:
                continue
            rest = fact.path.removeprefix(heads[0])
            same = [self.found.get(("", head + rest)) for head in heads]
            if all(one and (one.value, one.span) == (fact.value, fact.span) for one in same):
                for head in heads:
                    del self.found["", head + rest]
                self.add(replace(fact, path=rest))

    def requirement(self, requirement: Requirement) -> None:
        text = _one_line(requirement.condition.span)
        told = f"{text} when {_one_line(requirement.when.span)}" if requirement.when else text
        known = ", ".join(f"{n} = {exact(q)}" for n, q in sorted(requirement.constants.items()))
        value = f"{told} where {known}" if known else told
        name = requirement.label or text
        path = f"{requirement.keyword} {name}"
        self.add(Fact("", path, value, told, source=requirement.because or "",
                      span=requirement.span))  # fmt: skip

    def waiver(self, waiver: Waiver) -> None:
        self.add(Fact("", f"allow {waiver.code}", _one_line(waiver.span), _one_line(waiver.span),
                      span=waiver.span))  # fmt: skip

    # --- blocks --------------------------------------------------------------------------------

    def block(self, block: Block, entry: str, path: str) -> None:
        schema = schema_of(type(block)).attributes
        for name in type(block).model_fields:
            if name in _FRAME:
                continue
            value = getattr(block, name)
            if value is None or _untouched(block, name, value):
                continue
            attribute = schema.get(name)
            slots = attribute.slots if attribute else ()
            dimension = next((_dimension(s) for s in slots if _dimension(s)), None)
            below = f"{path}.{name}" if path else name
            self.value(value, entry, below, dimension, block.origins.get(name))
        if isinstance(block, Recipe):
            for line in block.lines:
                self.line(line, entry, path)

    def line(self, line: RecipeLine, entry: str, path: str) -> None:
        runs = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in line.layers)
        name = f"{line.name}[{runs}]" if runs else line.name
        below = path if name == "default" and path else f"{path}.{name}" if path else name
        self.declared(line.format, entry, below)

    def declared(self, declaration: Declaration, entry: str, path: str) -> None:
        """A declaration that another names: the catalog's by its name and once, others inline."""
        title = declaration.catalog
        if not title:
            self.block(declaration, entry, path)
            return
        if path:
            self.add(Fact(entry, path, title, title))
        if title not in self.entries:
            self.entries.add(title)
            self.block(declaration, title, "")

    # --- values --------------------------------------------------------------------------------

    def value(
        self,
        value: object,
        entry: str,
        path: str,
        dimension: Dimension | None,
        origin: Origin | None,
    ) -> None:
        match value:
            case Selection():
                self.selection(value, entry, path, origin)
            case Declaration():
                self.declared(value, entry, path)
                _located(self.found, (entry, path), origin)
            case Rate():
                of = Quantity(value.value, dimension or NONE)
                text = f"{exact(of)} per {value.scope}"
                self.fact(entry, path, text, None, origin)
            case Block():
                self.inner(value, entry, path, origin)
            case Mapping():
                for name, item in value.items():
                    self.value(item, entry, f"{path}.{name}", dimension, None)
                    _located(self.found, (entry, f"{path}.{name}"), origin)
            case tuple() | list():
                self.items(value, entry, path, dimension, origin)
            case _:
                self.scalar(value, entry, path, dimension, origin)

    def inner(self, block: Block, entry: str, path: str, origin: Origin | None) -> None:
        """A block, or so many of a declaration: `8 x devices.h200_sxm`."""
        of = getattr(block, "of", None)
        count = getattr(block, "count", None)
        if isinstance(of, Declaration) and isinstance(count, int):
            title = of.catalog or of.name or "inline"
            self.fact(entry, path, f"{count} x {title}", None, origin)
            self.declared(of, entry, "" if of.catalog else f"{path}.of")
            return
        form = getattr(block, "form", None)
        if isinstance(form, str):
            self.fact(entry, f"{path}.form", form, None, None)
        self.block(block, entry, path)

    def selection(self, on: Selection, entry: str, path: str, origin: Origin | None) -> None:
        text = on.of.catalog or on.of.name or "inline"
        text += on.pick.text if on.pick is not None else ""
        self.fact(entry, path, f"{on.count} x {text}" if on.count > 1 else text, None, origin)
        self.declared(on.of, entry, "" if on.of.catalog else f"{path}.{on.of.name or 'of'}")

    def items(
        self,
        items: Iterable[object],
        entry: str,
        path: str,
        dimension: Dimension | None,
        origin: Origin | None,
    ) -> None:
        every = list(items)
        if every and all(isinstance(item, Block) for item in every):
            for index, item in enumerate(every):
                name = getattr(item, "name", "") or str(index)
                below = path if len(every) == 1 and not getattr(item, "name", "") else (
                    f"{path}.{name}"
                )  # fmt: skip
                self.value(item, entry, below, dimension, origin if below == path else None)
            return
        text = ", ".join(_text(item, dimension) for item in every)
        self.fact(entry, path, f"[{text}]", None, origin)

    def scalar(
        self,
        value: object,
        entry: str,
        path: str,
        dimension: Dimension | None,
        origin: Origin | None,
    ) -> None:
        number = isinstance(value, int | Fraction | float) and not isinstance(value, bool)
        quantity = Quantity(value, dimension or NONE) if number else None  # type: ignore[arg-type]
        text = _text(value, dimension)
        if isinstance(value, str) and origin is not None and origin.span.text.startswith('"'):
            text = f'"{text}"'  # so that a lock can be read as kvspec again
        self.fact(entry, path, text, quantity, origin)

    def fact(
        self,
        entry: str,
        path: str,
        text: str,
        quantity: Quantity | None,
        origin: Origin | None,
    ) -> None:
        written = _one_line(origin.span) if origin else ""
        source = (origin.source or "") if origin else ""
        span = origin.span if origin else None
        if not entry and span is not None and (named := _CATALOG.fullmatch(span.file.name)):
            # Inherited: the catalog says it, inside the entry that the spec's own one extends.
            entry, path = f"{named[1]}.{named[2]}", path.rpartition(".")[2]
        self.add(Fact(entry, path, text, written, quantity, source, span))


def _located(
    found: dict[tuple[str, str], Fact], key: tuple[str, str], origin: Origin | None
) -> None:
    """The fact with its place, where the walk below it knew none."""
    fact = found.get(key)
    if fact is not None and fact.span is None and origin is not None:
        found[key] = replace(fact, source=origin.source or "", span=origin.span)


def _untouched(block: Block, name: str, value: object) -> bool:
    """Whether nobody wrote it: no origin, and the model's own default."""
    if name in block.origins:
        return False
    info = type(block).model_fields[name]
    default = info.get_default(call_default_factory=True)
    return bool(value == default)


def _dimension(slot: object) -> Dimension | None:
    match slot:
        case Measured(dimension=dimension) | PerScope(dimension=dimension):
            return dimension
        case Table(item=Measured(dimension=dimension)):
            return dimension
        case _:
            return None


def _text(value: object, dimension: Dimension | None) -> str:
    """One spelling for each value: `4.8 TB/s` where that is exact, else base units."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Fraction():
            return _exactly(Quantity(tidy(value), dimension or NONE))
        case Quantity():
            return _exactly(value)
        case tuple():
            return "[" + ", ".join(_text(item, dimension) for item in value) + "]"
        case Span():
            return _one_line(value)
        case _ if isinstance(value, _EXPRESSIONS):
            return _one_line(value.span)
        case Mapping():
            return "{" + ", ".join(f"{k} = {_text(v, dimension)}" for k, v in value.items()) + "}"
        case _:
            return str(value)


def _exactly(quantity: Quantity) -> str:
    """As a person writes it if that loses nothing: 4,800,000,000,000 B/s is 4.8 TB/s."""
    text = shown(quantity).replace(",", "_")
    number, _, unit_name = text.partition(" ")
    try:
        whole = Fraction(number.replace("_", ""))
        if unit_name and Quantity.of(whole, unit_name) == quantity:
            return f"{number} {unit_name}"
        if not unit_name and whole == quantity.value:
            return number
    except (KeyError, ValueError):
        pass
    if quantity.dimension == BYTES:
        return _in_whole(quantity)
    return exact(quantity)


_WHOLE_UNITS = ("TiB", "GiB", "MiB", "KiB", "B", "bit")


def _in_whole(quantity: Quantity) -> str:
    """Bytes in the largest unit that has a whole number of them: 85,520,809,984 B is 81,559 MiB."""
    for name in _WHOLE_UNITS:
        number = quantity.in_unit(name)
        if isinstance(number, int):
            return f"{number} {name}"
    return exact(quantity)


def _one_line(span: Span) -> str:
    return " ".join(span.text.split())


def entries(facts: Iterable[Fact]) -> Iterator[tuple[str, list[Fact]]]:
    """Facts of each catalog entry, by name."""
    by_entry: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.entry:
            by_entry.setdefault(fact.entry, []).append(fact)
    yield from sorted(by_entry.items())
