"""Settings: what serves, and what a pass carries over it, before any time is put to either.

Comes in: a placement and its ledgers. Goes out: a replica's inventories by stage with what its
collectives take in a pass, as one value that serves any number of loads; and the pass itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kvdsl.arithmetic import over, times
from kvdsl.costs import collectives
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.inventory import Inventory, inventories
from kvdsl.costs.memory import Ledger
from kvdsl.costs.origins import fixed, of_layout
from kvdsl.formulas import Term, formula
from kvdsl.placement.placement import Placement
from kvdsl.units import NONE, TOKENS


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass carries on a DP rank. `tokens` are new ones, `sampled` those that the head
    scores, `requests` those whose cache is read, `context` the tokens read of each, `keys` the
    mean number that a new token meets. `prefill`: no graph is replayed, latents are expanded."""

    what: str
    tokens: Term
    sampled: Term
    requests: Term
    context: Term
    keys: Term
    prefill: bool = False
    all_parts: Term | None = None
    """Where a prompt is cut over ranks, the tokens of all; `tokens` are those of one."""
    alone: bool = False
    """Whether the other DP ranks bring no tokens."""
    undisturbed: bool = False
    """A decode step where nobody prefills, ever."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The collectives of a stage in a pass, before any are hidden."""

    stage: int
    costs: tuple[CollectiveCost, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """What serves: a replica's rank classes by stage, its DP ranks, the replicas, the role of the
    pool, and what its collectives take in a pass. A prompt is cut over `parts` ranks."""

    stocks: tuple[Inventory, ...]
    stages: tuple[int, ...]
    role: str
    ranks: Term
    replicas: Term
    sent: Callable[[Passed], tuple[Sent, ...]]
    parts: Term | None = None

    def block(self, tokens: Term) -> Term:
        """The part of a prompt's tokens that a rank works on."""
        if self.parts is None:
            return tokens
        return block_of.derive("tokens of a part", tokens=tokens, parts=self.parts)

    def cut(self, passed: Passed) -> Passed:
        """What a rank has of a pass."""
        if self.parts is None or not passed.prefill:
            return passed
        return replace(passed, tokens=self.block(passed.tokens), all_parts=passed.tokens)


@formula("tokens / parts", TOKENS, "a prompt is cut evenly (pcp)")
def block_of(tokens: float, parts: int) -> float:
    return over(tokens, parts)


@formula("tokens x keys of each / ranks of the sequence x share kept", NONE)
def pairs_scored(tokens: float, keys: float, ranks: int, keep: float) -> float:
    return over(times(tokens, keys, keep), ranks)


def setting(placement: Placement, books: tuple[Ledger, ...]) -> Setting:
    """A placement as what serves."""
    subject, degrees = placement.subject, placement.degrees
    stages = tuple(stage.number for stage in placement.stages)

    def sent(passed: Passed) -> tuple[Sent, ...]:
        costs = collectives.costs(
            placement,
            passed.tokens,
            passed.sampled,
            passed.what,
            pairs=pairs_scored.derive(
                "pairs of query and key on a rank",
                tokens=passed.tokens,
                keys=passed.keys,
                ranks=of_layout(subject, "ranks of the sequence", degrees.attention.cp),
                keep=fixed("share kept", 1 if passed.prefill else subject.keep, "of the tokens"),
            ),
            found=passed.context if passed.prefill else None,
        )
        return tuple(
            Sent(number, tuple(cost for cost in costs if cost.exchange.stage == number))
            for number in stages
        )

    return Setting(
        inventories(placement, books),
        stages,
        subject.pool.role,
        of_layout(subject, "DP ranks", degrees.attention.dp),
        of_layout(subject, "replicas", degrees.replicas),
        sent,
        of_layout(subject, "parts of a prompt", degrees.attention.pcp)
        if degrees.attention.pcp > 1
        else None,
    )
