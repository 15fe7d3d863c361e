"""Pace: the constants of an engine's time, as they were fitted to measurements.

Each is physical: a time of launches, a share of a peak that kernels reach, a share of the prompts'
time that decode waits for. None belongs to a model, a device or a row.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import Field

from kvdsl.spec.declaration import Block
from kvdsl.spec.slots import Exact, Nested, PositiveTokens, Ratio, Seconds, String

Factor = Annotated[Exact, Ratio(most=None)]
Part = Annotated[Exact, Ratio(above=True)]


class Launches(Block):
    """Time a layer that no byte or product explains: launches of kernels, small kernels, waits
    between them. What a kind of layer needs more than another stands apart."""

    layer: Seconds = Field(description="of any layer")
    sparse: Seconds = Field(default=0, description="more with routed experts")
    unfused: Seconds = Field(
        default=0, description="more where experts are not multiplied in four bits by one kernel"
    )
    latent: Seconds = Field(default=0, description="more with MLA")
    state: Seconds = Field(default=0, description="more with a state instead of a cache")
    indexer: Seconds = Field(default=0, description="more with an indexer")
    prefill: Factor = Field(default=1, description="times these where no graph is replayed")
    decode: Factor = Field(default=1, description="times these in a pool that only decodes")


class Reached(Block):
    """Shares of the device's peaks."""

    weights: Part = Field(default=1, description="of bandwidth, weights read")
    experts: Part = Field(default=1, description="of bandwidth, routed experts hit")
    emulated: Part = Field(
        default=1, description="of bandwidth, experts stored narrower than they are multiplied"
    )
    cache: Part = Field(default=1, description="of bandwidth, cache read")
    attention: Part = Field(default=1, description="of the activations' peak, scores and their use")
    products_16: Part = Field(default=1, description="of the peak, products of 16 bits")
    products_8: Part = Field(default=1, description="of the peak, products of 8 bits")
    products_4: Part = Field(default=1, description="of the peak, products of 4 bits")
    grouped: Part = Field(default=1, description="times those, products of routed experts")


class First(Block):
    """The first token: what comes before and around its own prefill."""

    entry: Seconds = Field(default=0, description="from arrival to the scheduler and back")
    steps: Factor = Field(default=0, description="decode steps that a prompt waits for")
    own: Factor = Field(default=1, description="times its own prefill")
    queue: Factor = Field(default=0, description="of the prompts ahead, those waited for")
    crowd: Factor = Field(default=1, description="power of the requests in flight in that")
    length: Factor = Field(default=0, description="power of 1024 tok / output in that")
    full: Factor = Field(default=0, description="of a request's time, waited for a place")


class Band(Block):
    """How far measurements lie from what is told: 30 % is from 1/1.3 to 1.3 times."""

    usual: Factor = Field(description="two of three")
    wide: Factor = Field(description="nine of ten")


class Older(Block):
    before: String = Field(description="the first version that is not older")
    launches: Factor = Field(default=1, description="times the launches")


class Pace(Block):
    launches: Annotated[Launches, Nested()] = Field(description="time a layer that nothing hides")
    reached: Annotated[Reached, Nested()] = Field(
        default_factory=Reached, description="of the device's peaks"
    )
    prompts: Factor = Field(
        default=Fraction(1), description="of others' prefill, what a token waits for"
    )
    vectors: Factor = Field(
        default=0, description="hidden vectors of a token, read or written in a layer"
    )
    chunk: PositiveTokens = Field(
        default=8192, description="prompt tokens of a DP rank in one step, without a limit"
    )
    first: Annotated[First, Nested()] = Field(
        default_factory=First, description="of the first token"
    )
    tpot: Annotated[Band | None, Nested()] = Field(
        default=None, description="band of the time of a token"
    )
    ttft: Annotated[Band | None, Nested()] = Field(
        default=None, description="band of the time to the first token"
    )
    older: Annotated[Older | None, Nested()] = Field(
        default=None, description="builds before a version"
    )
