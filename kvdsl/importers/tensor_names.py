"""Which module of a model a tensor of a checkpoint belongs to, by its name.

Comes in: a tensor's name. Goes out: its layer, its module as the recipes call it, and what it is:
values, packed values, or scales. Names differ by class, so the rules are patterns, tried in order.
Not its job: reading the names (project.safetensors) or adding them up (planning.checkpoint).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

What = Literal["values", "packed", "scales", "none"]

LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.(.+)$")
NONE = re.compile(
    r"rotary|inv_freq|position_ids|masked_bias$|\.(attn|attention)\.bias$|cos_cached|sin_cached"
)
"""Tables and masks that a checkpoint may hold, and that are no parameters."""
TOWER = re.compile(
    r"(^|\.)(vision|visual|audio|image|multi_modal_projector|mm_projector|patch_embed|embed_vision"
    r"|embed_audio|connector|aligner|sound|speech)"
)
DRAFT = re.compile(r"(^|\.)(mtp|nextn)[._s]")
SCALES = re.compile(
    r"(\.|_)(weight_scale(_inv|_2)?|scale_inv|input_scale|output_scale|activation_scale|scales"
    r"|qzeros|g_idx|weight_zero_point|weight_shape|weight_g_idx|[kv]_scale|absmax|quant_map"
    r"|input_global_scale|weight_global_scale)$|\.scale$"
)
PACKED = re.compile(r"(\.qweight|\.weight_packed|_blocks|_packed)$")
PACKED_KINDS = ("U8", "I32")
"""Types that hold several values of a weight; one a value has a type of its own."""

OUTSIDE = (
    ("extra", r"(^|\.)hc_|project_(in|out)|per_layer_(model|projection)"),
    ("norms", r"norm|(^|\.)ln_"),
    ("head", r"lm_head|embed_out|(^|\.)output\.|(^|\.)head\."),
    ("embedding", r"embed|(^|\.)wte\.|(^|\.)wpe\.|wte$"),
)
INSIDE = (
    ("extra", r"(^|_)hc(_|\.)|tid2eid|latent_(proj|norm)|layer_scalar"
              r"|^per_layer_(input_gate|projection)"),
    ("attention", r"^norm_attn_norm\.attn\."),
    ("norms", r"^(\w*norm\w*|ln_\w+|norm_\d)\."),
    ("indexer", r"indexer\."),
    ("shared_experts", r"shared_expert|shared_mlp"),
    ("router", r"router|e_score_correction_bias|expert_bias|moe_statics"
               r"|(mlp|moe|mixer|feed_forward)\.gate\.(wg\.)?(weight|bias)"),
    ("routed_experts", r"experts?[._]|experts$|moe\.(input|output)_linear"),
    ("mixer_attention", r"^mixer\.(q|k|v|o)_proj"),
    ("mixer_ffn", r"^mixer\.(up|down|gate)_proj"),
    ("state_mixer", r"linear_attn|mamba|mixer\.|^conv\.|A_log|dt_bias|ssm"),
    ("attention", r"attn|attention"),
    ("ffn", r"mlp|feed_forward|ffn|block_sparse_moe|^fc\d|^dense_"),
    ("norms", r"norm"),
)  # fmt: skip
"""Modules by a name inside a layer. Of a layer whose attention keeps a state, what stands under
`attention` is its mixer."""


@dataclass(frozen=True, slots=True)
class Named:
    """`layer` is None outside of the layers; `module` is empty where no rule fits."""

    module: str
    what: What
    layer: int | None = None


def named(name: str, kind: str, layers: int) -> Named:
    """What a tensor is; draft layers stand behind the model's own `layers`, or under their name."""
    if NONE.search(name):
        return Named("", "none")
    what: What = "values"
    if SCALES.search(name):
        what = "scales"
    elif PACKED.search(name) or (name.endswith("weight") and kind in PACKED_KINDS):
        what = "packed"
    if TOWER.search(name):
        return Named("tower", what)
    match = LAYER.search(name)
    layer = int(match[1]) if match and len(match[1]) < 9 else None
    if DRAFT.search(name) or (layer is not None and layer >= layers):
        copied = re.search(r"embed_tokens|shared_head\.head|lm_head", name)
        return Named("draft copy" if copied else "mtp", what, layer)
    if layer is None or match is None:
        return Named(_first(OUTSIDE, name), what)
    return Named(_first(INSIDE, match[2]).removeprefix("mixer_"), what, layer)


def _first(rules: tuple[tuple[str, str], ...], name: str) -> str:
    return next((module for module, pattern in rules if re.search(pattern, name)), "")
