"""Engines: how one version of a serving engine budgets, shards and refuses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from kvdsl.spec.backends import BACKENDS
from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.engine_pace import Pace
from kvdsl.spec.library import Library
from kvdsl.spec.slots import (
    Bytes,
    Exact,
    Listed,
    Nested,
    Number,
    Positive,
    PositiveTokens,
    Ratio,
    Referred,
    Requests,
    Share,
    Special,
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


class Size(Limits):
    """Limits on devices of some size. Of the sizes whose bounds the smallest device of a deployment
    meets, that of the most memory holds, and of those that of the most `tp`."""

    name: str = ""
    memory: Bytes = Field(default=0, description="of a device, at the least")
    tp: Positive = Field(default=1, description="devices of a stage, at the least")
    not_on: Annotated[tuple[str, ...], Listed(Word())] = Field(
        default=(), description="generations of devices that it is not for"
    )

    @property
    def bounds(self) -> tuple[Exact, int]:
        return self.memory, self.tp

    def holds(self, memory: Exact, generation: str | None, tp: int) -> bool:
        """On a device of so many bytes, in a stage of `tp` devices."""
        return memory >= self.memory and tp >= self.tp and generation not in self.not_on


class Blocks(Block):
    """Pages of caches whose kernels want others than `block`; the largest that applies holds."""

    mla: PositiveTokens | None = Field(default=None, description="a latent")
    indexer: PositiveTokens | None = Field(default=None, description="the keys of an indexer")
    compressed: PositiveTokens | None = Field(default=None, description="entries of runs")


class HybridCache(Block):
    """How caches of unlike growth lie side by side."""

    window_steps: Number | None = Field(
        default=None,
        description="a window keeps the tokens of steps in flight: one a stage, so many more",
    )
    window_spare: Number = Field(default=0, description="pages of a window beside its tokens")
    window_share: Annotated[Exact, Ratio()] = Field(
        default=1, description="two pools: tokens of the windows' for each of the other"
    )
    state_block: PositiveTokens | None = Field(
        default=None,
        description="one pool: pages are raised by so many tokens until one holds a state",
    )
    state_copies: Positive = Field(default=1, description="of its states, for each request")
    state_share: Annotated[Exact | None, Ratio(most=None, above=True)] = Field(
        default=None, description="two pools: bytes of the states' for each byte of the rest"
    )
    conv_columns: Annotated[Literal["kernel", "past"], Word(("kernel", "past"))] = Field(
        default="kernel", description="a convolution's state: its kernel's, or those but the newest"
    )
    lost_states: Number = Field(default=0, description="two pools: states never used")


class HeldBack(Block):
    """What a version keeps out of its share of the memory if no utilization is written: the sum of
    these, `least` at the least. The share is what remains, rounded to a thousandth."""

    fixed: Bytes = Field(default=0, description="on every device")
    step_token: Bytes = Field(default=0, description="for each token of a step (`limits`)")
    device: Bytes = Field(default=0, description="for each device of a replica")
    sequence: Bytes = Field(default=0, description="for each request of a step (`limits`)")
    dp_sequence: Bytes = Field(default=0, description="under dp, for each request and dp rank")
    latent: Bytes = Field(default=0, description="where a latent is cached")
    least: Bytes = Field(default=0, description="in all")
    least_from: Bytes = Field(
        default=0, description="`least` holds on devices of more memory than this"
    )


class Engine(Declaration):
    belongs: ClassVar[Mapping[str, str]] = MappingProxyType({"written": "family"})

    family: Annotated[str, Word()] = Field(description="whose flags, logs and refusals")
    written: String | None = Field(
        default=None, description="the family as its makers write it, for reports"
    )
    version: String = Field(description="of the engine")
    block: PositiveTokens = Field(default=1, description="a page")
    blocks: Annotated[Blocks | None, Nested()] = Field(
        default=None, description="pages of some caches, where they are larger"
    )
    lost_blocks: Number = Field(default=0, description="pages never used")
    printed: Annotated[
        Literal["tokens", "blocks", "longest"], Word(("tokens", "blocks", "longest"))
    ] = Field(
        default="tokens",
        description="the start-up figure: tokens of all pages, pages, or requests of the longest "
        "length x that length",
    )
    admission: Annotated[Literal["whole", "prompt"], Word(("whole", "prompt"))] = Field(
        default="whole",
        description="a request starts when its end has room too, or when its prompt has",
    )
    sizing: Annotated[Literal["held", "even"], Word(("held", "even"))] = Field(
        default="held",
        description="a token's bytes when the pool is sized: as held, or KV heads over TP "
        "however few they are",
    )
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
    shared_experts_dp: Shared | None = Field(
        default=None, description="the same where attention has dp and experts ep"
    )
    norms: Shared = Field(default="split", description="likewise")
    router: Shared = Field(default="split", description="likewise")
    latent_projections: Shared = Field(default="split", description="likewise")
    indexer: Shared = Field(default="split", description="likewise")
    index_cache: Shared = Field(
        default="split", description="an indexer's keys over cp: as the cache, or on every rank"
    )
    index_everywhere: Yes = Field(
        default=False, description="layers that share an indexer's choice keep keys too"
    )
    cp_weights: Annotated[Literal["split", "copy"], Word(("split", "copy"))] = Field(
        default="copy", description="attention weights over cp"
    )
    hybrid: Annotated[
        Literal["separate", "one_pool", "two_pools", "full"],
        Word(("separate", "one_pool", "two_pools", "full")),
    ] = Field(default="separate", description="how windows, states and full attention share pages")
    hybrid_cache: Annotated[HybridCache | None, Nested()] = Field(
        default=None, description="what that takes"
    )
    remainder: Annotated[Literal["first", "last", "inner"], Word(("first", "last", "inner"))] = (
        Field(default="first", description="stages that take a layer more")
    )
    all_to_all: Annotated[str | None, Word(BACKENDS)] = Field(
        default=None, description="backend of exchanges with experts, as the engine calls it"
    )
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
    cp_of: Annotated[
        Literal["any", "copies", "latent", "none"], Word(("any", "copies", "latent", "none"))
    ] = Field(
        default="any",
        description="caches that cp may cut: any, heads that TP would copy, a latent alone, none",
    )
    cp_windows: Yes = Field(default=True, description="cp may cut a model with windows or states")
    cp_stages: Yes = Field(default=True, description="cp and pp together")
    kv_copies: Annotated[Literal["copy", "refuse"], Word(("copy", "refuse"))] = Field(
        default="copy", description="TP past the KV heads: copies of them, or no start"
    )
    attention_dp: Annotated[Literal["any", "stage"], Word(("any", "stage"))] = Field(
        default="any", description="dp beside tp, or over the whole stage only"
    )
    expert_grid: Annotated[Literal["any", "one_axis"], Word(("any", "one_axis"))] = Field(
        default="any", description="experts over ep and tp, or over one of them"
    )
    transfer_tp: Annotated[Literal["any", "multiple"], Word(("any", "multiple"))] = Field(
        default="any",
        description="TP of pools that hand a cache over: any, or one a multiple of the other",
    )
    longest: Annotated[Literal["accept", "refuse"], Word(("accept", "refuse"))] = Field(
        default="accept",
        description="a start whose longest request (`limits`, else the model's) finds no room",
    )
    longest_over: Annotated[Literal["stage", "model"], Word(("stage", "model"))] = Field(
        default="stage", description="layers that this start counts: a stage's, or all"
    )
    partial_block: Annotated[Literal["pad", "refuse"], Word(("pad", "refuse"))] = Field(
        default="pad", description="a weight block that a shard cuts"
    )
    utilization: Share | None = Field(default=None, description="if a deployment says nothing")
    held_back: Annotated[HeldBack | None, Nested()] = Field(
        default=None, description="gives the utilization where no line does"
    )
    limits: Annotated[Limits | None, Nested()] = Field(
        default=None, description="if a deployment says nothing"
    )
    sizes: Annotated[dict[str, Size], Special()] = Field(
        default_factory=dict, description="limits by device, where `limits` says nothing"
    )
    absorbed_copies: Yes = Field(
        default=False, description="MLA keeps its absorbed matrices beside the weights"
    )
    absorbed_values: Yes = Field(default=True, description="of values too, not of keys alone")
    absorbed_as: Annotated[Literal["activations", "weights"], Word(("activations", "weights"))] = (
        Field(default="activations", description="their format")
    )
    position_table: Yes = Field(
        default=False, description="angles of every position are kept: longest context x head width"
    )
    vocab_pad: Positive = Field(default=1, description="vocabulary rows are padded to a multiple")
    expert_pad: Positive = Field(
        default=1,
        description="an expert's width on a rank is padded to a multiple, in formats with a scale "
        "for a run of values",
    )
    expert_hidden_pad: Positive = Field(default=1, description="and the width that it reads")
    overhead: Annotated[Overhead | None, Nested()] = Field(
        default=None, description="bytes a device"
    )
    pace: Annotated[Pace | None, Nested()] = Field(
        default=None, description="fitted constants of time; without them `time = fitted` is ideal"
    )

    def size_on(self, memory: Exact, generation: str | None, tp: int) -> Size | None:
        """The size that holds on such a device, in a stage of `tp` devices."""
        held = [s for s in self.sizes.values() if s.holds(memory, generation, tp)]
        return max(held, key=lambda size: size.bounds, default=None)
