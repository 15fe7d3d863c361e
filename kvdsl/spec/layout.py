"""Layouts: how a model is cut over devices. Placement alone reads them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.slots import (
    Listed,
    Nested,
    Number,
    Numbers,
    Positive,
    PositiveTokens,
    Word,
    Yes,
)

AXES = ("replicas", "pp", "dp", "cp", "pcp", "tp", "ep")


class AttentionLayout(Block):
    dp: Positive = Field(default=1, description="requests")
    cp: Positive = Field(default=1, description="sequence and its cache")
    pcp: Positive = Field(default=1, description="sequence in prefill, cache copied")
    tp: Positive = Field(default=1, description="heads")
    interleave: PositiveTokens = Field(default=1, description="run of tokens on a cp rank")
    latent: Annotated[Literal["whole", "split"], Word(("whole", "split"))] = Field(
        default="whole", description="split: columns over tp"
    )
    exact: Yes = Field(default=True, description="false: a split latent is an approximation")
    output: Annotated[Literal["whole", "split"], Word(("whole", "split"))] = Field(
        default="whole", description="the output projection over cp: copied, or cut"
    )
    prompt: Annotated[Literal["gather", "ring"], Word(("gather", "ring"))] = Field(
        default="gather", description="keys and values over pcp: gathered, or passed round"
    )
    overlap: Yes = Field(
        default=False, description="the exchange over cp runs beside attention of other requests"
    )


class WidthLayout(Block):
    """For ffn, shared_experts and vocab."""

    dp: Positive = Field(default=1, description="copies")
    tp: Positive = Field(default=1, description="width, or vocabulary rows")


class ExpertLayout(Block):
    ep: Positive = Field(default=1, description="experts")
    tp: Positive = Field(default=1, description="inside each")
    redundant: Number = Field(default=0, description="extra experts in all")


class Layout(Declaration):
    tp: Positive | None = Field(default=None, description="S, the devices of a stage")
    pp: Positive = Field(default=1, description="stages")
    stages: Numbers | None = Field(default=None, description="layers in each; even unless given")
    attention: Annotated[AttentionLayout | None, Nested()] = Field(
        default=None, description="how attention and its cache are cut"
    )
    ffn: Annotated[WidthLayout | None, Nested()] = Field(
        default=None, description="how the dense feed-forward is cut; norms and router go with it"
    )
    shared_experts: Annotated[WidthLayout | None, Nested()] = Field(
        default=None, description="how shared experts are cut; as ffn unless given"
    )
    vocab: Annotated[WidthLayout | None, Nested()] = Field(
        default=None, description="how embedding and head are cut"
    )
    experts: Annotated[ExpertLayout | None, Nested()] = Field(
        default=None, description="how routed experts are cut"
    )
    replicas: Positive = Field(default=1, description="whole copies")
    order: Annotated[tuple[str, ...], Listed(Word(AXES))] = Field(
        default=("replicas", "pp", "dp", "cp", "pcp", "tp"), description="outermost first"
    )
