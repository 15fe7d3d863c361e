"""What is placed and costed: one pool of a deployment, made ready.

Comes in: a resolved pool. Goes out: a `Subject` without layout text. A finding's alternative is a
subject too, with other degrees or another budget, and goes through the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kvdsl.placement.degrees import Degrees
from kvdsl.placement.topology import Topology
from kvdsl.recall import Recall
from kvdsl.source import Span
from kvdsl.spec.deployment import Budget, Deployment, Pool
from kvdsl.spec.engine import Engine, Limits, Size
from kvdsl.spec.formats import Format, Recipe
from kvdsl.spec.model import Model
from kvdsl.spec.workload import Workload

_LIMITS: Recall[Limits] = Recall(256)
"""By what says them: rules and costs of one layout ask again and again."""


def _merged(every: Sequence[Limits | Size | None]) -> Limits:
    """What the last of them says of each limit."""
    found = Limits.model_construct()
    for said in every:
        if said is not None:
            written = said.model_fields_set & Limits.model_fields.keys()
            own = {name: getattr(said, name) for name in sorted(written)}
            origins = {**found.origins, **said.origins}
            found = found.model_copy(update={**own, "origins": origins})
    return found


@dataclass(frozen=True, slots=True)
class Subject:
    """`ideal` takes every efficiency as 1."""

    deployment: Deployment
    pool: Pool
    model: Model
    workload: Workload
    weights: Recipe
    kv: Recipe
    activations: Format
    degrees: Degrees
    topology: Topology
    engine: Engine | None
    budget: Budget
    ideal: bool
    places: Mapping[str, Span]
    """Where its parts were written: layout, budget, weights, kv, workload, on, deployment."""
    keep: Fraction = Fraction(1)
    """Of a request's tokens that stay in the cache."""

    def place(self, word: str) -> Span:
        return self.places.get(word, self.places["deployment"])

    @property
    def limits(self) -> Limits:
        """Of a step, a rank and a request: the deployment's, else the engine's, else those that the
        engine has for devices of this size."""
        engine = self.engine
        said = (self._size, engine.limits if engine else None, self.pool.limits)
        return _LIMITS.get(said, (), lambda: _merged(said))

    @property
    def _size(self) -> Size | None:
        """By the smallest device, as engines that look at all of them take the least."""
        engine = self.engine
        if engine is None or not engine.sizes:
            return None
        reported = engine.capacity == "reported"
        memory, generation = min(
            ((d.reported if reported and d.reported else d.memory), d.generation or "")
            for d in self.topology.kinds
        )
        return engine.size_on(memory, generation, self.degrees.size)

    @property
    def longest(self) -> int | None:
        """The longest request that is let in: the limit, else what the model takes."""
        return self.limits.context or self.model.max_context

    def under(self, degrees: Degrees) -> Subject:
        """The same under another layout."""
        return replace(self, degrees=degrees)

    def on(self, topology: Topology) -> Subject:
        """The same on other hardware."""
        return replace(self, topology=topology)

    def with_budget(self, budget: Budget) -> Subject:
        return replace(self, budget=budget)
