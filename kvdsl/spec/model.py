"""Models: parts, the stack of layers that uses them, and what else a checkpoint stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.formats import Recipe
from kvdsl.spec.slots import (
    Listed,
    Nested,
    Number,
    Positive,
    PositiveTokens,
    Quoted,
    Referred,
    Special,
    Tokens,
    Word,
    Yes,
)

Projection = Literal["q", "k", "v", "o"]
QueryNorm = Literal["none", "per_head", "full"]
OutputGate = Literal["none", "per_head", "per_element"]


class Indexer(Block):
    """A sparse selection of keys; its own key is cached too."""

    heads: Positive = Field(description="heads of the indexer")
    key_dim: Positive = Field(description="width of its one key, cached for each token")
    top: PositiveTokens = Field(description="tokens that it selects")
    head_weights: Yes = Field(default=True, description="a weight a head, out of the hidden state")


class Compression(Block):
    """One cache entry for so many tokens, beside the window."""

    every: PositiveTokens = Field(description="tokens an entry stands for")
    width: Positive = Field(description="values of an entry")
    overlap: Yes = Field(default=False, description="runs overlap: twice the projections")


class Part(Block):
    """A piece of a layer, named in the model."""

    name: str = ""
    extra: Number = Field(default=0, description="parameters here that no attribute names")


class Softmax(Part):
    """What attention with a growing cache shares."""

    query_heads: Positive = Field(description="query heads")
    q_rank: Positive | None = Field(default=None, description="low-rank query, with its norm")
    bias: Annotated[tuple[Projection, ...], Listed(Word(("q", "k", "v", "o")))] = Field(
        default=(), description="projections that have a bias"
    )
    qk_norm: Annotated[QueryNorm, Word(("none", "per_head", "full"))] = Field(
        default="none",
        description="per_head: 2 x head_dim; full: (query_heads + kv_heads) x head_dim",
    )
    output_gate: Annotated[OutputGate, Word(("none", "per_head", "per_element"))] = Field(
        default="none", description="hidden x query_heads; per_element: that times value_dim"
    )
    sinks: Yes = Field(default=False, description="one parameter a query head")
    window: PositiveTokens | None = Field(
        default=None, description="only the last so many are kept"
    )
    chunk: PositiveTokens | None = Field(default=None, description="only the present chunk is kept")
    cross: Tokens | None = Field(
        default=None, description="an encoder's keys, so many once a request; 0 without an input"
    )
    o_rank: Positive | None = Field(default=None, description="low-rank output, in `o_groups`")
    o_groups: Positive = Field(default=1, description="groups of heads, each with its `o_rank`")
    indexer: Annotated[Indexer | Literal["shared"] | None, Nested(words=("shared",))] = Field(
        default=None, description="sparse selection; shared: an earlier layer's choice"
    )
    compress: Annotated[Compression | None, Nested()] = Field(
        default=None, description="one entry for so many tokens, beside the window"
    )


class Gqa(Softmax):
    """Grouped queries (MHA and MQA too): caches kv_heads x (head_dim + value_dim) values."""

    form: Literal["gqa"] = "gqa"
    kv_heads: Positive = Field(description="key and value heads")
    head_dim: Positive = Field(description="width of a key head")
    value_dim: Positive | None = Field(
        default=None, description="width of a value; head_dim unless given"
    )
    value: Annotated[Literal["own", "key", "same"], Word(("own", "key", "same"))] = Field(
        default="own", description="key: no value projection; same: nor a value in the cache"
    )

    @property
    def value_width(self) -> int:
        return self.head_dim if self.value_dim is None else self.value_dim


class Mla(Softmax):
    """Multi-head latent attention: caches kv_rank + rope_dim values, once for all heads."""

    form: Literal["mla"] = "mla"
    kv_rank: Positive = Field(description="width of the latent")
    nope_dim: Positive = Field(description="width of a head's key without position")
    rope_dim: Number = Field(description="width of the shared rope key, which is cached too")
    value_dim: Positive = Field(description="width of a head's value")


class SharedCache(Part):
    """Reads the cache of the last layer of another part; has no key, value or cache."""

    form: Literal["shared"] = "shared"
    of: Annotated[str, Word()] = Field(description="the part whose cache is read")
    query_heads: Positive = Field(description="query heads")
    head_dim: Positive | None = Field(default=None, description="as in that part unless given")
    bias: Annotated[tuple[Projection, ...], Listed(Word(("q", "o")))] = Field(
        default=(), description="projections that have a bias"
    )
    qk_norm: Annotated[QueryNorm, Word(("none", "per_head", "full"))] = Field(
        default="none", description="as in gqa"
    )
    output_gate: Annotated[OutputGate, Word(("none", "per_head", "per_element"))] = Field(
        default="none", description="as in gqa"
    )
    sinks: Yes = Field(default=False, description="one parameter a query head")


class GatedDelta(Part):
    form: Literal["gated_delta"] = "gated_delta"
    key_heads: Positive = Field(description="key heads of the state")
    value_heads: Positive = Field(description="value heads of the state")
    key_dim: Positive = Field(description="width of a key head")
    value_dim: Positive = Field(description="width of a value head")
    conv: Positive = Field(description="width of the kernel")


class Kda(Part):
    form: Literal["kda"] = "kda"
    heads: Positive = Field(description="heads of the state")
    head_dim: Positive = Field(description="width of a head")
    conv: Positive = Field(description="width of the kernel")
    full_gate: Yes = Field(default=False, description="its output gate is one matrix, not two")


class Lightning(Part):
    form: Literal["lightning"] = "lightning"
    heads: Positive = Field(description="heads of the state")
    head_dim: Positive = Field(description="width of a head")


class Mamba1(Part):
    form: Literal["mamba1"] = "mamba1"
    inner: Positive = Field(description="inner width")
    state: Positive = Field(description="values of state an inner channel")
    conv: Positive = Field(description="width of the kernel")
    dt_rank: Positive = Field(description="rank of the step")
    bias: Yes = Field(default=False, description="biases of the projections in and out")
    conv_bias: Yes = Field(default=True, description="a bias a channel of the convolution")


class Mamba2(Part):
    form: Literal["mamba2"] = "mamba2"
    heads: Positive = Field(description="heads of the state")
    head_dim: Positive = Field(description="width of a head")
    groups: Positive = Field(description="groups that share their keys and queries")
    state: Positive = Field(description="values of state a channel")
    conv: Positive = Field(description="width of the kernel")
    norm: Yes = Field(default=True, description="a norm before the projection out")
    bias: Yes = Field(default=False, description="biases of the projections in and out")
    conv_bias: Yes = Field(default=True, description="a bias a channel of the convolution")


class ShortConv(Part):
    form: Literal["short_conv"] = "short_conv"
    width: Positive = Field(description="channels")
    conv: Positive = Field(description="width of the kernel")
    bias: Yes = Field(default=False, description="biases of the projections and the convolution")


class Gated(Part):
    """Three matrices: gate, up, down."""

    form: Literal["gated"] = "gated"
    intermediate: Positive = Field(description="width")
    bias: Yes = Field(default=False, description="a bias on each matrix")


class Plain(Part):
    """Two matrices: up, down."""

    form: Literal["plain"] = "plain"
    intermediate: Positive = Field(description="width")
    bias: Yes = Field(default=False, description="a bias on each matrix")


class Moe(Part):
    """Routed experts, and shared ones for every token."""

    form: Literal["moe"] = "moe"
    experts: Positive = Field(description="routed experts")
    active: Positive = Field(description="experts that a token visits")
    intermediate: Positive = Field(description="width of one expert")
    gated: Yes = Field(default=True, description="three matrices or two")
    bias: Yes = Field(default=False, description="biases in the experts")
    shared_experts: Number = Field(default=0, description="experts for every token")
    shared_intermediate: Number | None = Field(
        default=None, description="their total width; shared_experts x intermediate unless given"
    )
    shared_gate: Yes = Field(default=False, description="hidden weights")
    router_bias: Yes = Field(default=False, description="one an expert")
    score_bias: Yes = Field(default=False, description="one an expert, as a checkpoint stores it")
    groups: Positive = Field(default=1, description="groups of experts")
    top_groups: Positive = Field(default=1, description="groups in which a token's experts lie")
    latent: Positive | None = Field(
        default=None, description="the experts' narrower space, with its two projections"
    )

    @property
    def shared_width(self) -> int:
        given = self.shared_intermediate
        return self.shared_experts * self.intermediate if given is None else given


Attention = Gqa | Mla | SharedCache | GatedDelta | Kda | Lightning | Mamba1 | Mamba2 | ShortConv
FeedForward = Gated | Plain | Moe
AnyPart = Attention | FeedForward

FORMS: Mapping[str, Mapping[str, type[Part]]] = MappingProxyType(
    {
        "attention": MappingProxyType(
            {
                "gqa": Gqa,
                "mla": Mla,
                "shared": SharedCache,
                "gated_delta": GatedDelta,
                "kda": Kda,
                "lightning": Lightning,
                "mamba1": Mamba1,
                "mamba2": Mamba2,
                "short_conv": ShortConv,
            }
        ),
        "ffn": MappingProxyType({"gated": Gated, "plain": Plain, "moe": Moe}),
    }
)
"""Which forms a part may take: `attention n = mla { … }`, `ffn n = moe { … }`."""


class Layer(Block):
    """One layer: the names of its parts, in order."""

    parts: tuple[str, ...] = ()
    norms: Number | None = Field(default=None, description="norms of width hidden in this layer")
    extra: Number = Field(default=0, description="parameters here that no attribute names")


class Run(Block):
    """So many times a layer, or so many times a pattern of runs; exactly one of the two."""

    count: int = 1
    layer: Layer | None = None
    pattern: tuple[Run, ...] = ()

    @property
    def layers(self) -> int:
        inner = 1 if self.layer is not None else sum(run.layers for run in self.pattern)
        return self.count * inner


class Tower(Block):
    """An encoder beside the language model, counted apart."""

    name: str = ""
    parameters: Number = Field(description="parameters in all")
    format: Annotated[Recipe | None, Referred(("recipe",), "default", ("format",))] = Field(
        default=None, description="of its weights; as the deployment's unless given"
    )
    placement: Annotated[Literal["copy", "split"], Word(("copy", "split"))] = Field(
        default="copy", description="on every device, or split over the stage"
    )


class Model(Declaration):
    """A language model as a checkpoint stores it."""

    config: Annotated[str | None, Quoted(blank=True)] = Field(
        default=None, description="path of a Hugging Face config.json"
    )
    hidden: Positive = Field(description="width")
    vocab: Positive = Field(description="rows of embedding and head")
    tied_embeddings: Yes = Field(default=False, description="the head is the embedding")
    max_context: Tokens | None = Field(default=None, description="a longer request is a warning")
    embedding_dim: Positive | None = Field(
        default=None, description="narrower embedding, with two projections"
    )
    embedding_rows: Positive | None = Field(
        default=None, description="rows of the embedding where the head has fewer"
    )
    layer_input: Positive | None = Field(
        default=None, description="width of an input to each layer, from a table of its own"
    )
    positions: Number = Field(default=0, description="learned positions")
    head_bias: Yes = Field(default=False, description="a bias on the head")
    embedding_norm: Yes = Field(default=False, description="a norm behind the embedding")
    norm_bias: Yes = Field(default=False, description="norms have a bias too")
    final_norm: Yes = Field(default=True, description="a norm before the head")
    layer_norms: Number | None = Field(
        default=None,
        description="norms of width hidden a layer; as many as it has parts unless given",
    )
    parts: Annotated[dict[str, AnyPart], Special()] = Field(
        default_factory=dict, description="a part of the layers, by its name"
    )
    stack: Annotated[tuple[Run, ...], Special()] = Field(description="the layers, in order")
    mtp: Annotated[tuple[Run, ...], Special()] = Field(
        default=(), description="draft layers, counted apart"
    )
    towers: Annotated[dict[str, Tower], Special()] = Field(
        default_factory=dict, description="an encoder beside the language model, counted apart"
    )
    extra: Number = Field(default=0, description="parameters here that no attribute names")

    @property
    def layers(self) -> int:
        return sum(run.layers for run in self.stack)

    def sequence(self) -> Iterator[tuple[int, Layer]]:
        """Runs of equal neighbours in the order of the stack: (how many, layer)."""
        yield from runs_of(self.stack)

    def drafts(self) -> Iterator[tuple[int, Layer]]:
        """The same of the draft layers."""
        yield from _merged(_flat(self.mtp))


def runs_of(runs: tuple[Run, ...]) -> Iterator[tuple[int, Layer]]:
    """Runs of equal neighbours in the order of a stack: (how many, layer)."""
    yield from _merged(_flat(runs))


def _flat(runs: tuple[Run, ...]) -> Iterator[tuple[int, Layer]]:
    for run in runs:
        if run.layer is not None:
            yield run.count, run.layer
        else:
            inner = list(_merged(_flat(run.pattern)))
            for _ in range(1 if len(inner) == 1 else run.count):
                for count, layer in inner:
                    yield (count * run.count if len(inner) == 1 else count), layer


def _merged(runs: Iterator[tuple[int, Layer]]) -> Iterator[tuple[int, Layer]]:
    pending: tuple[int, Layer] | None = None
    for count, layer in runs:
        if pending is not None and pending[1] is layer:
            pending = (pending[0] + count, layer)
            continue
        if pending is not None:
            yield pending
        pending = (count, layer)
    if pending is not None:
        yield pending
