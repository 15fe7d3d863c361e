"""The layers of a model out of its config, by the rule of its class: most are blocks, and some
classes have a rule of their own.

Comes in: a section of the config and its family. Goes out: the pieces of each layer, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from kvdsl.importers import attention, mixers
from kvdsl.importers.blocks import attention_piece, blocks, layer_count, reader
from kvdsl.importers.config import MOST_LAYERS, Refused, Section, count_of
from kvdsl.importers.declaration import LayerPieces, Length, Piece, Value
from kvdsl.importers.family import Family
from kvdsl.importers.feed_forward import (
    dense_of,
    dense_piece,
    feed_forwards,
    ffn_bias,
    has_score_bias,
    moe,
)
from kvdsl.importers.kinds import kinds, window
from kvdsl.units import counted

NARROW_STEP = 256
"""Widths of NAS models are rounded up to it."""


def layers_of(config: Section, family: Family, hidden: int) -> tuple[LayerPieces, ...]:
    return tuple(STACKS[family.stack](config, family, hidden))


def _mixers(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    """One mixer with a state a layer, and nothing else."""
    return [LayerPieces((mixers.mixer(config, family, hidden),))] * layer_count(config)


def _parallel(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    """Attention and a mixer with a state read the same input."""
    count = layer_count(config)
    own = attention.gqa(config, family, attention.heads(config, family, hidden))
    state = mixers.mixer(config, family, hidden)
    wide = feed_forwards(config, family, count, hidden)
    return [LayerPieces((own, state, piece)) for piece in wide]


def _longcat(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    """A block is two layers, the first of which has experts beside its dense part."""
    count = layer_count(config)
    latent = attention.mla(config, family)
    dense, experts = dense_piece(config, family, hidden, mixed=True), moe(config, family)
    pair = [LayerPieces((latent, dense, experts), 2), LayerPieces((latent, dense), 2)]
    return pair * count


# --- stacks with a rule of their own --------------------------------------------------------------


def _mllama(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    """Some layers look at an image alone; each of these has two scalar gates."""
    count = layer_count(config)
    _, given = config.raw("cross_attention_layers")
    if not isinstance(given, list):
        raise Refused("`cross_attention_layers` is missing, or is no list")
    shape = attention.heads(config, family, hidden)
    own = attention.gqa(config, family, shape, "text")
    seen = (("cross", Length(0)), ("qk_norm", "per_head"), ("extra", 2))
    cross = attention.gqa(config, family, shape, "image", seen)
    wide = feed_forwards(config, family, count, hidden)
    config.record.assume("cross = 0 tok", "a request without an image")
    return [LayerPieces((cross if i in given else own, wide[i])) for i in range(count)]


def _gemma4(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    """Full layers have heads of their own, the last layers read earlier caches, and each layer
    has a scalar."""
    count = layer_count(config)
    words = kinds(config, family, count)
    shape = attention.heads(config, family, hidden)
    same = bool(config.flag("attention_k_eq_v"))
    wide = config.count("global_head_dim") or shape.width
    kv = (config.count("num_global_key_value_heads") if same else None) or shape.kv
    broad = attention.Heads(shape.query, kv, wide, wide, "key" if same else "own")
    size = window(config, family)
    limit = (("window", Length(size)),) if size is not None else ()
    parts = {
        "window": attention.gqa(config, family, shape, "local", limit),
        "full": attention.gqa(config, family, broad, "full"),
    }
    readers = {
        "window": reader(config, family, shape, "local", "local_reader"),
        "full": reader(config, family, broad, "full", "full_reader"),
    }
    shared = config.count("num_kv_shared_layers", least=0) or 0
    if shared and {"full", "window"} - set(words[: count - shared]):
        raise Refused("`num_kv_shared_layers` leaves no layer whose cache could be read")
    dense = dense_piece(config, family, hidden)
    double = replace(dense, hint="mlp_wide", values=(("intermediate", _width(dense) * 2),))
    doubled = bool(config.flag("use_double_wide_mlp"))
    experts, norms = _gemma4_experts(config, family, hidden)
    if config.count("hidden_size_per_layer_input", least=0):
        norms += 1
    found = []
    for i, word in enumerate(words):
        late = i >= count - shared
        pieces = (
            (readers if late else parts)[word],
            double if late and doubled else dense,
            *experts,
        )
        found.append(LayerPieces(pieces, norms, 1))
    return found


def _width(piece: Piece) -> int:
    return next(v for k, v in piece.values if k == "intermediate" and isinstance(v, int))


def _gemma4_experts(config: Section, family: Family, hidden: int) -> tuple[tuple[Piece, ...], int]:
    """Experts beside the dense part, with a scale a width and one an expert, and three norms."""
    if not config.flag("enable_moe_block"):
        for key in ("num_experts", "top_k_experts", "expert_intermediate_size"):
            config.raw(key)
        return (), 4
    keys = ("moe_intermediate_size", "expert_intermediate_size")
    made = moe(config, replace(family, expert_keys=keys))
    scale = hidden + config.needed("num_experts")
    return (replace(made, values=(*made.values, ("extra", scale))),), 7


def _lfm2(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    count = layer_count(config)
    if not config.has("layer_types"):
        _, full = config.raw("full_attn_idxs")
        if not isinstance(full, list):
            raise Refused("neither `layer_types` nor `full_attn_idxs` says which layers attend")
        words: Sequence[str] = ["full" if i in full else "state" for i in range(count)]
    else:
        words = kinds(config, family, count)
    width = config.needed("block_ff_dim", "intermediate_size")
    config.raw("intermediate_size")
    if config.flag("block_auto_adjust_ff_dim") is not False:
        times = config.ratio("block_ffn_dim_multiplier") or 1.0
        step = config.count("block_multiple_of") or 256
        width = -(-int(times * int(2 * width / 3)) // step) * step
    plain = dense_of(width, "gated")
    made = {word: attention_piece(config, family, hidden, word, 0) for word in set(words)}
    return [LayerPieces((made[word], plain)) for word in words]


def _dbrx(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    count = layer_count(config)
    inner, wide = config.section("attn_config"), config.section("ffn_config")
    if inner is None or wide is None:
        raise Refused("`attn_config` or `ffn_config` is missing")
    query = config.needed("n_heads")
    if hidden % query:
        raise Refused(f"a width of {hidden:,} cannot be divided by {counted(query, 'heads')}")
    width = hidden // query
    shape = attention.Heads(query, inner.count("kv_n_heads") or query, width, width)
    own = attention.gqa(config, family, shape)
    experts = moe(wide, replace(family, expert_keys=("ffn_hidden_size",)))
    return [LayerPieces((own, experts))] * count


def _nemotron_h(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    """One mixer a layer, by a letter or a word: Mamba-2, attention, dense, experts."""
    _, text = config.raw("hybrid_override_pattern")
    _, listed = config.raw("layers_block_type")
    if isinstance(listed, list):
        pattern = letters_of(listed)
    elif isinstance(text, str):
        pattern = list(text.replace("|", ""))
    else:
        raise Refused("`hybrid_override_pattern` is missing")
    given = config.count("num_hidden_layers")
    if given is not None and given != len(pattern):
        letters_given = counted(len(pattern), "letters")
        raise Refused(f"the pattern has {letters_given} for {counted(given, 'layers')}")
    config.raw("intermediate_size")  # of dense layers, where there are any
    return lettered(config, family, hidden, "".join(pattern))


LETTERS = "M*-E"
MIXER_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "mamba": "M",
        "linear_attention": "M",
        "attention": "*",
        "full_attention": "*",
        "mlp": "-",
        "moe": "E",
    }
)


def letters_of(words: Sequence[Any]) -> list[str]:
    return [MIXER_WORDS.get(str(word), "?") for word in words]


def lettered(config: Section, family: Family, hidden: int, pattern: str) -> Sequence[LayerPieces]:
    if not pattern or len(pattern) > MOST_LAYERS or set(pattern) - set(LETTERS):
        raise Refused("the pattern of layers has a letter that is not known here")
    plain = replace(family, feed_forward="plain", expert_gated=False, shared="count",
                    expert_keys=("moe_intermediate_size",), score_bias=True)  # fmt: skip
    makers: Mapping[str, Callable[[], Piece]] = {
        "M": lambda: mixers.mixer(config, replace(family, linear="mamba2"), hidden),
        "*": lambda: attention.gqa(config, family, attention.heads(config, family, hidden)),
        "-": lambda: dense_piece(config, plain, hidden),
        "E": lambda: moe(config, plain),
    }
    made = {letter: makers[letter]() for letter in dict.fromkeys(pattern)}
    return [LayerPieces((made[letter],)) for letter in pattern]


def _nemotron_nas(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    """Each layer by itself: attention of its own groups or none, a width of its own or none."""
    count = layer_count(config)
    given = config.items("block_configs", count)
    if given is None:
        raise Refused("`block_configs` is missing")
    config.raw("intermediate_size")
    config.raw("num_key_value_heads")
    query = config.needed("num_attention_heads")
    found = []
    for i, block in enumerate(given):
        where = f"block_configs[{i}]"
        inner, wide = _sub(block, "attention", where), _sub(block, "ffn", where)
        pieces: list[Piece] = []
        if not inner.get("no_op"):
            group = count_of(f"{where}.attention.n_heads_in_group", inner.get("n_heads_in_group"))
            if inner.get("window_length") is not None or query % group:
                raise Refused(f"`{where}.attention` has no faithful form here")
            shape = replace(attention.heads(config, family, hidden), kv=query // group)
            pieces.append(attention.gqa(config, family, shape))
        if not wide.get("no_op"):
            times = wide.get("ffn_mult")
            if isinstance(times, bool) or not isinstance(times, int | float) or not 0 < times < 999:
                raise Refused(f"`{where}.ffn.ffn_mult` is no number of times")
            width = -(-int(2 * times * hidden / 3) // NARROW_STEP) * NARROW_STEP
            pieces.append(dense_of(width, family.feed_forward, bias=ffn_bias(config, family)))
        if not pieces:
            raise Refused(f"`{where}` is an empty layer, which has no form here")
        found.append(LayerPieces(tuple(pieces)))
    return found


def _sub(block: Any, key: str, where: str) -> Mapping[str, Any]:
    inner = block.get(key) if isinstance(block, dict) else None
    if not isinstance(inner, dict):
        raise Refused(f"`{where}.{key}` is missing")
    if inner.get("replace_with_linear") or inner.get("sparsify"):
        raise Refused(f"`{where}.{key}` replaces its part, which has no form here")
    return inner


def _deepseek_v4(config: Section, family: Family, hidden: int) -> Sequence[LayerPieces]:
    """One key that is its value too, in a window; beside it entries for runs of tokens. Each layer
    mixes several copies of the hidden state, and the first ones look their experts up."""
    count = layer_count(config)
    ratios = config.counts("compress_ratios", count, more=True)
    if ratios is None:
        raise Refused("`compress_ratios` is missing")
    hashed = config.count("num_hash_layers", least=0) or 0
    table = config.needed("vocab_size") * config.needed("num_experts_per_tok")
    looked = replace(moe(config, family, score_bias=False), hint="hashed")
    made = {ratio: compressed_layer(config, family, hidden, ratio) for ratio in ratios}
    return [
        made[ratio]
        if i >= hashed
        else replace(
            made[ratio],
            pieces=(made[ratio].pieces[0], looked),
            extra=made[ratio].extra + table,
        )
        for i, ratio in enumerate(ratios)
    ]


def compressed_layer(config: Section, family: Family, hidden: int, ratio: int) -> LayerPieces:
    """A layer that scores its experts, with its part of the hyper-connections."""
    copies = config.needed(family.copies_key)
    mixes = (2 + copies) * copies
    connection = 2 * (mixes * copies * hidden + mixes + 3)
    scored = moe(config, family, score_bias=has_score_bias(config, family))
    return LayerPieces((_compressed(config, family, ratio), scored), None, connection)


CLOSE_RUN = 4
"""Runs as short as this overlap, and an indexer chooses among their entries."""


def _compressed(config: Section, family: Family, ratio: int) -> Piece:
    width = config.needed("head_dim")
    size = window(config, family)
    if size is None:
        raise Refused("`sliding_window` is missing")
    limit: list[tuple[str, Value]] = [
        ("q_rank", config.needed("q_lora_rank")),
        ("window", Length(size)),
        ("o_rank", config.needed("o_lora_rank")),
        ("o_groups", config.needed("o_groups")),
    ]
    config.raw("qk_rope_head_dim")  # a part of the head that is turned
    if ratio:
        block: tuple[tuple[str, Any], ...] = (("every", Length(ratio)), ("width", width))
        block += (("overlap", True),) if ratio == CLOSE_RUN else ()
        limit.append(("compress", block))
        index = attention.indexer(config)
        if ratio == CLOSE_RUN and index is not None:
            limit.append(("indexer", index))
    limit.append(("extra", width))  # the norm of its key
    query, kv = config.needed("num_attention_heads"), config.needed("num_key_value_heads")
    shape = attention.Heads(query, kv, width, width, "same")
    hint = f"every_{ratio}" if ratio else "local"
    return attention.gqa(config, family, shape, hint, tuple(limit))


STACKS: Mapping[str, Callable[[Section, Family, int], Sequence[LayerPieces]]] = MappingProxyType(
    {
        "blocks": blocks,
        "mixers": _mixers,
        "parallel": _parallel,
        "longcat": _longcat,
        "mllama": _mllama,
        "gemma4": _gemma4,
        "lfm2": _lfm2,
        "dbrx": _dbrx,
        "nemotron_h": _nemotron_h,
        "nemotron_nas": _nemotron_nas,
        "deepseek_v4": _deepseek_v4,
    }
)
