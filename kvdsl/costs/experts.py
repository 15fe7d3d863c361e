"""Experts: how many ranks the tokens of a step reach, and what it costs to send them to all.

Comes in: counts. Goes out: formulas. Routing is taken as uniform, each token to different experts.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

from kvdsl.arithmetic import each, over
from kvdsl.formulas import formula
from kvdsl.units import NONE


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
