"""What a user is told about values: types, units, dimensions, bounds. KV040 to KV059.

Comes in: facts. Goes out: diagnostics with the arithmetic and a way out. Not its job: finding
anything wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from kvdsl import units
from kvdsl.diagnostics import Message
from kvdsl.resolve.naming_messages import DID_YOU_MEAN
from kvdsl.source import Span
from kvdsl.syntax.nodes import Expr, Measure, Number
from kvdsl.units import Dimension

CODES: tuple[tuple[str, str, str], ...] = (
    ("KV040", "wrong-dimension", "A quantity has another dimension than its attribute."),
    ("KV041", "mixed-dimensions", "An operation joins quantities of different dimensions."),
    ("KV042", "wrong-type", "A value is of another type than its place asks for."),
    ("KV043", "not-whole", "A count, or a number of bytes, tokens or requests, is not whole."),
    ("KV044", "out-of-bounds", "A value is below the least or above the most that is allowed."),
    ("KV045", "unknown-word", "A word is none of those that may stand there."),
    ("KV046", "wrong-kind", "A reference leads to a declaration of another kind."),
    ("KV047", "division-by-zero", "A division is by zero."),
    ("KV048", "too-large", "A number is too large to mean anything."),
    ("KV049", "bad-selection", "A selection names units that the hardware does not have."),
    ("KV050", "missing-scope", "A quantity per device, node, rack or cluster lacks its `per`."),
    ("KV051", "bad-call", "A function is unknown, or called with the wrong arguments."),
    ("KV052", "no-condition", "A condition stands for a value, or a value for a condition."),
    ("KV053", "exact-time", "A time or rate is compared with `==`; it is rounded."),
    ("KV054", "unanswerable", "A requirement asks what no plan answers."),
    ("KV055", "no-value", "An attribute is asked for that its declaration does not have."),
)


@dataclass(frozen=True)
class WrongDimension(Message):
    code: ClassVar[str] = "KV040"
    headline: ClassVar[str] = "`{name}` wants {wanted}, and this is {given}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    name: str
    wanted: str
    given: str
    way_out: str | None


@dataclass(frozen=True)
class MixedDimensions(Message):
    code: ClassVar[str] = "KV041"
    headline: ClassVar[str] = "`{operator}` cannot join {left} and {right}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    operator: str
    left: str
    right: str
    way_out: str | None = None


@dataclass(frozen=True)
class WrongType(Message):
    code: ClassVar[str] = "KV042"
    headline: ClassVar[str] = "{place} wants {wanted}, and this is {given}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    place: str
    wanted: str
    given: str
    way_out: str | None = None


@dataclass(frozen=True)
class NotWhole(Message):
    code: ClassVar[str] = "KV043"
    headline: ClassVar[str] = "`{name}` must be whole, and this is {value}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    name: str
    value: str
    way_out: str | None = "round it with `ceil(…, 1)` or `floor(…, 1)`, or write another figure"


@dataclass(frozen=True)
class OutOfBounds(Message):
    code: ClassVar[str] = "KV044"
    headline: ClassVar[str] = "`{name}` must be {bound}, and this is {value}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    name: str
    bound: str
    value: str
    way_out: str | None = None


@dataclass(frozen=True)
class UnknownWord(Message):
    code: ClassVar[str] = "KV045"
    headline: ClassVar[str] = "`{name}` cannot be `{word}`"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "it is {choices}")
    span: Span
    name: str
    word: str
    choices: str
    near: str | None = None


@dataclass(frozen=True)
class WrongKind(Message):
    code: ClassVar[str] = "KV046"
    headline: ClassVar[str] = "{place} wants {wanted}, and `{title}` is {kind}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    place: str
    wanted: str
    title: str
    kind: str
    way_out: str | None = None


@dataclass(frozen=True)
class DivisionByZero(Message):
    code: ClassVar[str] = "KV047"
    headline: ClassVar[str] = "this divides by zero"
    notes: ClassVar[tuple[str, ...]] = ("`{text}` is {value}",)
    span: Span
    text: str
    value: str


@dataclass(frozen=True)
class TooLarge(Message):
    code: ClassVar[str] = "KV048"
    headline: ClassVar[str] = "this is more than {most}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    most: str
    way_out: str | None = "check the exponent and the unit"


@dataclass(frozen=True)
class BadSelection(Message):
    code: ClassVar[str] = "KV049"
    headline: ClassVar[str] = "{reason}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    reason: str
    way_out: str | None = None


@dataclass(frozen=True)
class MissingScope(Message):
    code: ClassVar[str] = "KV050"
    headline: ClassVar[str] = "`{name}` is {reason}"
    helps: ClassVar[tuple[str, ...]] = ("write `{example}`",)
    span: Span
    name: str
    reason: str
    example: str


@dataclass(frozen=True)
class BadCall(Message):
    code: ClassVar[str] = "KV051"
    headline: ClassVar[str] = "{reason}"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{way_out}")
    span: Span
    reason: str
    near: str | None = None
    way_out: str | None = None


@dataclass(frozen=True)
class NoCondition(Message):
    code: ClassVar[str] = "KV052"
    headline: ClassVar[str] = "{reason}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    reason: str
    way_out: str | None = None


@dataclass(frozen=True)
class ExactTime(Message):
    code: ClassVar[str] = "KV053"
    headline: ClassVar[str] = "{noun} is rounded, so `{operator}` cannot be relied on"
    helps: ClassVar[tuple[str, ...]] = ("write `{left} within 5 % of {right}`",)
    span: Span
    noun: str
    operator: str
    left: str
    right: str


@dataclass(frozen=True)
class Unanswerable(Message):
    code: ClassVar[str] = "KV054"
    headline: ClassVar[str] = "a plan does not answer `{name}`"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{hint}")
    span: Span
    name: str
    near: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class NoValue(Message):
    code: ClassVar[str] = "KV055"
    headline: ClassVar[str] = "{owner} {reason}"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{hint}")
    span: Span
    owner: str
    reason: str
    near: str | None = None
    hint: str | None = None


# --- ways out ----------------------------------------------------------------------------------

_SMALL: Mapping[str, str] = MappingProxyType(
    {"bits": "8 bit", "scale": "8 bit", "zero": "8 bit", "granularity": "4 KiB", "reserve": "3 GB",
     "latency": "5 us", "hop": "1 us", "kv": "40 GB", "step": "8192 tok", "rate": "6 req/s"}
)  # fmt: skip
"""Examples closer to what an attribute holds than its dimension's own."""


def example_of(name: str, dimension: Dimension) -> str:
    own = _SMALL.get(name)
    if own is not None and units.unit(own.split(" ")[1]) is not None:
        known = units.unit(own.split(" ")[1])
        if known is not None and known[0] == dimension:
            return own
    return units.EXAMPLES.get(dimension, f"1 {dimension.base_unit}")


def way_to(name: str, wanted: Dimension, given: Dimension, expr: Expr) -> str | None:
    """What to write instead: the same figure with the unit that was likely meant."""
    if wanted == units.NONE:
        return "write the number alone, without a unit"
    example = example_of(name, wanted)
    match expr:
        case Measure(number=number, unit=unit):
            for guess in _likely(unit, wanted):
                known = units.unit(guess)
                if known is not None and known[0] == wanted:
                    return f"write `{number} {guess}`, if that is meant"
        case Number(span=span) if given == units.NONE:
            unit = example.split(" ", 1)[1]
            return f"write a unit, as in `{span.text} {unit}`"
        case _:
            pass
    return f"write {wanted.noun}, as in `{example}`"


def _likely(unit: str, wanted: Dimension) -> tuple[str, ...]:
    """Units that differ from the one written by what people forget: `/s`, `/h`, tok for req."""
    above, slash, _ = unit.partition("/")
    base = units.EXAMPLES.get(wanted, "1 1").split(" ", 1)[1]
    if slash:
        return (above, base)
    return (f"{unit}/s", f"{unit}/h", f"{unit}/tok", *((base,) if unit in ("tok", "req") else ()))
