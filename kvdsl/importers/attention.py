"""Attention parts out of a config: heads, widths, biases, norms, windows, latents, indexers.

Comes in: a section of the config and the rules of its family. Goes out: a piece of one layer. Not
its job: which layer has which kind (kinds) or parts of fixed state (mixers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kvdsl.importers.config import Refused, Section
from kvdsl.importers.declaration import Length, Piece, Value, Values
from kvdsl.importers.family import Family
from kvdsl.units import counted


@dataclass(frozen=True, slots=True)
class Heads:
    """The shape of a layer's attention, where kinds of layers differ in it."""

    query: int
    kv: int
    width: int
    value: int
    value_word: str = "own"


def heads(config: Section, family: Family, hidden: int) -> Heads:
    query = config.needed("num_attention_heads", "n_heads")
    width = config.count("head_dim", "attention_head_dim", "kv_channels")
    if width is None:
        width = _head_dim(config, family, hidden, query)
    value = config.count("v_head_dim") or width
    return Heads(query, kv_heads(config, family, query), width, value)


def _head_dim(config: Section, family: Family, hidden: int, query: int) -> int:
    if family.head_dim is not None:
        config.record.assume(
            f"head_dim = {family.head_dim}", "what the class takes without the key"
        )
        return family.head_dim
    if hidden % query:
        raise Refused(
            f"`{config.path}head_dim` is missing, and a hidden size of {hidden:,} cannot be "
            f"divided by {counted(query, 'heads')}"
        )
    config.record.assume(f"head_dim = {hidden // query}", "hidden size / heads, without the key")
    return hidden // query


def kv_heads(config: Section, family: Family, query: int) -> int:
    if family.kv_heads == "falcon":
        return _falcon(config, query)
    if family.multi_query and config.flag("multi_query") is not False:
        return 1
    found = config.count("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
    if found is not None:
        return found
    if family.kv_heads == "required" and "num_key_value_heads" not in config.values:
        raise Refused(f"`{config.path}num_key_value_heads` is missing, and its class has no rule")
    config.record.assume(f"kv_heads = {query}", "without the key, each query head has its own")
    return query


def _falcon(config: Section, query: int) -> int:
    """The new architecture says how many; the old one has one or all, whatever the key says."""
    if config.flag("new_decoder_architecture"):
        return config.count("num_kv_heads") or query
    config.raw("num_kv_heads")
    return query if config.flag("multi_query") is False else 1


def gqa(
    config: Section,
    family: Family,
    shape: Heads,
    hint: str = "full",
    limit: tuple[tuple[str, Value], ...] = (),
) -> Piece:
    """`limit` is the window or chunk of the layer."""
    values: list[tuple[str, Value]] = [
        ("query_heads", shape.query),
        ("kv_heads", shape.kv),
        ("head_dim", shape.width),
    ]
    if shape.value != shape.width:
        values.append(("value_dim", shape.value))
    if shape.value_word != "own":
        values.append(("value", shape.value_word))
    values += limit
    values += extras(config, family)
    more = beside(family, "attention", {"heads": shape.query * shape.width, "head": shape.width})
    if family.qk_norm_bias and any(key == "qk_norm" for key, _ in values):
        more += 2 * shape.width
    if more:
        values = [v for v in values if v[0] != "extra"] + [
            (
                "extra",
                more + next((int(v) for k, v in values if k == "extra" and isinstance(v, int)), 0),
            )
        ]
    return Piece("attention", hint, "gqa", tuple(values))


def beside(family: Family, sort: str, widths: Mapping[str, int]) -> int:
    """Parameters of a part that no key tells, by the widths that it has."""
    return sum(widths.get(width, 1) * times for kind, width, times in family.beside if kind == sort)


def extras(config: Section, family: Family) -> Values:
    """Biases, norms of query and key, gates, sinks."""
    values: list[tuple[str, Value]] = []
    sides = biases(config, family)
    if sides:
        values.append(("bias", sides))
    norm = _keyed(config, family.qk_norm_key, family.qk_norm)
    if norm != "none":
        values.append(("qk_norm", norm))
    if not family.qk_norm_key.startswith("qk_layernorm:") and config.flag("qk_layernorm"):
        raise Refused("`qk_layernorm` has no faithful form here")
    gate = _gate(config, family)
    if gate != "none":
        values.append(("output_gate", gate))
    if family.sinks:
        values.append(("sinks", True))
    return tuple(values)


def _keyed(config: Section, rule: str, always: str) -> str:
    """`key:value` has the value where the key is on; without a rule, what the class always has."""
    key, _, word = rule.partition(":")
    if not key:
        return always
    given = config.flag(key)
    if given is None:
        return always
    return word if given else "none"


def _gate(config: Section, family: Family) -> str:
    key, _, word = family.gate_key.partition(":")
    if key:
        _, value = config.raw(key)
        if isinstance(value, str):
            return {"per-head": "per_head", "per-element": "per_element"}.get(value, word)
        return word if value else "none"
    if family.gate != "none" and config.flag("attn_output_gate") is False:
        return "none"
    return family.gate


def biases(config: Section, family: Family) -> tuple[str, ...]:
    if not family.bias_key:
        return family.bias
    given = config.flag(family.bias_key)
    if given is None and family.bias_default:
        config.record.assume(f"{family.bias_key} = true", "what the class takes without the key")
    on = family.bias_default if given is None else given
    return family.bias_sides if on else ()


# --- latents -----------------------------------------------------------------------------------


def is_latent(config: Section) -> bool:
    return config.has("kv_lora_rank")


def mla(config: Section, family: Family, index: Value | None = None, hint: str = "latent") -> Piece:
    """`index` is the indexer's block, or the word `shared`."""
    rank = config.count("q_lora_rank")
    values: list[tuple[str, Value]] = [("query_heads", config.needed("num_attention_heads"))]
    if rank is not None:
        values.append(("q_rank", rank))
    values += [
        ("kv_rank", config.needed("kv_lora_rank")),
        ("nope_dim", config.needed("qk_nope_head_dim")),
        ("rope_dim", config.needed("qk_rope_head_dim", least=0)),
        ("value_dim", config.needed("v_head_dim")),
    ]
    for key in ("num_key_value_heads", "head_dim", "qk_head_dim"):
        config.raw(key)  # looked at: they mean nothing here
    # Only the projections out of the hidden state and the output have a bias.
    sides = tuple(side for side in biases(config, family) if side in ("q", "k", "o"))
    if rank is None:
        sides = tuple(side for side in sides if side != "q")
    if sides:
        values.append(("bias", sides))
    if config.flag("mla_use_output_gate"):
        values.append(("output_gate", "per_element"))
    if index is not None:
        values.append(("indexer", index))
    return Piece("attention", hint, "mla", tuple(values))


def indexer(config: Section) -> Value | None:
    """The block of a sparse indexer, if the config has one."""
    if not config.has("index_n_heads"):
        return None
    return (
        ("heads", config.needed("index_n_heads")),
        ("key_dim", config.needed("index_head_dim")),
        ("top", Length(config.needed("index_topk"))),
    )


def latents(config: Section, family: Family, layers: int) -> list[Piece]:
    """The latent attention of each layer: with an indexer, or an earlier one's choice."""
    own, shared = _latent_pair(config, family)
    full = _choosers(config, layers) if own is not shared else [True] * layers
    return [own if one else shared for one in full]


def latent_behind(config: Section, family: Family, index: int) -> Piece:
    """That of a draft layer behind the others, by the same rule; without one, with an indexer."""
    own, shared = _latent_pair(config, family)
    rule = _by_rule(config)
    return own if rule is None or rule(index) else shared


def _latent_pair(config: Section, family: Family) -> tuple[Piece, Piece]:
    block = indexer(config)
    if block is None:
        plain = mla(config, family)
        return plain, plain
    return mla(config, family, block), replace(mla(config, family, "shared"), hint="follower")


def _choosers(config: Section, layers: int) -> list[bool]:
    """Which layers have an indexer; without a rule, all."""
    config.raw("index_share_for_mtp_iteration")
    words = config.words("indexer_types", layers)
    rule = _by_rule(config)
    if words is not None:
        if set(words) - {"full", "shared"}:
            raise Refused("`indexer_types` has a word that is neither full nor shared")
        return [word == "full" for word in words]
    if config.has("index_topk_pattern"):
        raise Refused("`index_topk_pattern` has no faithful form here")
    config.raw("index_topk_pattern")
    return [rule is None or rule(i) for i in range(layers)]


def _by_rule(config: Section) -> Callable[[int], bool] | None:
    """As the class fills its list: full where the layers behind the offset divide evenly."""
    every, offset = config.count("index_topk_freq"), config.count("index_skip_topk_offset", least=0)
    if every is None:
        return None
    return lambda i: max(i - (offset or 0) + 1, 0) % every == 0
