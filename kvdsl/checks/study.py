"""What a rule looks at and what it yields.

Comes in: a subject, its placement, its estimate. Goes out: facts: numbers and places, no prose but
what only the rule can word. An alternative is another subject run through `estimate`, the same
function as the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvdsl.costs.estimate import Estimate, estimate, memory_estimate
from kvdsl.diagnostics import Label
from kvdsl.placement.degrees import Degrees
from kvdsl.placement.placement import Placement
from kvdsl.placement.subject import Subject
from kvdsl.source import Span
from kvdsl.spec.model import Gqa, Mla, Softmax
from kvdsl.units import Quantity

Fill = Quantity | int | str

CACHE_VALUES = ("kv.tokens", "kv.bytes_per_token_per_gpu", "kv.copies", "memory.weights")
"""What a layout that stores the cache otherwise is compared by."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Another layout or budget, estimated: a title, its text, and the values worth comparing."""

    title: str
    text: str
    estimate: Estimate
    shows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """One finding of a rule. `fills` fill the rule's templates; `quantities` are listed."""

    place: Span
    fills: Mapping[str, Fill]
    quantities: tuple[tuple[str, Quantity], ...] = ()
    suggestion: Suggestion | None = None
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class Study:
    """One pool under examination. `placement` is missing before the placement stage, `estimate`
    before the costs stage."""

    subject: Subject
    placement: Placement | None = None
    estimated: Estimate | None = None
    known: dict[tuple[Degrees, int], Estimate] = field(default_factory=dict)

    @property
    def placed(self) -> Placement:
        if self.placement is None:
            raise ValueError("a rule of the subject stage asked for the placement")
        return self.placement

    @property
    def costs(self) -> Estimate:
        if self.estimated is None:
            raise ValueError("a rule of an earlier stage asked for costs")
        return self.estimated

    def under(self, degrees: Degrees) -> Estimate | None:
        """The estimate under other degrees on the same hardware, or None where that cannot stand:
        too many devices, heads that do not divide, groups that nothing joins."""
        if degrees.devices > self.subject.topology.devices:
            return None
        found = self.known.get((degrees, id(self.subject)))
        if found is None:
            found = self._estimate(self.subject.under(degrees))
            if found is None:
                return None
            self.known[degrees, id(self.subject)] = found
        return found

    def _estimate(self, subject: Subject) -> Estimate | None:
        try:
            return estimate(subject)
        except ValueError:  # a group that nothing joins
            return None

    def room_of(self, subject: Subject) -> Estimate:
        """Memory alone of another subject."""
        return memory_estimate(subject)


def softmax_parts(study: Study) -> list[tuple[str, Softmax]]:
    """The model's attention parts whose cache grows."""
    parts = study.subject.model.parts
    return [(name, part) for name, part in parts.items() if isinstance(part, Gqa | Mla)]
