"""What an exchange is: collectives of a pass, the groups that they run over, who owns which tokens.

Payload convention (as NCCL's tests print it): the whole buffer of an all-reduce, the gathered
size of an all-gather, the input of a reduce-scatter, one rank's buffer of an all-to-all.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvdsl.placement.degrees import Degrees
from kvdsl.placement.topology import Reach


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate: equal groups of a stage by how far they reach. `places` is one of
    them, as devices in line."""

    axis: str
    size: int
    stage: int
    reach: Reach
    count: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """`count` collectives in a pass through `stage`, each over every group of `axis`.

    `tokens` tokens for each token of a DP rank times `width` values make its payload, plus
    `extra` bytes a token that are not activations; `elements` says what the values are."""

    kind: str
    module: str
    axis: str
    stage: int
    count: int
    tokens: Fraction
    width: Fraction
    elements: str
    why: str
    extra: int = 0
    role: str = ""
    """`dispatch` or `combine` where tokens go to experts and back."""
    copies: int = 1
    """Experts that each token goes to; `tokens` counts all of its copies."""
    most_groups: int = 0
    """Groups of experts that a token's experts lie in, at most; 0: any."""
    phase: str = ""
    """`decode` or `prefill` where it is of one of them alone."""
    each_pair: int = 0
    """Bytes for each pair of a query and a cached token: scores."""
    of_found: bool = False
    """Its tokens are those of a prompt that a cache has, not new ones."""
    hides: str = ""
    """Behind the attention of other requests (`requests`) or of the block at hand (`blocks`)."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Ranks that own different tokens of a pass, and the axis that they differ on: DP ranks, and
    in prefill those that a prompt is cut over."""

    phase: str
    count: int
    axis: str


def owners(degrees: Degrees) -> tuple[Owners, ...]:
    """One for both phases, or one for each where prompts are cut (pcp)."""
    a = degrees.attention
    requests = Owners("", a.dp, "attention.dp")
    if a.pcp == 1:
        return (requests,)
    axes = "+".join(axis for axis, size in (("dp", a.dp), ("pcp", a.pcp)) if size > 1)
    return (
        Owners("decode", a.dp, "attention.dp"),
        Owners("prefill", a.dp * a.pcp, f"attention.{axes}"),
    )


def one(
    kind: str,
    module: str,
    axis: str,
    tokens: Fraction | int,
    width: int | Fraction,
    elements: str,
    why: str,
    extra: int = 0,
) -> Exchange:
    """An exchange of one layer; its stage and how often are set later."""
    return Exchange(
        kind, module, axis, -1, 1, Fraction(tokens), Fraction(width), elements, why, extra
    )
