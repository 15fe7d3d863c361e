"""Overlap: what of an exchange is seen behind the attention that it runs beside.

Comes in: the exchanges of a pass, and the attention of the slowest rank of each stage. Goes out:
the same exchanges, with the time that is exposed. Helix hides the exchange of one request behind
the attention of the next; a ring hides the passing of a block behind the scoring of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvdsl.arithmetic import greater, over, real
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.origins import fixed
from kvdsl.formulas import Term, formula, least
from kvdsl.units import TIME, TOKENS

Number = int | float


@formula(
    "exchanges / parts + (1 - 1 / parts) x max(0, exchanges - attention)",
    TIME,
    "pipeline over the requests of a step: Bhatia et al., Helix, arXiv 2507.07120 (HOP-B)",
)
def beside_requests(exchanges: float, parts: int, attention: float) -> float:
    return exchanges / parts + (1 - 1 / parts) * greater(exchanges - attention, 0.0)


@formula(
    "max(0, exchange - attention x (n - 1) / n)",
    TIME,
    "n - 1 of n blocks travel while one is scored: Liu et al., Ring Attention, arXiv 2310.01889",
)
def beside_blocks(exchange: float, ranks: int, attention: float) -> float:
    return greater(exchange - attention * (ranks - 1) / ranks, 0.0)


@formula(
    "peak / bandwidth x bytes a token / work of a pair",
    TOKENS,
    "Liu et al., Ring Attention, arXiv 2310.01889, section 3",
)
def least_block(
    peak: Number, bandwidth: Number, bytes_a_token: Number, work_a_pair: Number
) -> float:
    return over(real(peak) * real(bytes_a_token), real(bandwidth) * real(work_a_pair))


@formula("6 x block", TOKENS, "Liu et al., Ring Attention, arXiv 2310.01889, section 3")
def least_length(block: Number) -> Number:
    return 6 * block


def exposed(
    found: Sequence[CollectiveCost], attention: Mapping[int, Term]
) -> tuple[CollectiveCost, ...]:
    """The exchanges with what is seen of them; `attention` by stage."""
    return tuple(
        replace(cost, all=_seen(cost, attention[cost.exchange.stage]))
        if cost.exchange.hides
        else cost
        for cost in found
    )


def _seen(cost: CollectiveCost, attention: Term) -> Term:
    if cost.exchange.hides == "blocks":
        ranks = fixed("ranks of the ring", cost.group.size, "each has a block")
        return beside_blocks.derive(
            cost.all.label, exchange=cost.all, ranks=ranks, attention=attention
        )
    ways = [
        beside_requests.derive(
            "beside the attention of others", exchanges=all_, parts=parts, attention=attention
        )
        for parts, all_ in cost.apart
    ]
    return least(cost.all.label, [cost.all, *ways], note="at once, or in parts beside attention")
