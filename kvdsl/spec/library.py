"""Libraries: how one version of a communication library moves bytes, and how long that takes.

A library is a list of algorithms. Each says which collectives it does, by which form (what steps it
takes and what it sends follows from that), where it works, and the constants of its time. What a
link can carry stands with the link.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from kvdsl import units
from kvdsl.spec.backends import BACKENDS
from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.formats import Format
from kvdsl.spec.slots import (
    Bytes,
    Exact,
    Listed,
    Maybe,
    Measured,
    Nested,
    Number,
    Numbers,
    Positive,
    Ratio,
    Referred,
    RequestRate,
    Seconds,
    Share,
    Special,
    String,
    Table,
    Word,
    Yes,
)

Collective = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send", "dispatch", "combine"
]
COLLECTIVES: tuple[Collective, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "send",
    "dispatch",
    "combine",
)
Form = Literal[
    "ring",
    "pairwise",
    "in_switch",
    "one_shot",
    "two_shot",
    "direct",
    "gather",
    "per_expert",
    "per_rank",
]
FORMS = (
    "ring",
    "pairwise",
    "in_switch",
    "one_shot",
    "two_shot",
    "direct",
    "gather",
    "per_expert",
    "per_rank",
)
Ground = Literal["switch", "mesh", "ring", "torus", "pairs", "bus"]
GROUNDS = ("switch", "mesh", "ring", "torus", "pairs", "bus")
Basis = Literal["fitted", "borrowed", "default"]
BASES = ("fitted", "borrowed", "default")

ANY = "any"
"""The row of a table that was written as one value: it holds for every generation."""
OTHER = "other"
"""The row for generations that a table does not name: what it gives is borrowed."""

Times = Annotated[dict[str, Exact], Table(Measured(units.TIME), bare=True)]
Ratios = Annotated[dict[str, Exact], Table(Ratio(above=True), bare=True)]
Factor = Annotated[Exact, Ratio(most=None)]
Spread = Annotated[Exact, Ratio(least=Fraction(1), most=None)]


class Band(Block):
    """By what factor a measured time may be above or below: so does its steps' part, so does its
    bytes' part."""

    latency: Spread = Field(default=1, description="of launch and steps")
    bandwidth: Spread = Field(default=1, description="of bytes on a wire")


class Algorithm(Block):
    """One way to do a collective. Times by device generation, `{ hopper = 4.3 us; other = 7 us }`,
    or one for all; `other` is what a generation without a row borrows. Without `other` it borrows
    the nearest row in the order of the library's `generations`, else the first."""

    name: str = ""
    does: Annotated[tuple[Collective, ...], Listed(Word(COLLECTIVES))] = Field(
        description="collectives that it does"
    )
    way: Annotated[Form, Word(FORMS)] = Field(description="its steps and what it sends")
    backend: Annotated[tuple[str, ...], Listed(Word(BACKENDS), single=True)] = Field(
        default=(), description="words of an engine's `all_to_all` that mean it"
    )
    prefill_of: Annotated[tuple[str, ...], Listed(Word(BACKENDS), single=True)] = Field(
        default=(), description="words that mean it in prefill alone"
    )
    decode_of: Annotated[tuple[str, ...], Listed(Word(BACKENDS), single=True)] = Field(
        default=(), description="words that mean it in decode alone"
    )
    over: Annotated[tuple[Ground, ...], Listed(Word(GROUNDS))] = Field(
        default=("switch",), description="shapes that its ranks may be joined by"
    )
    machines: Annotated[Literal["one", "several", "any"], Word(("one", "several", "any"))] = Field(
        default="any", description="over how many nodes a domain of its ranks may lie"
    )
    domains: Annotated[Literal["one", "several", "any"], Word(("one", "several", "any"))] = Field(
        default="one", description="over how many scale-up domains"
    )
    least_domains: Number = Field(default=1, description="the fewest domains that it is for")
    most_domains: Positive | None = Field(default=None, description="the most domains")
    ranks: Numbers | None = Field(default=None, description="group sizes that it does, no others")
    least_ranks: Number = Field(default=2, description="the smallest group that it does")
    peer: Maybe = Field(
        default=None, description="only where devices reach each other's memory, or only where not"
    )
    only: Yes = Field(default=False, description="on generations that `launch` names, no others")
    limit: Bytes | None = Field(default=None, description="the largest message that it takes")
    launch: Times = Field(description="until the first byte moves")
    step: Times = Field(default_factory=dict, description="each step, from rank to rank")
    steps: Factor = Field(default=0, description="steps besides those of its form")
    doubling: Factor = Field(default=0, description="steps each time that the ranks double")
    efficiency: Ratios = Field(description="of a link's bandwidth")
    pair_loss: Share = Field(
        default=0, description="of that: lost by n ranks, over n^2, as small groups use fewer lanes"
    )
    fill: Factor = Field(
        default=0, description="times the root of launch and wire time: filling the pipeline"
    )
    network_step: Seconds | None = Field(
        default=None, description="each step over the network, instead of the link's"
    )
    unknown_step: Seconds | None = Field(
        default=None, description="the same where the link names no `step`: borrowed"
    )
    network_efficiency: Annotated[Exact, Ratio(above=True)] = Field(
        default=1, description="of what the NICs carry"
    )
    network_fill: Factor | None = Field(default=None, description="`fill`, across domains")
    pieces: RequestRate | None = Field(
        default=None, description="contiguous pieces that it sends a second, over all NICs"
    )
    sms: Number = Field(default=0, description="SMs that move the bytes")
    sm_rate: Annotated[Exact | None, Measured(units.BYTE_RATE, inclusive=False)] = Field(
        default=None, description="what one of them moves across domains"
    )
    payload: Annotated[Format | None, Referred(("format",))] = Field(
        default=None, description="of a token on the wire, if not that of activations"
    )
    band: Annotated[Band | None, Nested()] = Field(
        default=None, description="where its constants are fitted"
    )
    loose: Annotated[Band | None, Nested()] = Field(
        default=None, description="where they are borrowed"
    )

    def words(self, phase: str) -> tuple[str, ...]:
        """Of an engine's `all_to_all`: those that mean it in a phase."""
        return (*self.backend, *(self.prefill_of if phase == "prefill" else self.decode_of))


class Library(Declaration):
    """Of several algorithms that may do a collective the fastest is taken, as libraries do."""

    family: Annotated[str, Word()] = Field(description="whose it is")
    version: String | None = Field(default=None, description="of the library")
    basis: Annotated[Basis, Word(BASES)] = Field(
        default="fitted", description="where its constants come from"
    )
    generations: Annotated[tuple[str, ...], Listed(Word())] = Field(
        default=(),
        description="of devices, oldest first: one without a row borrows the nearest, the older "
        "of two as near",
    )
    algorithms: Annotated[dict[str, Algorithm], Special()] = Field(
        default_factory=dict, description="one way to do a collective"
    )
