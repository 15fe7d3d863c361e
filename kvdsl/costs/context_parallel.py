"""Context parallelism that changes while serving: what a prompt costs on so many ranks, and where
a scheduler puts it.

Comes in: tokens to compute and found, a degree, constants of a machine. Goes out: formulas, for
those who tell such a scheduler apart from fixed pools. A plan costs each pool by its own layout.
"""

from __future__ import annotations

from kvdsl.arithmetic import over, real, times
from kvdsl.costs.carried import causal_pairs
from kvdsl.formulas import formula
from kvdsl.units import TIME

Number = int | float
_VERTUMNUS = "Vertumnus, arXiv 2609.04774, as others have written it down"


@formula(
    "fixed + a new + b found + (c new + e pairs) / degree",
    TIME,
    _VERTUMNUS,
)
def prompt_time(
    new: Number,
    found: Number,
    degree: Number,
    fixed: float,
    a: float,
    b: float,
    c: float,
    e: float,
) -> float:
    """Seconds; `a` and `b` are work that no rank shares, `c` and `e` what ranks divide."""
    pairs = real(causal_pairs(new=new, found=found))
    return fixed + a * new + b * found + over(c * new + e * pairs, real(degree))


@formula(
    "queue + beta x time + lambda (degree x time - least degree x its time)",
    TIME,
    _VERTUMNUS,
)
def placement_cost(
    queue: float,
    time: float,
    degree: Number,
    least_degree: Number,
    least_time: float,
    beta: float,
    lambda_: float,
) -> float:
    """Seconds, weighted: waiting, prefill, and GPU-time beyond what the request needs."""
    return queue + beta * time + lambda_ * (times(degree, time) - times(least_degree, least_time))
