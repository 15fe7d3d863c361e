"""Feed-forward parts out of a config: dense widths, experts, and which layers have them.

Comes in: a section of the config and its family's rules. Goes out: a piece for each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from kvdsl.importers.attention import beside
from kvdsl.importers.config import Refused, Section
from kvdsl.importers.declaration import Piece, Value
from kvdsl.importers.family import Family

EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
ACTIVE = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_topk",
    "moe_top_k",
    "experts_per_token",
    "top_k_experts",
)


def feed_forwards(config: Section, family: Family, layers: int, hidden: int) -> list[Piece]:
    """The feed-forward of each layer."""
    where = sparse_layers(config, family, layers)
    dense = None if all(where) else dense_piece(config, family, hidden, mixed=any(where))
    experts = moe(config, family) if any(where) else None
    if dense is None:
        for key in family.ffn_keys:
            config.raw(key)  # a width that no layer uses
    return [piece for one in where if (piece := experts if one else dense) is not None]


def dense_piece(config: Section, family: Family, hidden: int, *, mixed: bool = False) -> Piece:
    width = config.count(*family.ffn_keys)
    if width is None and family.ffn_times is not None:
        times = config.count("ffn_times") or family.ffn_times
        width = times * hidden
        config.record.assume(f"intermediate = {width}", f"{times} x hidden, by its class")
    if width is None:
        raise Refused(f"`{config.path}{family.ffn_keys[0]}` is missing")
    if family.ffn_halves:
        width = max(width // 2, 1)
    more = beside(family, "ffn", {"width": width})
    bias = ffn_bias(config, family)
    return dense_of(width, family.feed_forward, bias=bias, mixed=mixed, more=more)


def dense_of(
    width: int, form: str, *, bias: bool = False, mixed: bool = False, more: int = 0
) -> Piece:
    values: tuple[tuple[str, Value], ...] = (("intermediate", width),)
    if bias:
        values += (("bias", True),)
    if more:
        values += (("extra", more),)
    return Piece("ffn", "dense" if mixed else "mlp", form, values)


def ffn_bias(config: Section, family: Family) -> bool:
    if not family.ffn_bias_key:
        return family.ffn_bias
    given = config.flag(family.ffn_bias_key)
    follows = family.ffn_bias_key == family.bias_key and family.bias_default
    return follows if given is None else given


def moe(config: Section, family: Family, *, score_bias: bool | None = None) -> Piece:
    experts = config.needed(*EXPERTS)
    for key in EXPERTS:
        config.raw(key)
    active = config.needed(*ACTIVE)
    for key in ACTIVE:
        config.raw(key)
    width = config.needed(*family.expert_keys)
    values: list[tuple[str, Value]] = [
        ("experts", experts),
        ("active", active),
        ("intermediate", width),
    ]
    if not family.expert_gated:
        values.append(("gated", False))
    if family.expert_bias:
        values.append(("bias", True))
    values += SHARED[family.shared](config, width)
    if family.router_bias:
        values.append(("router_bias", True))
    if has_score_bias(config, family) if score_bias is None else score_bias:
        values.append(("score_bias", True))
    values += _groups(config, experts)
    idle = config.count(family.router_also, least=0) if family.router_also else None
    if idle:
        scores = 1 if family.score_bias else 0
        values.append(("extra", idle * (hidden_size(config) + scores)))
    latent = config.count("moe_latent_size", "routed_expert_hidden_size")
    if latent is not None:
        values.append(("latent", latent))
        if config.flag("latent_moe_use_norm"):
            values.append(("extra", latent))
    return Piece("ffn", "sparse", "moe", tuple(values))


def hidden_size(config: Section) -> int:
    return config.needed("hidden_size", "d_model")


def _groups(config: Section, experts: int) -> list[tuple[str, Value]]:
    groups = config.count("n_group", "num_expert_group")
    top = config.count("topk_group")
    if groups is None or groups == 1 or top is None or experts % groups:
        return []
    return [("groups", groups), ("top_groups", top)]


def has_score_bias(config: Section, family: Family) -> bool:
    """A bias that corrects the router's scores, stored as a buffer."""
    if family.score_bias:
        return True
    if family.score_key == "sigmoid":
        return config.word("scoring_func") == "sigmoid" or config.word("topk_method") == "noaux_tc"
    if family.score_key:
        return config.flag(family.score_key) is not False
    return False


# --- shared experts ----------------------------------------------------------------------------


def _count(config: Section, width: int) -> list[tuple[str, Value]]:
    """So many, of the width of one expert, or of a width of their own."""
    _, given = config.raw("num_shared_expert")
    if isinstance(given, list):
        raise Refused("`num_shared_expert` differs by layer, which has no faithful form here")
    many = config.count(
        "n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts",
        least=0,
    )  # fmt: skip
    own = config.count(
        "moe_shared_expert_intermediate_size", "shared_intermediate_size",
        "shared_expert_intermediate_size", least=0,
    )  # fmt: skip
    if not many or config.flag("use_mixed_mlp_moe") is False:
        return []
    values: list[tuple[str, Value]] = [("shared_experts", many)]
    if own is not None and own != many * width:
        values.append(("shared_intermediate", own))
    return values


def _width(config: Section, width: int) -> list[tuple[str, Value]]:
    own = config.count("shared_expert_intermediate_size", least=0)
    if not own:
        return []
    values: list[tuple[str, Value]] = [("shared_experts", 1)]
    return values if own == width else [*values, ("shared_intermediate", own)]


def _width_gated(config: Section, width: int) -> list[tuple[str, Value]]:
    values = _width(config, width)
    return [*values, ("shared_gate", True)] if values else []


def _own_width(config: Section, width: int) -> list[tuple[str, Value]]:
    own = config.needed("shared_intermediate_size")
    values: list[tuple[str, Value]] = [("shared_experts", 1)]
    return values if own == width else [*values, ("shared_intermediate", own)]


def _one(config: Section, width: int) -> list[tuple[str, Value]]:  # noqa: ARG001
    return [("shared_experts", 1)]


def _no_shared(config: Section, width: int) -> list[tuple[str, Value]]:  # noqa: ARG001
    config.raw("shared_intermediate_size")
    return []


SHARED: Mapping[str, Callable[[Section, int], list[tuple[str, Value]]]] = MappingProxyType(
    {
        "none": _no_shared,
        "count": _count,
        "width": _width,
        "width_gated": _width_gated,
        "own_width": _own_width,
        "one": _one,
    }
)


# --- which layers have experts ------------------------------------------------------------------


def sparse_layers(config: Section, family: Family, layers: int) -> Sequence[bool]:
    if family.sparse == "none":
        return [False] * layers
    words = config.words("mlp_layer_types", layers)
    if words is not None:
        config.raw("first_k_dense_replace")
        config.raw("moe_layer_freq")
        if set(words) - {"dense", "sparse"}:
            raise Refused("`mlp_layer_types` has a word that is neither dense nor sparse")
        return [word == "sparse" for word in words]
    if isinstance(config.values.get("moe_layer_freq"), list):
        marks = config.counts("moe_layer_freq", layers) or []
        return [bool(mark) for mark in marks]
    return SPARSE[family.sparse](config, layers)


def _all(config: Section, layers: int) -> Sequence[bool]:  # noqa: ARG001
    return [True] * layers


def _first_dense(config: Section, layers: int) -> Sequence[bool]:
    first = config.count("first_k_dense_replace", least=0)
    if first is None:
        config.record.assume("every layer has experts", "`first_k_dense_replace` is absent")
    every = config.count("moe_layer_freq") or 1
    return [i >= (first or 0) and i % every == 0 for i in range(layers)]


def _step(config: Section, layers: int) -> Sequence[bool]:
    every = config.count("decoder_sparse_step") or 1
    _, given = config.raw("mlp_only_layers")
    dense = given if isinstance(given, list) else []
    return [i not in dense and (i + 1) % every == 0 for i in range(layers)]


def _llama4(config: Section, layers: int) -> Sequence[bool]:
    _, given = config.raw("moe_layers")
    every = config.count("interleave_moe_layer_step") or 1
    if isinstance(given, list):
        return [i in given for i in range(layers)]
    return [(i + 1) % every == 0 for i in range(layers)]


def _period(config: Section, layers: int) -> Sequence[bool]:
    if config.count("num_experts") == 1:
        for key in ("expert_layer_period", "expert_layer_offset", *ACTIVE):
            config.raw(key)
        return [False] * layers
    every = config.needed("expert_layer_period")
    offset = config.needed("expert_layer_offset", least=0)
    return [i % every == offset for i in range(layers)]


def _range(config: Section, layers: int) -> Sequence[bool]:
    """From a first to a last layer; a last one of -1 is the last of the model."""
    first = config.count("moe_layer_start_index", least=0)
    last = config.count("moe_layer_end_index", least=-1)
    every = config.count("moe_layer_interval") or 1
    if first is None:
        config.record.assume("experts from layer 1 on", "the class, without its key")
        first = 1
    end = layers - 1 if last is None or last < 0 else last
    return [first <= i <= end and (i + 1) % every == 0 for i in range(layers)]


def _if_any(config: Section, layers: int) -> Sequence[bool]:
    """All layers, if there are experts at all."""
    many = config.count(*EXPERTS, least=0)
    if not many:
        for key in (*ACTIVE, "intermediate_size"):
            config.raw(key)
    return [bool(many)] * layers


def _freq(config: Section, layers: int) -> Sequence[bool]:  # noqa: ARG001
    raise Refused("`moe_layer_freq` is missing, or is no list")


def _familiar(config: Section, layers: int) -> Sequence[bool]:
    """Of a class that nobody knows: experts if there are any, behind the first dense layers."""
    if config.count(*EXPERTS) is None:
        return [False] * layers
    return _first_dense(config, layers)


SPARSE: Mapping[str, Callable[[Section, int], Sequence[bool]]] = MappingProxyType(
    {
        "all": _all,
        "first_dense": _first_dense,
        "step": _step,
        "llama4": _llama4,
        "period": _period,
        "freq": _freq,
        "range": _range,
        "if_any": _if_any,
        "familiar": _familiar,
    }
)
