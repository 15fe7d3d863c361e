"""Layers of attention and feed-forward out of a config: what most classes are made of.

Comes in: a section of the config and its family. Goes out: the pieces of each layer, in order. Not
its job: stacks that have a rule of their own (stacks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kvdsl.importers import attention, mixers
from kvdsl.importers.config import MOST_LAYERS, Refused, Section
from kvdsl.importers.declaration import LayerPieces, Length, Piece, Value
from kvdsl.importers.family import Family
from kvdsl.importers.feed_forward import (
    feed_forwards,
)
from kvdsl.importers.kinds import kinds, window


def layer_count(config: Section) -> int:
    found = config.needed("num_hidden_layers", "n_layers")
    if found > MOST_LAYERS:
        raise Refused(f"`num_hidden_layers` is {found:,}: more than {MOST_LAYERS:,}")
    return found


def blocks(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    count = layer_count(config)
    mixed = _attentions(config, family, hidden, count)
    wide = feed_forwards(config, family, count, hidden)
    return [LayerPieces(pair) for pair in zip(mixed, wide, strict=True)]


def _attentions(config: Section, family: Family, hidden: int, count: int) -> list[Piece]:
    words = kinds(config, family, count)
    queries = config.counts("num_attention_heads_per_layer", count)
    latent = attention.latents(config, family, count) if attention.is_latent(config) else None
    made: dict[tuple[str, int], Piece] = {}
    found = []
    for i, word in enumerate(words):
        if latent is not None and word == "full":
            found.append(latent[i])
            continue
        query = queries[i] if queries is not None else 0
        if (word, query) not in made:
            made[word, query] = attention_piece(config, family, hidden, word, query)
        found.append(made[word, query])
    return found


def attention_piece(config: Section, family: Family, hidden: int, word: str, query: int) -> Piece:
    if word == "state":
        return mixers.mixer(config, family, hidden)
    shape = attention.heads(config, family, hidden)
    if query:
        shape = replace(shape, query=query)
    hint, limit = "full", _sinks(config, "add_full_attention_sink_bias")
    if word == "window":
        size = window(config, family)
        shape = _own_heads(config, shape)
        hint, limit = "local", _sinks(config, "add_swa_attention_sink_bias")
        if size is not None:
            limit = (("window", Length(size)), *limit)
    elif word == "chunk":
        hint, limit = "local", (("chunk", Length(_chunk(config))),)
    elif word == "indexed":
        hint, limit = "indexed", (("indexer", _block_indexer(config)),)
    elif word == "shared":
        return reader(config, family, shape)
    return attention.gqa(config, family, shape, hint, limit)


def _chunk(config: Section) -> int:
    found = config.count("attention_chunk_size")
    if found is None:
        config.record.assume("attention_chunk_size = 8192", "the class's rule")
    return found or 8192


def _sinks(config: Section, key: str) -> tuple[tuple[str, Value], ...]:
    return (("sinks", True),) if config.flag(key) else ()


def _own_heads(config: Section, shape: attention.Heads) -> attention.Heads:
    """Sliding layers may have a shape of their own."""
    for key in ("sliding_window_size", "attention_chunk_size"):
        if config.has("swa_num_attention_heads"):
            config.raw(key)  # says `sliding_window` again
    width = config.count("swa_head_dim") or shape.width
    return attention.Heads(
        config.count("swa_num_attention_heads") or shape.query,
        config.count("swa_num_key_value_heads") or shape.kv,
        width,
        config.count("swa_v_head_dim") or (shape.value if width == shape.width else width),
    )


def _block_indexer(config: Section) -> tuple[tuple[str, Any], ...]:
    """An indexer that chooses blocks of tokens, by scores without weights of their own."""
    inner = config.section("sparse_attention_config")
    if inner is None:
        raise Refused("`sparse_attention_config` is missing")
    top = inner.needed("sparse_topk_blocks") * inner.needed("sparse_block_size")
    return (
        ("heads", inner.needed("sparse_num_index_heads")),
        ("key_dim", inner.needed("sparse_index_dim")),
        ("top", Length(top)),
        ("head_weights", False),
    )


def reader(
    config: Section, family: Family, shape: attention.Heads, of: str = "full", hint: str = "reader"
) -> Piece:
    """A layer that reads the keys and values of another part."""
    values: list[tuple[str, Value]] = [("of", of), ("query_heads", shape.query)]
    kept = [v for v in attention.extras(config, family) if v[0] != "bias"]
    sides = tuple(s for s in attention.biases(config, family) if s in ("q", "o"))
    if sides:
        kept.append(("bias", sides))
    return Piece("attention", hint, "shared", (*values, *kept))
