"""Experts: how many of them and how many ranks the tokens of a step reach.

Comes in: counts. Goes out: formulas. Routing is taken as uniform, each token to different experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

from kvdsl.arithmetic import at_least, each, over, real
from kvdsl.costs.origins import of_layout, of_model
from kvdsl.formulas import Term, formula
from kvdsl.placement.placement import Placement, Stage
from kvdsl.spec.model import Moe
from kvdsl.units import BYTES, NONE, TOKENS


@formula(
    "ranks x (1 - C(experts - experts / ranks, active) / C(experts, active))",
    NONE,
    "a token's experts are drawn without replacement",
)
def ranks_reached(experts: int, active: int, ranks: int) -> Any:
    return each(_reached, experts, active, ranks)


def _reached(experts: int, active: int, ranks: int) -> Fraction:
    drawn = min(active, experts)
    elsewhere = experts - experts // ranks
    return ranks * (1 - Fraction(comb(elsewhere, drawn), comb(experts, drawn)))


@formula(
    "ranks / ranks reached", NONE, "every token to every rank, over a copy to each one reached"
)
def gathered_over_sent(ranks: int, reached: Fraction) -> Fraction:
    return over(ranks, reached)


# --- weights that a pass reads -------------------------------------------------------------------


@formula("1 - (1 - active / experts)^tokens", NONE, "experts that tokens hit if each draws alike")
def share_hit(active: int, experts: int, tokens: float) -> float:
    return 1 - at_least(1 - real(active) / real(experts), 0) ** real(tokens)


@formula("bytes on the rank x share hit", BYTES)
def bytes_hit(size: float, hit: float) -> float:
    return real(size) * real(hit)


@formula("tokens x DP ranks", TOKENS)
def gathered(tokens: float, ranks: int) -> float:
    return real(tokens) * real(ranks)


@dataclass(frozen=True, slots=True)
class Routed:
    """Routed experts of a stage: all of a layer, those that a token visits, and the DP ranks that
    bring their tokens to them."""

    experts: Term
    active: Term
    ranks: Term

    def read(self, size: Term, tokens: Term) -> Term:
        """Bytes that a pass reads, of `size` on the rank; `tokens` are those of a DP rank."""
        drawn = gathered.derive("tokens of all DP ranks", tokens=tokens, ranks=self.ranks)
        hit = share_hit.derive(
            "share of experts hit", active=self.active, experts=self.experts, tokens=drawn
        )
        return bytes_hit.derive("bytes of experts hit", size=size, hit=hit)


def routed(placement: Placement, stage: Stage) -> Routed | None:
    """None where the stage has none; where several mixtures differ, the last counts."""
    model = placement.subject.model
    names = [s.tensor.part for s in stage.shards if s.tensor.module == "routed_experts"]
    part = model.parts.get(names[-1]) if names else None
    if not isinstance(part, Moe):
        return None
    return Routed(
        of_model(model, "experts of a layer", part.experts),
        of_model(model, "experts that a token visits", part.active),
        of_layout(placement.subject, "DP ranks that bring tokens", placement.degrees.attention.dp),
    )
