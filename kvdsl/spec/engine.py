"""Engines: how one version of a serving engine budgets, shards and refuses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.library import Library
from kvdsl.spec.slots import (
    Bytes,
    Listed,
    Nested,
    Number,
    Positive,
    PositiveTokens,
    Referred,
    Requests,
    Share,
    String,
    Word,
    Yes,
)

Sharing = Literal["split", "copy", "attention"]
SHARING = ("split", "copy", "attention")
Shared = Annotated[Sharing, Word(SHARING)]


class Overhead(Block):
    """Bytes a device that are neither weights nor cache."""

    activations: Bytes = Field(default=0, description="of a step at its limits")
    graphs: Bytes = Field(default=0, description="captured graphs")
    communication: Bytes = Field(default=0, description="communicators' buffers")
    other: Bytes = Field(default=0, description="all else")


class Limits(Block):
    step: PositiveTokens | None = Field(default=None, description="tokens in one step")
    sequences: Requests | None = Field(default=None, description="requests a rank")
    context: PositiveTokens | None = Field(default=None, description="longest request")


class Engine(Declaration):
    family: Annotated[str, Word()] = Field(description="whose flags, logs and refusals")
    version: String = Field(description="of the engine")
    block: PositiveTokens = Field(default=1, description="a page")
    lost_blocks: Number = Field(default=0, description="pages never used")
    budget_of: Annotated[Literal["total", "free", "rest"], Word(("total", "free", "rest"))] = Field(
        default="total",
        description="what utilization is of: memory, that before loading, that after weights",
    )
    capacity: Annotated[Literal["sold", "reported"], Word(("sold", "reported"))] = Field(
        default="sold", description="the device's figure"
    )
    embedding: Shared = Field(
        default="split", description="over the stage, on every device, or as attention"
    )
    head: Shared = Field(default="split", description="likewise")
    ffn: Shared = Field(default="split", description="likewise")
    shared_experts: Shared = Field(default="split", description="likewise")
    norms: Shared = Field(default="split", description="likewise")
    router: Shared = Field(default="split", description="likewise")
    latent_projections: Shared = Field(default="split", description="likewise")
    indexer: Shared = Field(default="split", description="likewise")
    index_cache: Shared = Field(default="split", description="likewise")
    cp_weights: Annotated[Literal["split", "copy"], Word(("split", "copy"))] = Field(
        default="copy", description="attention weights over cp"
    )
    hybrid: Annotated[
        Literal["separate", "one_pool", "two_pools", "full"],
        Word(("separate", "one_pool", "two_pools", "full")),
    ] = Field(default="separate", description="how windows, states and full attention share pages")
    remainder: Annotated[Literal["first", "last", "inner"], Word(("first", "last", "inner"))] = (
        Field(default="first", description="stages that take a layer more")
    )
    all_to_all: Annotated[str | None, Word()] = Field(default=None, description="backend")
    libraries: Annotated[tuple[Library, ...], Listed(Referred(("library",)))] = Field(
        default=(), description="that move its bytes, in the order that it asks them"
    )
    cp_exchange: Annotated[str | None, Word(("ag_rs", "a2a"))] = Field(
        default=None, description="backend: gather and scatter, or an all-to-all, as unless given"
    )
    cp_roles: Annotated[Literal["any", "decode"], Word(("any", "decode"))] = Field(
        default="any", description="pools whose attention may be cut over cp"
    )
    cp_run: Annotated[Literal["any", "divides", "block"], Word(("any", "divides", "block"))] = (
        Field(default="any", description="`interleave`: free, dividing a page, or a page")
    )
    cp_overlap: Yes = Field(
        default=False, description="the exchange over cp runs beside attention of other requests"
    )
    kv_formats: Annotated[tuple[str, ...], Listed(Word())] = Field(
        default=(), description="of a cache that its attention reads as it is kept; any unless said"
    )
    scattered_output: Yes = Field(
        default=False,
        description="between attention under tp and dp and experts over ep, sums stay scattered",
    )
    stage_sends: Annotated[
        Literal["hidden", "hidden_residual"], Word(("hidden", "hidden_residual"))
    ] = Field(default="hidden", description="what a stage boundary carries")
    partial_block: Annotated[Literal["pad", "refuse"], Word(("pad", "refuse"))] = Field(
        default="pad", description="a weight block that a shard cuts"
    )
    utilization: Share | None = Field(default=None, description="if a deployment says nothing")
    limits: Annotated[Limits | None, Nested()] = Field(
        default=None, description="if a deployment says nothing"
    )
    absorbed_copies: Yes = Field(
        default=False, description="MLA keeps its absorbed matrices beside the weights"
    )
    vocab_pad: Positive = Field(default=1, description="vocabulary rows are padded to a multiple")
    expert_pad: Positive = Field(default=1, description="an expert's width is padded to a multiple")
    overhead: Annotated[Overhead | None, Nested()] = Field(
        default=None, description="bytes a device"
    )
