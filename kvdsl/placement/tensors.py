"""A model as a set of logical tensors with named dimensions.

Comes in: the typed model. Goes out: tensors by module, each with its shape, the layers that have
one, and the dimension that a layout may cut. Counts are what a checkpoint stores: router biases
and norms included, draft heads (`mtp`) and towers apart. Not its job: where a tensor goes.

Rules of counting: the model's attributes in language.md; checked against the counts that
transformers gives for published configs (tests/known).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvdsl.spec.model import (
    AnyPart,
    Gated,
    Gqa,
    Layer,
    Mla,
    Model,
    Moe,
    Plain,
    SharedCache,
    Softmax,
)


@dataclass(frozen=True, slots=True)
class Tensor:
    """`count` equal matrices (or vectors: one row) in each of `layers` layers from `first` on.

    `module` is a word of the recipes; `cut` the dimension that is placed: query_heads, kv_heads,
    latent_projection, width, experts, vocabulary, norm, router; `atoms` how many it has.
    """

    module: str
    part: str
    name: str
    rows: int
    columns: int
    cut: str
    atoms: int
    count: int = 1
    first: int = 0
    layers: int = 1
    place: str = "layer"
    """`layer`, or `first` and `last` for what belongs to the first or last stage."""

    @property
    def parameters(self) -> int:
        """In one layer."""
        return self.rows * self.columns * self.count

    @property
    def in_all(self) -> int:
        return self.parameters * self.layers


class Uncounted(Exception):
    """A part whose parameters this version does not count. Caught where the model is read."""

    def __init__(self, part: str, form: str) -> None:
        super().__init__(f"{part} = {form}")
        self.part, self.form = part, form


def tensors(model: Model) -> tuple[Tensor, ...]:
    """All tensors of the main model, in the order of the stack. Raises Uncounted."""
    found = list(_outside(model))
    first = 0
    for count, layer in model.sequence():
        made = _layer(model, layer)
        found.extend(replace(t, first=first, layers=count) for t in made)
        first += count
    return tuple(found)


def active(model: Model, tensor: Tensor) -> int:
    """Parameters of a tensor that one token meets: `active` of the routed experts, all else."""
    part = model.parts.get(tensor.part)
    if tensor.module == "routed_experts" and isinstance(part, Moe):
        return tensor.in_all * part.active // part.experts
    return tensor.in_all


def _vector(module: str, part: str, name: str, width: int, cut: str = "norm") -> Tensor:
    return Tensor(module, part, name, 1, width, cut, width)


def _outside(model: Model) -> Iterator[Tensor]:
    width = model.embedding_dim or model.hidden
    vocabulary = Tensor(
        "embedding", "", "tokens", model.vocab, width, "vocabulary", model.vocab, place="first"
    )
    yield vocabulary
    if not model.tied_embeddings:
        yield replace(vocabulary, module="head", name="head", place="last")
    if model.embedding_dim is not None:
        down = Tensor("embedding", "", "project_in", model.hidden, width, "width", width)
        yield replace(down, place="first")
        yield replace(down, module="head", name="project_out", place="last")
    if model.positions:
        yield Tensor(
            "embedding", "", "positions", model.positions, model.hidden, "width", model.hidden,
            place="first",
        )  # fmt: skip
    if model.head_bias:
        yield Tensor("head", "", "bias", 1, model.vocab, "vocabulary", model.vocab, place="last")
    sides = 2 if model.norm_bias else 1
    if model.embedding_norm:
        yield replace(_vector("norms", "", "embedding", model.hidden * sides), place="first")
    if model.final_norm:
        yield replace(_vector("norms", "", "final", model.hidden * sides), place="last")
    if model.extra:
        yield replace(_vector("norms", "", "extra", model.extra), place="first")


def _layer(model: Model, layer: Layer) -> list[Tensor]:
    found: list[Tensor] = []
    for name in layer.parts:
        part = model.parts[name]
        found.extend(_part(model, name, part))
        if part.extra:
            found.append(_vector(_module(part), name, "extra", part.extra))
    norms = layer.norms if layer.norms is not None else model.layer_norms
    norms = len(layer.parts) if norms is None else norms
    width = model.hidden * (2 if model.norm_bias else 1)
    if norms:
        found.append(replace(_vector("norms", "", "layer", width), count=norms))
    if layer.extra:
        found.append(_vector("norms", "", "extra", layer.extra))
    return found


def _module(part: AnyPart) -> str:
    if isinstance(part, Gated | Plain):
        return "ffn"
    return "routed_experts" if isinstance(part, Moe) else "attention"


def _part(model: Model, name: str, part: AnyPart) -> Iterator[Tensor]:
    match part:
        case Gqa():
            yield from _gqa(model, name, part)
        case Mla():
            yield from _mla(model, name, part)
        case SharedCache():
            yield from _shared_cache(model, name, part)
        case Gated() | Plain():
            yield from _dense(model, name, part)
        case Moe():
            yield from _moe(model, name, part)
        case _:
            raise Uncounted(name, part.form)


def _heads(name: str, what: str, rows: int, columns: int, heads: int, cut: str) -> Tensor:
    return Tensor("attention", name, what, rows, columns, cut, heads)


def _query(model: Model, name: str, part: Softmax, width: int) -> Iterator[Tensor]:
    heads = part.query_heads
    if part.q_rank is None:
        yield _heads(name, "q", heads * width, model.hidden, heads, "query_heads")
        return
    rank = part.q_rank
    yield _heads(name, "q_down", rank, model.hidden, rank, "latent_projection")
    yield _heads(name, "q_norm", 1, rank, rank, "latent_projection")
    yield _heads(name, "q_up", heads * width, rank, heads, "query_heads")


def _gqa(model: Model, name: str, part: Gqa) -> Iterator[Tensor]:
    hidden, heads, kv = model.hidden, part.query_heads, part.kv_heads
    yield from _query(model, name, part, part.head_dim)
    yield _heads(name, "k", kv * part.head_dim, hidden, kv, "kv_heads")
    if part.value == "own":
        yield _heads(name, "v", kv * part.value_width, hidden, kv, "kv_heads")
    yield _heads(name, "o", hidden, heads * part.value_width, heads, "query_heads")
    for side, width, count, cut in (
        ("q", heads * part.head_dim, heads, "query_heads"),
        ("k", kv * part.head_dim, kv, "kv_heads"),
        ("v", kv * part.value_width, kv, "kv_heads"),
        ("o", hidden, hidden, "norm"),
    ):
        if side in part.bias and not (side == "v" and part.value != "own"):
            yield _heads(name, f"{side}_bias", 1, width, count, cut)
    yield from _extras(model, name, part, part.head_dim, part.value_width, kv)


def _mla(model: Model, name: str, part: Mla) -> Iterator[Tensor]:
    hidden, heads = model.hidden, part.query_heads
    yield from _query(model, name, part, part.nope_dim + part.rope_dim)
    latent = part.kv_rank + part.rope_dim
    yield _heads(name, "kv_down", latent, hidden, latent, "latent_projection")
    yield _heads(name, "kv_norm", 1, part.kv_rank, part.kv_rank, "latent_projection")
    expanded = part.nope_dim + part.value_dim
    yield _heads(name, "kv_up", heads * expanded, part.kv_rank, heads, "query_heads")
    yield _heads(name, "o", hidden, heads * part.value_dim, heads, "query_heads")
    yield from _extras(model, name, part, part.nope_dim + part.rope_dim, part.value_dim, 0)


def _extras(
    model: Model, name: str, part: Softmax, head_dim: int, value_dim: int, kv_heads: int
) -> Iterator[Tensor]:
    heads = part.query_heads
    if part.qk_norm == "per_head":
        yield _heads(name, "qk_norm", 2, head_dim, head_dim, "norm")
    elif part.qk_norm == "full":
        yield _heads(name, "qk_norm", 1, (heads + kv_heads) * head_dim, heads, "norm")
    if part.output_gate == "per_head":
        yield _heads(name, "gate", heads, model.hidden, heads, "query_heads")
    elif part.output_gate == "per_element":
        yield _heads(name, "gate", heads * value_dim, model.hidden, heads, "query_heads")
    if part.sinks:
        yield _heads(name, "sinks", 1, heads, heads, "query_heads")
    if part.indexer is not None and part.indexer != "shared":
        index = part.indexer
        source = part.q_rank or model.hidden
        yield Tensor("indexer", name, "index_q", index.heads * index.key_dim, source, "indexer", 1)
        yield Tensor("indexer", name, "index_k", index.key_dim, model.hidden, "indexer", 1)
        yield Tensor("indexer", name, "index_norm", 2, index.key_dim, "indexer", 1)
        yield Tensor("indexer", name, "index_weights", index.heads, model.hidden, "indexer", 1)


def _shared_cache(model: Model, name: str, part: SharedCache) -> Iterator[Tensor]:
    of = model.parts.get(part.of)
    width = part.head_dim or (of.head_dim if isinstance(of, Gqa) else None)
    if width is None:
        raise Uncounted(name, "shared")
    heads = part.query_heads
    yield _heads(name, "q", heads * width, model.hidden, heads, "query_heads")
    yield _heads(name, "o", model.hidden, heads * width, heads, "query_heads")
    if "q" in part.bias:
        yield _heads(name, "q_bias", 1, heads * width, heads, "query_heads")
    if "o" in part.bias:
        yield _heads(name, "o_bias", 1, model.hidden, model.hidden, "norm")
    if part.qk_norm == "per_head":
        yield _heads(name, "qk_norm", 1, width, width, "norm")
    if part.sinks:
        yield _heads(name, "sinks", 1, heads, heads, "query_heads")


def _dense(model: Model, name: str, part: Gated | Plain) -> Iterator[Tensor]:
    hidden, width = model.hidden, part.intermediate
    wide = 2 if isinstance(part, Gated) else 1
    yield Tensor("ffn", name, "up", width, hidden, "width", width, count=wide)
    yield Tensor("ffn", name, "down", hidden, width, "width", width)
    if part.bias:
        yield Tensor("ffn", name, "up_bias", 1, width, "width", width, count=wide)
        yield Tensor("ffn", name, "down_bias", 1, hidden, "width", hidden)


def _moe(model: Model, name: str, part: Moe) -> Iterator[Tensor]:
    hidden = part.latent or model.hidden
    wide = 2 if part.gated else 1
    many, width = part.experts, part.intermediate
    routed = Tensor("routed_experts", name, "up", width, hidden, "experts", many, count=wide * many)
    yield routed
    yield replace(routed, name="down", rows=hidden, columns=width, count=many)
    if part.bias:
        yield replace(routed, name="up_bias", rows=1, columns=width)
        yield replace(routed, name="down_bias", rows=1, columns=hidden, count=many)
    if part.latent is not None:
        yield Tensor(
            "routed_experts", name, "latent", part.latent, model.hidden, "width", part.latent,
            count=2,
        )  # fmt: skip
    router = Tensor("router", name, "weight", many, model.hidden, "router", many)
    yield router
    for given, what in ((part.router_bias, "bias"), (part.score_bias, "score_bias")):
        if given:
            yield replace(router, name=what, rows=1, columns=many)
    shared = part.shared_width
    if shared:
        up = Tensor("shared_experts", name, "up", shared, model.hidden, "width", shared, count=wide)
        yield up
        yield replace(up, name="down", rows=model.hidden, columns=shared, count=1)
        if part.shared_gate:
            yield _vector("shared_experts", name, "gate", model.hidden)
