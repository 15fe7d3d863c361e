"""Draft layers (multi-token prediction) out of a config: how many, and in which shape.

Comes in: a section of the config, its family, and the layers of the model. Goes out: the draft
layers, which are counted apart. Not its job: heads that stand in a repository of their own (EAGLE).

Sources: DeepSeek-V3 technical report, arXiv 2412.19437, section 2.2; the draft models of vLLM
0.33.0, which name these keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from kvdsl.importers import attention
from kvdsl.importers.config import Refused, Section
from kvdsl.importers.declaration import LayerPieces
from kvdsl.importers.family import Family
from kvdsl.importers.stacks import compressed_layer, lettered, letters_of

COUNTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
EACH = "mtp_transformer_layers"
"""Layers of one draft module, where it has more than one."""
MOST = 100

Layers = Sequence[LayerPieces]


def drafts_of(
    config: Section, family: Family, hidden: int, layers: Layers
) -> tuple[LayerPieces, ...]:
    rule = DRAFTS.get(family.stack)
    count = config.count(*COUNTS, least=0) or 0
    each = config.count(EACH, least=0)
    if config.flag("use_mtp") is False or rule is None:
        return ()
    count *= 1 if each is None else each
    if count > MOST:
        raise Refused(f"`{COUNTS[0]}` gives {count:,} draft layers: more than {MOST}")
    return tuple(rule(config, family, hidden, layers)(i) for i in range(count))


def _last(config: Section, family: Family, hidden: int, layers: Layers) -> Shape:  # noqa: ARG001
    """As the model's last layer; a choice of tokens is its own, or shared by the same rule."""
    last = layers[-1]
    if not attention.is_latent(config) or last.pieces[0].form != "mla":
        return lambda index: last  # noqa: ARG005

    def shape(index: int) -> LayerPieces:
        own = attention.latent_behind(config, family, len(layers) + index)
        return replace(last, pieces=(own, *last.pieces[1:]))

    return shape


def _pattern(config: Section, family: Family, hidden: int, layers: Layers) -> Shape:
    """One layer that has every mixer of a pattern; without one, as the model's last layer."""
    text = config.word("mtp_hybrid_override_pattern")
    _, listed = config.raw("mtp_layers_block_type")
    if text is None and isinstance(listed, list):
        text = "".join(letters_of(listed))
    if text is None:
        return _last(config, family, hidden, layers)
    pieces = tuple(p for layer in lettered(config, family, hidden, text) for p in layer.pieces)
    return lambda index: LayerPieces(pieces)  # noqa: ARG005


def _behind(config: Section, family: Family, hidden: int, layers: Layers) -> Shape:
    """The list of what a layer compresses goes on behind the model's layers."""
    _, ratios = config.raw("compress_ratios")
    more = [r for r in ratios[len(layers) :] if type(r) is int] if isinstance(ratios, list) else []
    return lambda index: compressed_layer(config, family, hidden, (more[index:] or [0])[0])


Shape = Callable[[int], LayerPieces]

DRAFTS: Mapping[str, Callable[[Section, Family, int, Layers], Shape]] = MappingProxyType(
    {"blocks": _last, "nemotron_h": _pattern, "deepseek_v4": _behind}
)
"""By the way that the class makes its layers; other classes have none."""
