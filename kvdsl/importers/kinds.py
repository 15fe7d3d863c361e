"""Which kind of attention each layer has: full, in a window or chunk, or with a fixed state.

Comes in: a section of the config and its family's rule. Goes out: one word a layer. The config's
own `layer_types` goes before any rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from kvdsl.importers.config import Refused, Section
from kvdsl.importers.family import Family

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "full_attention": "full",
        "attention": "full",
        "indexed_attention": "full",
        "sliding_attention": "window",
        "chunked_attention": "chunk",
        "linear_attention": "state",
        "conv": "state",
        "mamba": "state",
    }
)
"""Words of `layer_types`. Indexed and compressed kinds follow from keys of their own."""


PATTERNS = ("sliding_window_pattern", "_sliding_window_pattern", "layer_switch")


def kinds(config: Section, family: Family, layers: int) -> Sequence[str]:
    words = config.words("layer_types", layers)
    if words is not None:
        # What the words were made from was a rule for the class alone.
        for key in (*PATTERNS, "full_attention_interval", "attn_layer_indices"):
            config.raw(key)
        unknown = sorted(set(words) - set(WORDS))
        if unknown:
            raise Refused(f"`layer_types` has `{unknown[0][:40]}`, which is not known here")
        return [WORDS[word] for word in words]
    return RULES[family.kinds](config, family, layers)


def _full(config: Section, family: Family, layers: int) -> Sequence[str]:  # noqa: ARG001
    return ["full"] * layers


def _all_window(config: Section, family: Family, layers: int) -> Sequence[str]:
    kind = "window" if window(config, family) else "full"
    return [kind] * layers


def _qwen_window(config: Section, family: Family, layers: int) -> Sequence[str]:
    """Only where it is switched on, and from `max_window_layers` on."""
    on = config.flag("use_sliding_window")
    start = config.count("max_window_layers", least=0)
    if not on or not window(config, family):
        config.raw("sliding_window")
        return ["full"] * layers
    first = layers if start is None else start
    return ["window" if i >= first else "full" for i in range(layers)]


def _alternate(config: Section, family: Family, layers: int) -> Sequence[str]:
    if not window(config, family):
        return ["full"] * layers
    config.record.assume("layers slide and see all in turn", "the class, without `layer_types`")
    return ["full" if i % 2 else "window" for i in range(layers)]


def _pattern(default: int) -> Callable[[Section, Family, int], Sequence[str]]:
    def rule(config: Section, family: Family, layers: int) -> Sequence[str]:
        if not window(config, family):
            for key in PATTERNS:
                config.raw(key)
            return ["full"] * layers
        _, given = config.raw(*PATTERNS)
        if isinstance(given, str):
            if not given or set(given) - {"L", "G"}:
                raise Refused("`sliding_window_pattern` has letters beside L and G")
            return ["window" if given[i % len(given)] == "L" else "full" for i in range(layers)]
        every = config.count(*PATTERNS)
        if every is None:
            config.record.assume(f"every {default}th layer sees all", "the class's rule")
            every = default
        return ["full" if (i + 1) % every == 0 else "window" for i in range(layers)]

    return rule


def _interval(config: Section, family: Family, layers: int) -> Sequence[str]:  # noqa: ARG001
    every = config.count("full_attention_interval")
    if every is None:
        config.record.assume("every 4th layer has full attention", "the class's rule")
        every = 4
    return ["full" if (i + 1) % every == 0 else "state" for i in range(layers)]


def _attn_type_list(config: Section, family: Family, layers: int) -> Sequence[str]:  # noqa: ARG001
    given = config.counts("attn_type_list", layers)
    if given is None:
        raise Refused("`attn_type_list` is missing")
    return ["full" if one else "state" for one in given]


def _llama4(config: Section, family: Family, layers: int) -> Sequence[str]:  # noqa: ARG001
    """Layers without rotary positions see all; without a list, every fourth."""
    _, given = config.raw("no_rope_layers")
    turned = config.counts("no_rope_layers", layers) if given != [] else None
    if turned is None:
        every = config.count("no_rope_layer_interval") or 4
        turned = [int((i + 1) % every != 0) for i in range(layers)]
        config.record.assume(f"every {every}th layer sees all", "the class's rule")
    return ["chunk" if one else "full" for one in turned]


def _jamba(config: Section, family: Family, layers: int) -> Sequence[str]:  # noqa: ARG001
    every = config.needed("attn_layer_period")
    offset = config.needed("attn_layer_offset", least=0)
    return ["full" if i % every == offset else "state" for i in range(layers)]


def _kimi_linear(config: Section, family: Family, layers: int) -> Sequence[str]:  # noqa: ARG001
    """Layers are counted from 1."""
    inner = config.section("linear_attn_config")
    if inner is None:
        raise Refused("`linear_attn_config` is missing")
    sets = {}
    for key in ("kda_layers", "full_attn_layers"):
        _, given = inner.raw(key)
        if not isinstance(given, list) or not all(isinstance(i, int) for i in given):
            raise Refused(f"`{inner.path}{key}` is not a list of layers")
        sets[key] = set(given)
    every = set(range(1, layers + 1))
    if sets["kda_layers"] | sets["full_attn_layers"] != every or (
        sets["kda_layers"] & sets["full_attn_layers"]
    ):
        raise Refused("`linear_attn_config` does not name each layer once")
    return ["state" if i in sets["kda_layers"] else "full" for i in range(1, layers + 1)]


def _listed(config: Section, family: Family, layers: int) -> Sequence[str]:  # noqa: ARG001
    """A list of the layers that attend; the others keep a state."""
    _, given = config.raw("attn_layer_indices")
    if given is not None and not isinstance(given, list):
        raise Refused("`attn_layer_indices` is no list of layers")
    return ["full" if i in (given or []) else "state" for i in range(layers)]


def _gpt_neo(config: Section, family: Family, layers: int) -> Sequence[str]:
    """`attention_types` is a list of patterns, each with how often it repeats."""
    _, given = config.raw("attention_layers")
    if not isinstance(given, list):
        given = []
        _, runs = config.raw("attention_types")
        for run in runs if isinstance(runs, list) else []:
            words, times = run if isinstance(run, list) and len(run) == 2 else ([], 0)
            if not isinstance(words, list) or not isinstance(times, int) or times > layers:
                raise Refused("`attention_types` is no list of patterns")
            given += words * times
    config.raw("attention_types")
    if len(given) != layers or any(word not in ("global", "local") for word in given):
        raise Refused("`attention_types` does not say of each layer whether it is global or local")
    near = "window" if window(config, family) else "full"
    return [near if word == "local" else "full" for word in given]


def _marked(key: str, mark: str) -> Callable[[Section, Family, int], Sequence[str]]:
    """A list of 0 and 1: where it has a 1, the layer is of kind `mark`."""

    def rule(config: Section, family: Family, layers: int) -> Sequence[str]:  # noqa: ARG001
        given = config.counts(key, layers)
        if given is None:
            raise Refused(f"`{config.path}{key}` is missing")
        return [mark if one else "full" for one in given]

    return rule


def _minimax_m3(config: Section, family: Family, layers: int) -> Sequence[str]:
    inner = config.section("sparse_attention_config")
    if inner is None or inner.flag("use_sparse_attention") is False:
        return ["full"] * layers
    return _marked("sparse_attention_freq", "indexed")(inner, family, layers)


def _shared_every(config: Section, family: Family, layers: int) -> Sequence[str]:  # noqa: ARG001
    """Of so many layers the first has keys and values, the others read them."""
    every = config.count("cla_share_factor") or 2
    if not config.flag("use_cla"):
        return ["full"] * layers
    return ["shared" if i % every else "full" for i in range(layers)]


def window(config: Section, family: Family) -> int | None:
    """Tokens that a sliding layer keeps; one that reaches past the longest context never bites."""
    if "sliding_window" not in config.values and family.window_default is not None:
        found: int | None = family.window_default
        config.record.assume(f"sliding_window = {found}", "what the class takes without the key")
    else:
        found = config.count("sliding_window")
    longest = config.count("max_position_embeddings")
    return None if found is not None and longest is not None and found >= longest else found


RULES: Mapping[str, Callable[[Section, Family, int], Sequence[str]]] = MappingProxyType(
    {
        "full": _full,
        "all_window": _all_window,
        "qwen_window": _qwen_window,
        "alternate": _alternate,
        "pattern": _pattern(6),
        "pattern4": _pattern(4),
        "gemma4": _pattern(6),
        "interval": _interval,
        "attn_type_list": _attn_type_list,
        "llama4": _llama4,
        "jamba": _jamba,
        "kimi_linear": _kimi_linear,
        "mimo": _marked("hybrid_layer_pattern", "window"),
        "mllama": _full,
        "minimax_m3": _minimax_m3,
        "shared_every": _shared_every,
        "listed": _listed,
        "gpt_neo": _gpt_neo,
    }
)
