"""Experts: how many of them and how many ranks the tokens of a step reach.

Comes in: counts. Goes out: formulas. Routing is taken as uniform, each token to different experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from statistics import NormalDist
from typing import Any

from kvdsl.arithmetic import at_least, each, over, real, root, smaller
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


@formula(
    "the lesser of 1 and share hit + above x sqrt(share hit (1 - share hit) (1 - 1 / EP) / experts "
    "of a rank)",
    NONE,
    "the greatest of so many draws, each of the mean and spread of hits on a rank",
)
def share_of_busiest(hit: float, above: float, ep: int, own: float) -> float:
    spread = root(at_least(real(hit) * (1 - real(hit)), 0) * (1 - 1 / real(ep)) / real(own))
    return smaller(real(hit) + real(above) * spread, 1.0)


def deviations_above(ranks: int) -> float:
    """How many standard deviations the greatest of so many normal draws lies above their mean:
    Blom, Statistical Estimates and Transformed Beta-Variables, 1958."""
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25)) if ranks > 1 else 0.0


@formula("bytes on the rank x share hit", BYTES)
def bytes_hit(size: float, hit: float) -> float:
    return real(size) * real(hit)


@formula("tokens x DP ranks", TOKENS)
def gathered(tokens: float, ranks: int) -> float:
    return real(tokens) * real(ranks)


@dataclass(frozen=True, slots=True)
class Routed:
    """Routed experts of a stage: all of a layer, those that a token visits, the DP ranks that bring
    their tokens to them, the EP ranks that hold `own` each, and how many standard deviations the
    busiest of these lies above the mean."""

    experts: Term
    active: Term
    ranks: Term
    ep: Term
    own: Term
    above: Term

    def read(self, size: Term, tokens: Term) -> Term:
        """Bytes that a pass reads, of `size` on the rank, with the hits spread evenly over ranks;
        `tokens` are those of a DP rank."""
        return bytes_hit.derive("bytes of experts hit", size=size, hit=self.hit(tokens))

    def read_by_busiest(self, size: Term, tokens: Term, *, alone: bool = False) -> Term:
        """The same of the EP rank that is hit most: the others wait for it. `alone`: one DP rank
        has tokens."""
        hit = share_of_busiest.derive(
            "share hit on the busiest EP rank",
            hit=self.hit(tokens, alone=alone),
            above=self.above,
            ep=self.ep,
            own=self.own,
        )
        return bytes_hit.derive("bytes of experts hit", size=size, hit=hit)

    def drawn(self, *, alone: bool = False) -> Term:
        """Experts that a token of each DP rank visits, all together."""
        if alone:
            return self.active
        return gathered.derive("experts drawn", tokens=self.active, ranks=self.ranks)

    def hit(self, tokens: Term, *, alone: bool = False) -> Term:
        """The share of experts that `tokens` of each DP rank hit, or of one `alone`."""
        drawn = tokens
        if not alone:
            drawn = gathered.derive("tokens of all DP ranks", tokens=tokens, ranks=self.ranks)
        return share_hit.derive(
            "share of experts hit", active=self.active, experts=self.experts, tokens=drawn
        )


def routed(placement: Placement, stage: Stage) -> Routed | None:
    """None where the stage has none; where several mixtures differ, the last counts."""
    model = placement.subject.model
    names = [s.tensor.part for s in stage.shards if s.tensor.module == "routed_experts"]
    part = model.parts.get(names[-1]) if names else None
    if not isinstance(part, Moe):
        return None
    subject, ep = placement.subject, placement.degrees.experts.ep
    return Routed(
        of_model(model, "experts of a layer", part.experts),
        of_model(model, "experts that a token visits", part.active),
        of_layout(subject, "DP ranks that bring tokens", placement.degrees.attention.dp),
        of_layout(subject, "EP ranks", ep),
        of_model(model, "experts of an EP rank", over(part.experts, ep)),
        of_layout(subject, "standard deviations of the busiest EP rank above the mean",
                  deviations_above(ep), "of so many draws"),
    )  # fmt: skip
