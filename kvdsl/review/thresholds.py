"""How much is a change, and when it is a regression.

Comes in: what was asked on the command line. Goes out: whether a change is told, and the reasons
why a difference fails. Not its job: reading the words of the command line (cli).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from kvdsl.comparison import ROWS
from kvdsl.diagnostics import Severity
from kvdsl.difference import (
    DeploymentChange,
    Difference,
    Regression,
    ValueChange,
    Worth,
)
from kvdsl.units import Quantity, shown

NOISE = 1e-9
"""Times are floats: a change of less than this part of them is rounding."""

_MORE: Mapping[str, bool] = MappingProxyType(
    {
        **{name: more for name, _, more in ROWS},
        "kv.tokens_per_rank": True,
        "memory.free": True,
        "prefill.throughput": True,
        "kv.bytes_per_token": False,
        "kv.bytes_per_token_unbounded": False,
        "kv.bytes_per_request": False,
        "state.bytes_per_request": False,
        "decode.kv_read_mean": False,
        "transfer.bytes": False,
        "transfer.time": False,
        "cost.per_hour": False,
        "power": False,
    }
)
"""Whether more of a value is better; what is not here has no better side."""


def worth(name: str, before: Quantity | None, after: Quantity | None) -> Worth:
    more = _MORE.get(name)
    if more is None or before is None or after is None or before.value == after.value:
        return "neutral"
    return "better" if (after.value > before.value) == more else "worse"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A part of what was before, or an amount. What changes by less is not told."""

    part: Fraction | None = None
    amount: Quantity | None = None

    def reached(self, change: ValueChange) -> bool:
        """Without a limit: whether it shows at all in figures as they are printed."""
        by, ratio = change.by, change.ratio
        if by is None or change.before is None or change.after is None:
            return True
        if self.amount is not None and self.amount.dimension == by.dimension:
            return max(by.value, -by.value) >= self.amount.value
        if self.part is not None:
            return ratio is None or abs(ratio) >= float(self.part) - NOISE
        return shown(change.before) != shown(change.after)


TELLING = Threshold(part=Fraction(1, 1000))
"""What is told unless somebody asks otherwise: less than 0.1 % is in no decision."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Thresholds of all values and of single ones, and what fails a difference: values by name
    with how far they may worsen, and whether broken requirements and new errors count."""

    everywhere: Threshold = TELLING
    single: Mapping[str, Threshold] = field(default_factory=dict)
    fails: Mapping[str, Threshold] = field(default_factory=dict)
    fails_broken: bool = False
    fails_findings: bool = False

    def told(self, change: ValueChange) -> bool:
        return self.single.get(change.name, self.everywhere).reached(change)


def regressions(difference: Difference, asked: Asked) -> tuple[Regression, ...]:
    """Why a difference fails. What cannot be planned does so whatever was asked: its figures are
    unknown, and none of them can be held to anything."""
    found: list[Regression] = []
    for change in difference.deployments:
        found += _of(change, asked)
    found += [
        Regression("file", trouble.place or trouble.file, f"cannot be planned: {trouble.fault}")
        for trouble in difference.troubles
        if trouble.stands
    ]
    return tuple(found)


def _of(change: DeploymentChange, asked: Asked) -> Iterator[Regression]:
    if asked.fails_broken:
        for flip in change.flips:
            if flip.broken and flip.keyword == "require":
                text = f"`require {flip.text}` {flip.after}"
                yield Regression("requirement", change.name, text)
    for value in change.values:
        limit = asked.fails.get(value.name)
        if limit is not None and value.worth == "worse" and limit.reached(value):
            yield Regression("value", change.name, f"{value.label} {change_text(value)}")
    if asked.fails_findings:
        for finding in change.found("new"):
            if finding.severity is Severity.ERROR and finding.waived is None:
                text = f"{finding.code} {finding.diagnostic.headline}"
                yield Regression("error", change.name, text)


def change_text(value: ValueChange) -> str:
    """`1,402,348 tok to 701,174 tok (-50 %)`."""
    if value.before is None or value.after is None:
        one = value.before or value.after
        return "" if one is None else shown(one)
    ratio = value.ratio
    part = "" if ratio is None else f" ({percent(ratio)})"
    return f"{shown(value.before)} to {shown(value.after)}{part}"


def percent(ratio: float) -> str:
    """`+4.2 %`, `-50 %`; a doubling and more as `x 2.5`, which reads better than +150 %."""
    if ratio >= 1:
        return f"x {ratio + 1:.3g}"
    size = abs(ratio) * 100
    return f"{'+' if ratio > 0 else '-'}{f'{size:.3g}' if size >= 0.01 else '< 0.01'} %"


def tidy(changes: Sequence[ValueChange]) -> tuple[ValueChange, ...]:
    """Without those that are rounding only."""
    return tuple(c for c in changes if not _same(c.before, c.after))


def _same(before: Quantity | None, after: Quantity | None) -> bool:
    if before is None or after is None:
        return before is after
    if isinstance(before.value, float) or isinstance(after.value, float):
        a, b = float(before.value), float(after.value)
        return abs(a - b) <= NOISE * max(abs(a), abs(b))
    return before.value == after.value
