"""A Difference: all that a renderer may show of two states of a set of specs, already computed.

Comes in: built by `review`. Goes out: frozen records. Three causes are kept apart: what the author
changed (`SpecChange`), what the catalog or the compiler changed (`FigureChange`, `compiler`), and
what that did to the numbers (`ValueChange`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvdsl.plan import Finding, Status, Verdict
from kvdsl.units import Quantity, Value, shown

FORMAT = 1
"""Version of the difference's JSON form."""

Sign = Literal["~", "+", "-"]
State = Literal["changed", "added", "removed", "renamed", "unreadable", "mended"]
"""`unreadable`: the new side has the deployment, or its file, and cannot resolve it; `mended`: so
had the old one, and there are no figures before."""
Standing = Status | Literal["waived"]
"""How a requirement stands: judged, or `waived` where it does not hold and an `allow` lets it."""
Worth = Literal["better", "worse", "neutral"]

WATCHED = (
    "kv.tokens",
    "kv.sequences",
    "decode.tpot",
    "decode.throughput",
    "prefill.ttft",
    "cost.per_mtok",
)
"""Values whose worsening is a regression where nobody names others: what a user or a bill sees."""


@dataclass(frozen=True, slots=True)
class SpecChange:
    """An attribute that the author changed (`~`), added or removed, as it is written."""

    sign: Sign
    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure of the catalog that moved, with the deployments that stand on it. `replayed` says
    whether the figures before were computed with the old one."""

    sign: Sign
    entry: str
    path: str
    before: str
    after: str
    source: str
    deployments: tuple[str, ...]
    replayed: bool


@dataclass(frozen=True, slots=True)
class Mover:
    """A term of a value's derivation that moved; `was` is its name before, where that is another:
    the latency of another link."""

    label: str
    before: Quantity
    after: Quantity
    was: str = ""


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A value before and after; one of the two is None where only one side answers it. `movers`
    lead from the value to the term that moved it most. `between` is the value of the new spec
    under the old catalog, where both changed: up to it is the author's doing."""

    name: str
    label: str
    before: Quantity | None
    after: Quantity | None
    worth: Worth
    movers: tuple[Mover, ...] = ()
    between: Quantity | None = None
    main: bool = True
    """Whether a table for people shows it; the others are parts of those that it does."""

    @property
    def by(self) -> Quantity | None:
        """After less before, in their dimension."""
        if self.before is None or self.after is None:
            return None
        return Quantity(self.after.value - self.before.value, self.after.dimension)

    @property
    def ratio(self) -> float | None:
        """The change as a part of what was before; None where there was nothing."""
        if self.before is None or self.after is None or not self.before.value:
            return None
        gap: Value = self.after.value - self.before.value
        return float(gap) / abs(float(self.before.value))


@dataclass(frozen=True, slots=True)
class Flip:
    """A requirement whose verdict changed, or that fails on both sides; None where a side does not
    have it. `waived` is the reason why it may fail now."""

    keyword: str
    text: str
    label: str
    because: str
    before: Standing | None
    after: Standing | None
    value_before: Quantity | None
    value_after: Quantity | None
    bound: Quantity | None
    place: str
    bound_before: Quantity | None = None
    alike: bool = True
    """Whether both sides compare the same value."""
    waived: str = ""
    policy: str = ""
    """The policy that wants it, where it is no requirement of the deployment."""
    text_before: str = ""
    place_before: str = ""

    @property
    def reworded(self) -> bool:
        """Whether both sides want it, in other words."""
        return not self.lone and self.text != self.text_before

    @property
    def lone(self) -> bool:
        """Whether one side alone has it."""
        return self.before is None or self.after is None

    @property
    def broken(self) -> bool:
        held = self.before in ("holds", "skipped", "waived", None)
        return held and self.after in ("fails", "unanswered")

    @property
    def stands(self) -> bool:
        """Whether it fails now as it did before, and may not."""
        return self.before == self.after and self.after in ("fails", "unanswered")

    @property
    def settled(self) -> bool:
        """Whether nothing of it moved that a reader sees."""
        pairs = ((self.value_before, self.value_after), (self.bound_before, self.bound))
        moved = any(a is not None and b is not None and shown(a) != shown(b) for a, b in pairs)
        return self.before == self.after and not moved


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A finding that came, went, stayed or is waived now. `flip` is what a policy wants, where it
    is that the deployment does not meet it."""

    state: Literal["new", "gone", "still", "waived"]
    finding: Finding
    flip: Flip | None = None

    @property
    def moved(self) -> bool:
        """Whether it has to be told: all but what stays as it was."""
        flip = self.flip
        return self.state != "still" or (flip is not None and (flip.reworded or not flip.settled))


@dataclass(frozen=True, slots=True)
class DeploymentChange:
    """One deployment on both sides. `was` is its name before, where it was renamed; `was_file` the
    file that it stood in, where that changed. `small` counts values that changed by less than the
    threshold."""

    name: str
    file: str
    state: State
    was: str = ""
    was_file: str = ""
    verdict_before: Verdict | None = None
    verdict_after: Verdict | None = None
    spec: tuple[SpecChange, ...] = ()
    values: tuple[ValueChange, ...] = ()
    flips: tuple[Flip, ...] = ()
    findings: tuple[FindingChange, ...] = ()
    small: int = 0
    compiler: bool = False
    """Numbers moved though neither the spec nor the catalog did: kvdsl itself changed."""
    kind: Literal["deployment", "fleet"] = "deployment"
    """A fleet's values are its sums."""

    def value(self, name: str) -> ValueChange | None:
        return next((value for value in self.values if value.name == name), None)

    def found(self, state: str) -> tuple[Finding, ...]:
        return tuple(each.finding for each in self.findings if each.state == state)

    @property
    def unmoved(self) -> tuple[Finding, ...]:
        """Findings that stay as they were."""
        return tuple(each.finding for each in self.findings if not each.moved)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A file that a side cannot read or resolve, or neither can: its first fault (of the new side
    where both have one), and how many there are."""

    file: str
    side: Literal["before", "after", "both"]
    fault: str
    count: int
    place: str = ""

    @property
    def stands(self) -> bool:
        """Whether the new side has it: then there is nothing to take over."""
        return self.side != "before"


@dataclass(frozen=True, slots=True)
class Regression:
    """Why a change fails: a broken `requirement`, a `value` that worsened or a new `error`, where
    that was asked for; a `file` that the new side cannot plan, always."""

    sort: Literal["requirement", "value", "error", "file"]
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two states of a set of specs. `regressions` are the reasons why the change fails;
    `unchanged` counts deployments (of files that were compared) that are as before."""

    before: str
    after: str
    deployments: tuple[DeploymentChange, ...] = ()
    figures: tuple[FigureChange, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    regressions: tuple[Regression, ...] = ()
    unchanged: int = 0
    standing: tuple[str, ...] = ()
    """What policies want and deployments do not meet, where nothing changed."""

    @property
    def empty(self) -> bool:
        return not (self.deployments or self.figures or self.troubles)
