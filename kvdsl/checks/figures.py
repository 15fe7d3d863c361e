"""Rules on figures as they are written: GB beside GiB."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from kvdsl.checks.bounds import bounds
from kvdsl.checks.study import Fact, Study, told_apart
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.memory import DEFAULT_UTILIZATION, fullest
from kvdsl.diagnostics import Label, Severity
from kvdsl.placement.subject import Subject
from kvdsl.rules import Rule, rule
from kvdsl.source import Span
from kvdsl.spec.declaration import Block
from kvdsl.units import Quantity, grouped, shown, unit

UNIT = re.compile(r"(?<=[\d ])([kKMGTP])(i?)B\b")
"""A unit of bytes behind a number: its prefix, and whether it is binary."""

KV_TOKENS = "kv.tokens"
STAKES = ", and an answer depends on which was meant"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of bytes as it was written: its unit, and the same letter's other reading."""

    word: str
    span: Span
    unit: str
    other: str

    @property
    def factor(self) -> Fraction:
        """What the figure becomes if the other unit was meant, over what it is."""
        meant, said = unit(self.other), unit(self.unit)
        return meant[1] / said[1] if meant is not None and said is not None else Fraction(1)

    @property
    def apart(self) -> Quantity:
        """How far the two readings lie apart, of the smaller one: 7.37 % for GB and GiB."""
        return Quantity(max(self.factor, 1 / self.factor) - 1)

    @property
    def binary(self) -> bool:
        return self.unit.endswith("iB")


def _figure(word: str, span: Span | None) -> Figure | None:
    found = UNIT.findall(span.text) if span is not None else []
    units = dict.fromkeys(found)
    if span is None or len(units) != 1:
        return None
    prefix, binary = next(iter(units))
    pair = f"{prefix.upper()}iB", f"{prefix.replace('K', 'k')}B"
    return Figure(word, span, *(pair if binary else pair[::-1]))


def _written(word: str, block: Block, attribute: str) -> Figure | None:
    origin = block.origin(attribute)
    return _figure(word, origin.span if origin is not None else None)


def _reread(subject: Subject, figure: Figure) -> Subject:
    """The subject as it would be if the other unit was meant."""
    budget, factor = subject.budget, figure.factor
    if figure.word == "memory":
        # utilization x (factor x memory) is (factor x utilization) x memory.
        share = budget.utilization
        if share is None and subject.engine is not None:
            share = subject.engine.utilization
        changed = {"utilization": factor * (DEFAULT_UTILIZATION if share is None else share)}
    else:
        value = {"reserve": budget.reserve, "kv": budget.kv}[figure.word] or 0
        changed = {figure.word: Fraction(value) * factor}
    return subject.with_budget(budget.model_copy(update=changed))


def _decided(study: Study, found: Estimate) -> tuple[bool | None, ...]:
    """What the plan says yes or no to: whether weights fit, the load fits, each bound holds."""
    asked = study.subject.workload.concurrency
    fits = found.fits
    served = None if asked is None else bool(found.values["kv.sequences"].value >= asked)
    known = study.room_of(study.subject).values
    held = [b.holds(found) for b in bounds(study) if b.name in known]
    return (fits, served, *held)


READINGS = {
    "reserve": "one is subtracted from the other",
    "kv": "one is a part of the other",
}
"""What a figure of the budget and the device's memory have to do with one another."""


@rule(
    "KV140",
    "mixed-units",
    Severity.ERROR,
    "costs",
    "`{this}` is written in {unit} and the device's memory in {base}{stakes}",
    label="{reading}",
    notes=(
        "as written the cache holds {before}; with {changed} in the other unit it holds {after}",
    ),
    helps=("write both in one unit, the one of the figure's source",),
    also=(Severity.INFO,),
)
def mixed_units(study: Study) -> Iterator[Fact]:
    """GB and GiB in figures that are subtracted from or compared with one another.

    What it checks
        The device's `memory`, the budget's `reserve` and `kv`, and bounds on `memory.` values are
        written in decimal units, or all in binary ones. It is an error where reading one of them
        in the other unit changes an answer: whether weights fit, whether the load fits, whether a
        bound holds. Otherwise a subtraction of mixed units is information. An engine's `overhead`
        is left alone: logs are in GiB.

    Why it matters
        1 GiB is 7.4 % more than 1 GB, and what is left after a subtraction differs by more. Units
        are never mixed by silence here, but a figure copied under the wrong one is.

    Example
        device card {
          memory    = 80 GiB
          bandwidth = 3.35 TB/s
          compute   { bf16 = 989 TFLOP/s }
        }
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x card
          layout   { tp = 1 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
          require kv.tokens >= 420 ktok as room
        }

    Instead
        The unit that the figure's source has.

        device sold extends card { memory = 80 GB }

        deployment better extends served {
          on = 1 x sold
          require kv.tokens >= 400 ktok as room
        }
    """
    subject = study.subject
    device = fullest(study.costs.ledgers).rank.device
    memory = _written("memory", device, "memory")
    if memory is None:
        return
    for word in ("reserve", "kv"):
        figure = _written(word, subject.budget, word)
        if figure is not None and figure.binary != memory.binary and _counts(word, subject):
            yield _subtracted(study, figure, memory)
    yield from _compared(study, memory)


def _counts(word: str, subject: Subject) -> bool:
    """A reserve is subtracted from nothing where the cache is given outright."""
    return word == "kv" or subject.budget.kv is None


def _subtracted(study: Study, figure: Figure, memory: Figure) -> Fact:
    """A figure of the budget. A catalog's memory is right; a user's may be the one that is not."""
    found = study.costs
    device = fullest(found.ledgers).rank.device
    # A cache that is given holds the same in a device of any size: its own unit is asked first.
    readings = [figure, memory] if figure.word == "kv" else [memory, figure]
    readings = [figure] if device.catalog else readings
    others = [(each, study.room_of(_reread(study.subject, each))) for each in readings]
    turning = [(f, o) for f, o in others if _decided(study, o) != _decided(study, found)]
    changed, other = (turning or others)[0]
    before, after = found.values[KV_TOKENS].quantity, other.values[KV_TOKENS].quantity
    return Fact(
        figure.span,
        {
            "this": figure.word,
            "unit": figure.unit,
            "base": memory.unit,
            "stakes": STAKES if turning else "",
            "reading": READINGS[figure.word],
            "changed": f"`{changed.word}`",
            "before": before,
            "after": after if told_apart(before, after) else "",
        },
        (
            ("units apart", figure.apart),
            ("as written", before),
            (f"with {changed.word} in the other unit", after),
        ),
        labels=(Label(memory.span, f"in {memory.unit}"),),
        severity=None if turning else Severity.INFO,
    )


def _compared(study: Study, memory: Figure) -> Iterator[Fact]:
    """Bounds on values of memory, in the other unit than the device's, that turn on it."""
    for bound in bounds(study):
        if bound.written is None or not bound.name.startswith("memory."):
            continue
        figure = _figure(bound.name, bound.written.span)
        if figure is None or figure.binary == memory.binary:
            continue
        meant = Fraction(bound.value.value) * figure.factor
        if bound.holds(study.costs) == bound.holds(study.costs, meant):
            continue
        value = study.costs.values[bound.name].quantity
        yield Fact(
            figure.span,
            {
                "this": bound.written.span.text,
                "unit": figure.unit,
                "base": memory.unit,
                "stakes": STAKES,
                "reading": f"{bound.name} is {shown(value)}, in {figure.unit} "
                f"{grouped(value.in_unit(figure.unit))}",
                "changed": "",
            },
            (
                ("units apart", figure.apart),
                (bound.name, value),
                ("bound", bound.value),
                ("in the other unit", Quantity(meant, value.dimension)),
            ),
            labels=(Label(memory.span, f"in {memory.unit}"),),
        )


RULES: tuple[Rule, ...] = (mixed_units,)
