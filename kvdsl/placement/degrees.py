"""Degrees: the sizes of a layout's axes, by the size rule.

Comes in: a layout's text, resolved. Goes out: `Degrees`, which say how many devices a stage has and
how each module is cut, and which print as a layout again. This is the only module that reads a
layout: costs and checks see degrees, and a finding's alternative is degrees too.

The size rule: S is `tp`, or else the product of the axes of each written block; all must agree. In
a block that writes an axis the others are 1; a module without a block has tp = S.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from kvdsl.diagnostics import Diagnostic, Label, Message
from kvdsl.source import Span
from kvdsl.spec.declaration import Block
from kvdsl.spec.layout import Layout
from kvdsl.units import counted

STAGE_LIMIT = 65_536
"""Most devices of one stage: enough for any machine, small enough to be walked."""

STAGES_LIMIT = 1024
"""Most stages: more than any model in use has layers."""


@dataclass(frozen=True, slots=True)
class AttentionAxes:
    dp: int = 1
    cp: int = 1
    pcp: int = 1
    tp: int = 1
    interleave: int = 1
    latent_split: bool = False
    exact: bool = True
    output_split: bool = False
    ring: bool = False
    overlap: bool = False

    @property
    def size(self) -> int:
        return self.dp * self.cp * self.pcp * self.tp

    @property
    def manner(self) -> tuple[str, ...]:
        """What is said of attention beside its sizes, as statements of a layout."""
        said = (
            (f"interleave = {self.interleave} tok", self.interleave > 1),
            ("latent = split", self.latent_split),
            ("exact = false", not self.exact),
            ("output = split", self.output_split),
            ("prompt = ring", self.ring),
            ("overlap = true", self.overlap),
        )
        return tuple(text for text, holds in said if holds)


@dataclass(frozen=True, slots=True)
class WidthAxes:
    dp: int = 1
    tp: int = 1

    @property
    def size(self) -> int:
        return self.dp * self.tp


@dataclass(frozen=True, slots=True)
class ExpertAxes:
    ep: int = 1
    tp: int = 1
    redundant: int = 0

    @property
    def size(self) -> int:
        return self.ep * self.tp


@dataclass(frozen=True, slots=True)
class Degrees:
    """Sizes of all axes. `stage_layers` is None where stages are even; `said` are the blocks that
    the layout writes (`attention`, `ffn`, …): the others follow from the size rule."""

    size: int
    pp: int
    attention: AttentionAxes
    ffn: WidthAxes
    shared: WidthAxes
    vocab: WidthAxes
    experts: ExpertAxes
    replicas: int = 1
    stage_layers: tuple[int, ...] | None = None
    order: tuple[str, ...] = ("replicas", "pp", "dp", "cp", "pcp", "tp")
    name: str = ""
    said: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def devices(self) -> int:
        return self.size * self.pp * self.replicas

    @property
    def holders(self) -> int:
        """Sets of devices that each hold a request whole: DP ranks of all replicas."""
        return self.attention.dp * self.replicas

    def text(self) -> str:
        """As the body of a layout: `tp = 8; pp = 2`."""
        plain = uniform(self.size)
        said = [f"tp = {self.size}"] if self._says_tp() else []
        said += [f"pp = {self.pp}"] if self.pp > 1 else []
        if self.stage_layers is not None:
            said.append(f"stages = [{', '.join(map(str, self.stage_layers))}]")
        for word, axes, names in (
            ("attention", self.attention, ("dp", "cp", "pcp", "tp")),
            ("ffn", self.ffn, ("dp", "tp")),
            ("shared_experts", self.shared, ("dp", "tp")),
            ("vocab", self.vocab, ("dp", "tp")),
            ("experts", self.experts, ("ep", "tp", "redundant")),
        ):
            follows = self.ffn if word == "shared_experts" else _block(plain, word)
            if axes != follows:
                sizes = [(n, _size(axes, n)) for n in names]
                parts = [f"{n} = {v}" for n, v in sizes if v > (n != "redundant")]
                parts += axes.manner if isinstance(axes, AttentionAxes) else ()
                inner = "; ".join(parts)
                said.append(f"{word} {{ {inner or 'tp = 1'} }}")
        said += [f"replicas = {self.replicas}"] if self.replicas > 1 else []
        return "; ".join(said)

    def _says_tp(self) -> bool:
        """Where attention has a block, that has its tp."""
        return self.attention == uniform(self.size).attention

    def with_stages(self, pp: int, layers: tuple[int, ...] | None = None) -> Degrees:
        return replace(self, pp=pp, stage_layers=layers, name="")


def uniform(size: int, pp: int = 1, replicas: int = 1) -> Degrees:
    """`tp = size; pp = pp`: every module cut `size` ways."""
    wide = WidthAxes(tp=size)
    return Degrees(
        size, pp, AttentionAxes(tp=size), wide, wide, wide, ExpertAxes(tp=size), replicas
    )


def attention_dp(size: int, dp: int, pp: int = 1, replicas: int = 1) -> Degrees:
    """DP attention beside experts over all devices: `attention { dp; tp }; experts { ep }`."""
    return replace(
        uniform(size, pp, replicas),
        attention=AttentionAxes(dp=dp, tp=size // dp),
        experts=ExpertAxes(ep=size),
    )


def _block(degrees: Degrees, word: str) -> object:
    table = {
        "attention": degrees.attention,
        "ffn": degrees.ffn,
        "shared_experts": degrees.shared,
        "vocab": degrees.vocab,
        "experts": degrees.experts,
    }
    return table[word]


def _size(axes: AttentionAxes | WidthAxes | ExpertAxes, name: str) -> int:
    sizes = {
        AttentionAxes: lambda a: {"dp": a.dp, "cp": a.cp, "pcp": a.pcp, "tp": a.tp},
        WidthAxes: lambda a: {"dp": a.dp, "tp": a.tp},
        ExpertAxes: lambda a: {"ep": a.ep, "tp": a.tp, "redundant": a.redundant},
    }
    return int(sizes[type(axes)](axes)[name])


# --- the size rule -----------------------------------------------------------------------------

CODES: tuple[tuple[str, str, str], ...] = (
    ("KV080", "sizes-disagree", "A block of a layout cuts more or fewer ways than a stage has."),
    ("KV081", "stage-too-large", "A stage has more devices than kvdsl plans."),
    ("KV082", "bad-order", "The order of a layout does not name each axis once."),
    ("KV083", "too-many-stages", "A layout has more stages than kvdsl plans."),
)


@dataclass(frozen=True, slots=True)
class SizesDisagree(Message):
    code: ClassVar[str] = "KV080"
    headline: ClassVar[str] = (
        "{block} cuts {product:ways}, but a stage of this layout has {size:devices}"
    )
    label: ClassVar[str] = "{arithmetic} = {product}"
    notes: ClassVar[tuple[str, ...]] = ("{reason}",)
    helps: ClassVar[tuple[str, ...]] = ("write `{fix}`",)
    span: Span
    block: str
    product: int
    size: int
    arithmetic: str
    reason: str
    fix: str | None


@dataclass(frozen=True, slots=True)
class StageTooLarge(Message):
    code: ClassVar[str] = "KV081"
    headline: ClassVar[str] = "a stage of this layout has {size:devices}"
    notes: ClassVar[tuple[str, ...]] = ("kvdsl plans up to {limit:devices} a stage",)
    span: Span
    size: int
    limit: int


@dataclass(frozen=True, slots=True)
class TooManyStages(Message):
    code: ClassVar[str] = "KV083"
    headline: ClassVar[str] = "this layout has {stages:stages}"
    notes: ClassVar[tuple[str, ...]] = ("kvdsl plans up to {limit:stages}",)
    span: Span
    stages: int
    limit: int


@dataclass(frozen=True, slots=True)
class BadOrder(Message):
    code: ClassVar[str] = "KV082"
    headline: ClassVar[str] = "the order of this layout {fault}"
    helps: ClassVar[tuple[str, ...]] = (
        "name each axis once, outermost first: `order = [replicas, pp, dp, cp, pcp, tp]`",
    )
    span: Span
    fault: str


def degrees(
    layout: Layout, replicas: int, place: Span
) -> tuple[Degrees | None, tuple[Diagnostic, ...]]:
    """The degrees of a layout; `replicas` are the deployment's or pool's, times the layout's."""
    blocks = _written(layout)
    size = layout.tp or next((product for _, _, product, _ in blocks), 1)
    faults = [
        _disagreement(layout, written, size, blocks[0], place)
        for written in blocks
        if written[2] != size
    ]
    if size > STAGE_LIMIT:
        faults.append(StageTooLarge(_at(layout, "tp", place), size, STAGE_LIMIT).diagnostic())
    if layout.pp > STAGES_LIMIT:
        faults.append(TooManyStages(_at(layout, "pp", place), layout.pp, STAGES_LIMIT).diagnostic())
    faults.extend(_order_faults(layout, place))
    if faults:
        return None, tuple(faults)
    return _assembled(layout, size, replicas), ()


def _assembled(layout: Layout, size: int, replicas: int) -> Degrees:
    wide = WidthAxes(tp=size)
    given = layout.attention
    attention = AttentionAxes(tp=size)
    if given is not None:
        if _axes_written(given):
            attention = AttentionAxes(given.dp, given.cp, given.pcp, given.tp)
        attention = replace(
            attention,
            interleave=given.interleave,
            latent_split=given.latent == "split",
            exact=given.exact,
            output_split=given.output == "split",
            ring=given.prompt == "ring",
            overlap=given.overlap,
        )
    ffn = WidthAxes(layout.ffn.dp, layout.ffn.tp) if layout.ffn else wide
    shared = (
        WidthAxes(layout.shared_experts.dp, layout.shared_experts.tp)
        if layout.shared_experts
        else ffn
    )
    vocab = WidthAxes(layout.vocab.dp, layout.vocab.tp) if layout.vocab else wide
    experts = ExpertAxes(tp=size)
    if layout.experts is not None:
        e = layout.experts
        experts = (
            ExpertAxes(e.ep, e.tp, e.redundant)
            if _axes_written(e)
            else ExpertAxes(tp=size, redundant=e.redundant)
        )
    return Degrees(
        size,
        layout.pp,
        attention,
        ffn,
        shared,
        vocab,
        experts,
        replicas * layout.replicas,
        layout.stages,
        tuple(axis for axis in layout.order if axis != "ep"),
        layout.name,
        frozenset(word for word, _, _, _ in _written(layout)),
    )


_AXES = frozenset({"dp", "cp", "pcp", "tp", "ep"})
_Axes = tuple[str, Block, int, str]
_Written = list[_Axes]


def _axes_written(block: Block) -> bool:
    return any(name in _AXES for name in block.model_fields_set)


def _written(layout: Layout) -> _Written:
    """Blocks that write an axis: word, block, product, the product as a text."""
    found: _Written = []
    for word, block in (
        ("attention", layout.attention),
        ("ffn", layout.ffn),
        ("shared_experts", layout.shared_experts),
        ("vocab", layout.vocab),
        ("experts", layout.experts),
    ):
        if block is None or not _axes_written(block):
            continue
        sizes = block.model_dump(include=set(_AXES))
        said = [(axis, sizes[axis]) for axis in sizes if axis in block.model_fields_set]
        product = 1
        for _, value in said:
            product *= value
        found.append((word, block, product, " x ".join(f"{a} {v}" for a, v in said)))
    return found


def _at(block: Block, attribute: str, otherwise: Span) -> Span:
    origin = block.origin(attribute)
    if origin is not None:
        return origin.span
    return block.at or otherwise


def _disagreement(
    layout: Layout,
    written: _Axes,
    size: int,
    leader: _Axes,
    place: Span,
) -> Diagnostic:
    word, block, product, arithmetic = written
    fix = None
    if product < size and size % product == 0 and "tp" not in block.model_fields_set:
        said = "; ".join(" = ".join(p.split(" ")) for p in arithmetic.split(" x "))
        fix = f"{word} {{ {said}; tp = {size // product} }}"
    labels: tuple[Label, ...]
    if layout.tp is not None:
        reason = f"`tp = {size}` says how many devices a stage has; axes left out are 1"
        labels = (Label(_at(layout, "tp", place), f"a stage has {counted(size, 'devices')}"),)
    else:
        first, first_block, _, first_text = leader
        reason = f"{first} ({first_text}) says {size}, and every block must agree"
        labels = (Label(first_block.at or place, f"{first_text} = {size}"),)
    message = SizesDisagree(block.at or place, word, product, size, arithmetic, reason, fix)
    return message.diagnostic(*labels)


def _order_faults(layout: Layout, place: Span) -> list[Diagnostic]:
    known = ("replicas", "pp", "dp", "cp", "pcp", "tp")
    named = [axis for axis in layout.order if axis != "ep"]
    missing = [axis for axis in known if axis not in named]
    twice = sorted({axis for axis in named if named.count(axis) > 1})
    fault = ""
    if twice:
        fault = f"names {', '.join(twice)} twice"
    elif missing:
        fault = f"leaves out {', '.join(missing)}"
    return [BadOrder(_at(layout, "order", place), fault).diagnostic()] if fault else []
