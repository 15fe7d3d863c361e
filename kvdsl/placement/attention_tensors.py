"""Tensors of attention with a growing cache: projections, their biases and norms, gates, sinks,
sparse indexers and compressors.

Comes in: a part. Goes out: its tensors in one layer. Not its job: states of fixed size
(mixer_tensors). Rules: language.md, Attention; DeepSeek-V3.2 and V4 as transformers stores them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.placement.tensor import Tensor
from kvdsl.spec.model import AnyPart, Compression, Gqa, Indexer, Mla, Model, SharedCache, Softmax


def attention(model: Model, name: str, part: Gqa | Mla | SharedCache) -> Iterator[Tensor]:
    match part:
        case Gqa():
            yield from _gqa(model, name, part)
        case Mla():
            yield from _mla(model, name, part)
        case SharedCache():
            yield from _shared_cache(model, name, part)


def _heads(name: str, what: str, rows: int, columns: int, heads: int, cut: str) -> Tensor:
    return Tensor("attention", name, what, rows, columns, cut, heads)


def _reading(tensor: Tensor) -> Tensor:
    """A projection that reads what heads give: cut along its columns."""
    return replace(tensor, along="columns")


def _query(model: Model, name: str, part: Softmax, width: int) -> Iterator[Tensor]:
    heads = part.query_heads
    if part.q_rank is None:
        yield _heads(name, "q", heads * width, model.hidden, heads, "query_heads")
        return
    rank = part.q_rank
    yield _heads(name, "q_down", rank, model.hidden, rank, "latent_projection")
    yield _heads(name, "q_norm", 1, rank, rank, "latent_projection")
    yield _heads(name, "q_up", heads * width, rank, heads, "query_heads")


def _output(model: Model, name: str, part: Softmax, width: int) -> Iterator[Tensor]:
    """The output projection: one matrix, or by groups of heads to a rank and from there up."""
    heads = part.query_heads
    if part.o_rank is None:
        yield _reading(_heads(name, "o", model.hidden, heads * width, heads, "query_heads"))
        return
    low = part.o_groups * part.o_rank
    yield _heads(name, "o_down", low, heads * width // part.o_groups, heads, "query_heads")
    yield _reading(_heads(name, "o_up", model.hidden, low, low, "query_heads"))


def _gqa(model: Model, name: str, part: Gqa) -> Iterator[Tensor]:
    hidden, heads, kv = model.hidden, part.query_heads, part.kv_heads
    yield from _query(model, name, part, part.head_dim)
    yield _heads(name, "k", kv * part.head_dim, hidden, kv, "kv_heads")
    if part.value == "own":
        yield _heads(name, "v", kv * part.value_width, hidden, kv, "kv_heads")
    yield from _output(model, name, part, part.value_width)
    for side, width, count, cut in (
        ("q", heads * part.head_dim, heads, "query_heads"),
        ("k", kv * part.head_dim, kv, "kv_heads"),
        ("v", kv * part.value_width, kv, "kv_heads"),
        ("o", hidden, hidden, "norm"),
    ):
        if side in part.bias and not (side == "v" and part.value != "own"):
            yield _heads(name, f"{side}_bias", 1, width, count, cut)
    yield from _norms_and_gates(model, name, part, part.head_dim, part.value_width, kv)
    yield from _sparse(model, name, part)


def _mla(model: Model, name: str, part: Mla) -> Iterator[Tensor]:
    hidden, heads = model.hidden, part.query_heads
    yield from _query(model, name, part, part.nope_dim + part.rope_dim)
    latent = part.kv_rank + part.rope_dim
    yield _heads(name, "kv_down", latent, hidden, latent, "latent_projection")
    yield _heads(name, "kv_norm", 1, part.kv_rank, part.kv_rank, "latent_projection")
    expanded = part.nope_dim + part.value_dim
    yield _heads(name, "kv_up", heads * expanded, part.kv_rank, heads, "query_heads")
    yield from _output(model, name, part, part.value_dim)
    yield from _mla_biases(model, name, part)
    width = part.nope_dim + part.rope_dim
    yield from _norms_and_gates(model, name, part, width, part.value_dim, 0)
    yield from _sparse(model, name, part)


def _mla_biases(model: Model, name: str, part: Mla) -> Iterator[Tensor]:
    """A bias stands on the projections out of the hidden state and on the output."""
    heads = part.query_heads
    if "q" in part.bias:
        width, cut = (heads * (part.nope_dim + part.rope_dim), "query_heads")
        if part.q_rank is not None:
            width, cut = part.q_rank, "latent_projection"
        yield _heads(name, "q_bias", 1, width, width, cut)
    if "k" in part.bias or "v" in part.bias:
        latent = part.kv_rank + part.rope_dim
        yield _heads(name, "kv_bias", 1, latent, latent, "latent_projection")
    if "o" in part.bias:
        yield _heads(name, "o_bias", 1, model.hidden, model.hidden, "norm")


def _norms_and_gates(
    model: Model,
    name: str,
    part: Softmax | SharedCache,
    head_dim: int,
    value_dim: int,
    kv_heads: int,
) -> Iterator[Tensor]:
    heads = part.query_heads
    # A part that reads another's cache has no key, so its norm is that of the query alone.
    sides = 1 if isinstance(part, SharedCache) else 2
    if part.qk_norm == "per_head":
        yield _heads(name, "qk_norm", sides, head_dim, head_dim, "norm")
    elif part.qk_norm == "full":
        yield _heads(name, "qk_norm", 1, (heads + kv_heads) * head_dim, heads, "norm")
    if part.output_gate == "per_head":
        yield _heads(name, "gate", heads, model.hidden, heads, "query_heads")
    elif part.output_gate == "per_element":
        yield _heads(name, "gate", heads * value_dim, model.hidden, heads, "query_heads")
    if part.sinks:
        yield _heads(name, "sinks", 1, heads, heads, "query_heads")


def _shared_cache(model: Model, name: str, part: SharedCache) -> Iterator[Tensor]:
    width, value = shared_widths(model.parts.get(part.of), part)
    heads = part.query_heads
    yield _heads(name, "q", heads * width, model.hidden, heads, "query_heads")
    yield _reading(_heads(name, "o", model.hidden, heads * value, heads, "query_heads"))
    if "q" in part.bias:
        yield _heads(name, "q_bias", 1, heads * width, heads, "query_heads")
    if "o" in part.bias:
        yield _heads(name, "o_bias", 1, model.hidden, model.hidden, "norm")
    yield from _norms_and_gates(model, name, part, width, value, 0)


def shared_widths(of: AnyPart | None, part: SharedCache) -> tuple[int, int]:
    """The width of a query head and of a value, as in the part whose cache is read."""
    match of:
        case Gqa():
            key, value = of.head_dim, of.value_width
        case Mla():
            key, value = of.nope_dim + of.rope_dim, of.value_dim
        case _:
            key = value = part.head_dim or 0
    if part.head_dim is not None and part.head_dim != key:
        return part.head_dim, part.head_dim
    return key, value


# --- sparse selection and compression -----------------------------------------------------------


def _sparse(model: Model, name: str, part: Softmax) -> Iterator[Tensor]:
    if part.compress is not None:
        yield from _compressor(model, "attention", name, part.compress, part.compress.width)
    index = part.indexer
    if index is None or index == "shared":
        return
    yield from _indexer(model, name, part, index)


def _indexer(model: Model, name: str, part: Softmax, index: Indexer) -> Iterator[Tensor]:
    source = part.q_rank or model.hidden
    query = Tensor("indexer", name, "index_q", index.heads * index.key_dim, source, "indexer", 1)
    yield query
    if part.compress is not None:
        # Its keys are those of the compressed entries, made by a compressor of their own.
        yield from _compressor(model, "indexer", name, part.compress, index.key_dim)
    else:
        yield replace(query, name="index_k", rows=index.key_dim, columns=model.hidden)
        yield replace(query, name="index_norm", rows=2, columns=index.key_dim)
    if index.head_weights:
        yield replace(query, name="index_weights", rows=index.heads, columns=model.hidden)


def _compressor(
    model: Model, module: str, name: str, compress: Compression, width: int
) -> Iterator[Tensor]:
    """Values and their gate out of the hidden state, a bias for each place in a run, a norm. Runs
    that overlap have two of each projection."""
    each = width * (2 if compress.overlap else 1)
    pair = Tensor(module, name, "compress", each, model.hidden, "indexer", 1, count=2)
    yield pair
    yield replace(pair, name="compress_place", rows=compress.every, columns=each, count=1)
    yield replace(pair, name="compress_norm", rows=1, columns=width, count=1)
