"""What a rule looks at and what it yields.

Comes in: a subject, its placement, its estimate. Goes out: facts: numbers and places, no prose but
what only the rule can word. An alternative is another subject run through `estimate`, the same
function as the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

from kvdsl.costs.estimate import Estimate, estimate, memory_estimate, memory_estimate_that_fits
from kvdsl.costs.weights import attention_bytes as bytes_of_attention
from kvdsl.diagnostics import Label, Severity
from kvdsl.placement.degrees import Degrees
from kvdsl.placement.placement import Placement
from kvdsl.placement.subject import Subject
from kvdsl.source import Span
from kvdsl.spec.model import Gqa, Mla, Moe, Softmax
from kvdsl.spec.vocabulary import BETTER
from kvdsl.units import BYTES, TOKENS, Quantity, shown, tidy

Fill = Quantity | int | str

FELT = ("decode.tpot", "kv.tokens")
"""Values whose worsening is told of whatever is suggested: a user's wait, and how many users."""

CACHE_VALUES = ("kv.tokens", "kv.bytes_per_token_per_gpu", "kv.copies", "memory.weights")
"""What a layout that stores the cache otherwise is compared by."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Another layout or budget, estimated: a title, its text, and the values worth comparing."""

    title: str
    text: str
    estimate: Estimate
    shows: tuple[str, ...]
    what_if: bool = False
    """No way to a better plan, but what the plan is worth once it says what it leaves out."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One finding of a rule. `fills` fill the rule's templates; `quantities` are listed."""

    place: Span
    fills: Mapping[str, Fill]
    quantities: tuple[tuple[str, Quantity], ...] = ()
    suggestion: Suggestion | None = None
    labels: tuple[Label, ...] = ()
    severity: Severity | None = None
    """Where it is not the rule's own."""
    before: Estimate | None = None
    """What the suggestion is compared with; None before the costs stage, where nothing is."""

    def moves(self) -> Iterator[tuple[str, Quantity, Quantity | None, bool | None]]:
        """Values of the suggestion: their name, what they would be, what they are, and whether that
        is better. First those that it shows, then others that a user feels and that get worse."""
        made = self.suggestion
        values = made.estimate.values if made is not None else {}
        shows = made.shows if made is not None else ()
        own = self.before.values if self.before is not None else {}
        for name in (*shows, *(name for name in FELT if name not in shows)):
            if name not in values or (name not in shows and name not in own):
                continue
            new, old = values[name].quantity, own[name].quantity if name in own else None
            apart = old is not None and told_apart(new, old)
            better = (
                (new.value > old.value) == BETTER[name]
                if old and apart and name in BETTER
                else None
            )
            if name in shows or better is False:
                yield name, new, old, better


class Judge(Protocol):
    """What the rules have against a layout that a finding would suggest."""

    def place(self, subject: Subject) -> Placement | None:
        """The placement; None where a rule forbids it."""

    def accepts(self, found: Estimate) -> bool:
        """Whether it has no error that the plan itself has not."""


@dataclass(frozen=True, slots=True)
class Study:
    """One pool under examination. `placement` is missing before the placement stage, `estimate`
    before the costs stage. What is suggested has to stand before the `judge`; a study that judges
    is `closed`: it suggests nothing of its own."""

    subject: Subject
    placement: Placement | None = None
    estimated: Estimate | None = None
    known: dict[tuple[Degrees, int], Estimate] = field(default_factory=dict)
    judge: Judge | None = None
    closed: bool = False

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
        too many devices, heads that do not divide, groups that nothing joins, a rule's error."""
        if degrees.devices > self.subject.topology.devices or not self._divides(degrees):
            return None
        found = self.known.get((degrees, id(self.subject)))
        if found is None:
            found = self.other(self.subject.under(degrees))
            if found is None:
                return None
            self.known[degrees, id(self.subject)] = found
        return found

    def _divides(self, degrees: Degrees) -> bool:
        """Whether whole heads and experts come out, and each stage has a layer."""
        tp, experts = degrees.attention.tp, degrees.experts
        for part in self.subject.model.parts.values():
            if isinstance(part, Gqa | Mla) and part.query_heads % tp:
                return False
            if isinstance(part, Gqa) and part.kv_heads % tp and tp % part.kv_heads:
                return False
            if isinstance(part, Moe) and (part.experts + experts.redundant) % experts.ep:
                return False
        return degrees.pp <= self.subject.model.layers

    def stands(self, degrees: Degrees) -> bool:
        """Whether ranks can hold their parts under other degrees: no rule forbids the placement."""
        if degrees.devices > self.subject.topology.devices or not self._divides(degrees):
            return False
        try:
            return self.judge is None or self.judge.place(self.subject.under(degrees)) is not None
        except ValueError:  # a group that nothing joins
            return False

    def other(self, subject: Subject) -> Estimate | None:
        """The estimate of another subject; None where a group has nothing that joins it, or where
        it has an error that the plan has not."""
        if self.closed:
            return None
        try:
            if self.judge is None:
                return estimate(subject)
            placement = self.judge.place(subject)
            found = estimate(subject, placement) if placement is not None else None
        except ValueError:  # a group that nothing joins
            return None
        return found if found is not None and self.judge.accepts(found) else None

    def in_flight(self, requests: int) -> Estimate | None:
        """The estimate with so many requests in flight in the pool."""
        workload, share = self.subject.workload, self.subject.pool.share or 1
        asked = int(Fraction(requests) / Fraction(share))
        changed = workload.model_copy(update={"concurrency": asked})
        return self.other(replace(self.subject, workload=changed))

    def room_of(self, subject: Subject) -> Estimate:
        """Memory alone of another subject."""
        return memory_estimate(subject)

    def held_by(self, subject: Subject) -> Estimate | None:
        """The same where the weights leave room on every device; None where they do not."""
        return memory_estimate_that_fits(subject)


def told_apart(one: Quantity, other: Quantity) -> bool:
    """Whether a reader sees two figures as different: what is equal as printed is no finding."""
    return shown(one) != shown(other)


def softmax_parts(study: Study) -> list[tuple[str, Softmax]]:
    """The attention parts in the model's stack whose cache grows."""
    model = study.subject.model
    used = {name for _, layer in model.sequence() for name in layer.parts}
    return [
        (name, part)
        for name, part in model.parts.items()
        if name in used and isinstance(part, Gqa | Mla)
    ]


def fewest_kv_heads(study: Study) -> int | None:
    """Of the parts that have KV heads; None where the cache is a latent."""
    heads = [p.kv_heads for _, p in softmax_parts(study) if isinstance(p, Gqa)]
    return min(heads, default=None)


def caches_latent(study: Study) -> bool:
    """Whether all that grows is a latent."""
    parts = softmax_parts(study)
    return bool(parts) and all(isinstance(part, Mla) for _, part in parts)


def attention_bytes(study: Study) -> Quantity:
    """Bytes of all attention weights, one copy."""
    return Quantity(tidy(Fraction(bytes_of_attention(study.placed))), BYTES)


def cached_tokens(study: Study) -> Quantity:
    """Tokens that the requests in flight hold in the middle of their decode."""
    load = study.costs.load
    if load is None:
        return Quantity(0, TOKENS)
    return Quantity(load.served.value * load.context.value, TOKENS)


def break_even(study: Study) -> Quantity:
    """Cached tokens that weigh as much as the attention weights. Below it TP reads fewer bytes,
    above it DP attention, whatever the number of devices."""
    return study.costs.values["kv.break_even"].quantity


def whole(quantity: Quantity) -> Quantity:
    """Without the part of a token: the most that is still below a break-even."""
    return Quantity(int(quantity.value), quantity.dimension)
