"""The formats of a quantized checkpoint as a recipe: which modules, and in what.

Comes in: `quantization_config`, and the pieces of the model. Goes out: lines of a recipe. A module
has one line: where layers of it differ, that is told. Not its job: refusing a model because its
formats are new; then there is no recipe, and a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from kvdsl.importers.config import Refused, Section, count_of
from kvdsl.importers.declaration import LayerPieces
from kvdsl.importers.tensor_names import named

MOST_PATTERNS = 20_000
MOST_LISTED = 500_000
Line = tuple[str, str]

TENSORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "attention": ("self_attn.q_proj", "self_attn.o_proj", "attn.q_proj", "mixer.q_proj"),
        "state_mixer": (
            "linear_attn.out_proj",
            "mamba.out_proj",
            "mixer.out_proj",
            "self_attn.o_proj",
        ),
        "ffn": ("mlp.up_proj", "mlp.down_proj", "feed_forward.up_proj", "mixer.up_proj"),
        "routed_experts": (
            "mlp.experts.0.up_proj",
            "block_sparse_moe.experts.0.w1",
            "mixer.experts.0.up_proj",
        ),
        "shared_experts": ("mlp.shared_experts.up_proj", "mlp.shared_expert.up_proj"),
        "indexer": ("self_attn.indexer.wq_b",),
    }
)
"""Names that a module's matrices have in a layer, by which lists of exceptions are read. Router,
norms, embedding and head stay as they are."""


def recipe_lines(config: Section, layers: Sequence[LayerPieces]) -> tuple[Line, ...]:
    """Lines of the recipe; none where the checkpoint is not quantized, or in a way unknown here."""
    found = config.section("quantization_config")
    if found is None:
        return ()
    try:
        if found.has("quantized_layers"):
            return _listed(config, found, layers)
        form = _format(found)
        left = _exceptions(found)
    except Refused as refused:
        config.record.warn(f"no recipe: {refused}")
        return ()
    lines = [("default", "formats.bf16")]
    for module in modules_of(layers):
        kept = [_excepted(module, layer, left) for layer in _samples(len(layers))]
        if not any(kept):
            lines.append((module, form))
        elif not all(kept):
            config.record.warn(
                f"recipe: layers differ in the format of {module}; it stands as bf16 for all"
            )
    return tuple(lines) if len(lines) > 1 else ()


def _listed(config: Section, found: Section, layers: Sequence[LayerPieces]) -> tuple[Line, ...]:
    """A format for each matrix, by its name: those of a module must agree."""
    _, given = found.raw("quantized_layers")
    forms: dict[str, set[str]] = {}
    for name, value in list(given.items())[:MOST_LISTED] if isinstance(given, dict) else []:
        word = value.get("quant_algo") if isinstance(value, dict) else None
        module = named(f"{name}.weight", "", len(layers)).module
        forms.setdefault(module, set()).add(MODELOPT.get(str(word), ""))
    lines = [("default", "formats.bf16")]
    for module in modules_of(layers):
        kinds = forms.get(module, set())
        if len(kinds) == 1 and "" not in kinds:
            lines.append((module, next(iter(kinds))))
        elif kinds:
            config.record.warn(f"recipe: {module} has several formats; it stands as bf16")
    return tuple(lines) if len(lines) > 1 else ()


def modules_of(layers: Iterable[LayerPieces]) -> list[str]:
    """Modules of these layers that a checkpoint may quantize, in the order of the recipes."""
    found: set[str] = set()
    for piece in dict.fromkeys(piece for layer in layers for piece in layer.pieces):
        keys = {key for key, _ in piece.values}
        if piece.sort == "attention":
            softmax = piece.form in ("gqa", "mla", "shared")
            found.add("attention" if softmax else "state_mixer")
            if any(key == "indexer" and value != "shared" for key, value in piece.values):
                found.add("indexer")
        elif piece.form == "moe":
            found.add("routed_experts")
            if "shared_experts" in keys:
                found.add("shared_experts")
        else:
            found.add("ffn")
    return [module for module in TENSORS if module in found]


def _samples(count: int) -> tuple[int, ...]:
    return tuple(sorted({0, 1 % count, count // 2, count - 1}))


# --- formats -------------------------------------------------------------------------------------


def _format(found: Section) -> str:
    method = found.word("quant_method") or ""
    match method:
        case "fp8":
            return _float8(found.raw("weight_block_size")[1])
        case "fbgemm_fp8":
            return "formats.fp8_row"
        case "mxfp4":
            return "formats.mxfp4"
        case "awq" | "gptq":
            bits = found.needed("bits", "w_bit")
            return _groups(bits, found.needed("group_size", "q_group_size"), zero=True)
        case "compressed-tensors":
            return _compressed(found)
        case "modelopt":
            return _modelopt(found)
    raise Refused(f"`quant_method` {method[:40]!r} is not known here")


def _float8(block: Any) -> str:
    if block is None:
        return "formats.fp8"
    if not isinstance(block, list) or len(block) != 2:
        raise Refused("the block of its FP8 is no pair of sizes")
    rows, columns = (count_of("weight_block_size", size) for size in block)
    if (rows, columns) == (128, 128):
        return "formats.fp8_block128"
    return f"{{ bits = 8 bit; scale = 32 bit; block = [{rows}, {columns}]; compute = fp8 }}"


def _groups(bits: int, size: int, *, zero: bool) -> str:
    if (bits, size, zero) == (4, 128, True):
        return "formats.awq_int4"
    if (bits, size, zero) == (4, 32, False):
        return "formats.int4_group32"
    point = f"zero = {bits} bit; " if zero else ""
    return (
        f"{{ bits = {bits} bit; scale = 16 bit; {point}block = {size}; compute = bf16; "
        "holds = weights }"
    )


def _compressed(found: Section) -> str:
    groups = found.section("config_groups")
    if groups is None or len(groups.values) != 1:
        raise Refused("`config_groups` has not just one group")
    group = groups.section(next(iter(groups.values)))
    weights = group.section("weights") if group is not None else None
    if group is None or weights is None:
        raise Refused("`config_groups` has no weights")
    bits, kind = weights.needed("num_bits"), weights.word("type") or "int"
    size = weights.count("group_size", least=-1)
    packed = f"{found.word('format') or ''} {group.word('format') or ''}"
    if "mxfp4" in packed:
        return "formats.mxfp4"
    if (bits, kind, size) == (4, "float", 16):
        return "formats.nvfp4"
    if (bits, kind) == (8, "float"):
        return _float8(weights.raw("block_structure")[1])
    if kind == "int" and size is not None and size > 0:
        return _groups(bits, size, zero=weights.flag("symmetric") is False)
    if (bits, kind) == (8, "int"):
        return "formats.int8"
    raise Refused(f"weights of {bits} bit, type {kind[:20]!r}, have no format here")


MODELOPT: Mapping[str, str] = MappingProxyType(
    {"NVFP4": "formats.nvfp4", "FP8": "formats.fp8", "MXFP8": "formats.mxfp8"}
)


def _modelopt(found: Section) -> str:
    known = MODELOPT
    word = found.word("quant_algo")
    if word is None and found.has("config_groups"):
        return _compressed(found)
    if word is None or word not in known:
        raise Refused(f"`quant_algo` {str(word)[:40]!r} is not known here, or differs by layer")
    return known[word]


# --- exceptions ----------------------------------------------------------------------------------


def _exceptions(found: Section) -> list[str]:
    """Patterns of modules that stay as they are."""
    patterns: list[str] = []
    for key in ("ignore", "modules_to_not_convert", "exclude_modules"):
        _, given = found.raw(key)
        if isinstance(given, list):
            patterns += [item for item in given[:MOST_PATTERNS] if isinstance(item, str)]
    return patterns


def _excepted(module: str, layer: int, patterns: Sequence[str]) -> bool:
    names = [f"model.layers.{layer}.{tensor}" for tensor in TENSORS[module]]
    return any(_matches(pattern, name) for pattern in patterns for name in names)


def _matches(pattern: str, name: str) -> bool:
    """A pattern is a regular expression behind `re:`, a glob, or the name of a module above."""
    if pattern.startswith("re:"):
        return _expression(pattern[3:], name)
    plain = pattern.replace("language_model.", "")
    if not plain.startswith("model.") and plain.startswith("layers."):
        plain = f"model.{plain}"
    if "*" in plain:
        return fnmatchcase(name, plain) or fnmatchcase(name, f"{plain}.*")
    return name == plain or name.startswith(f"{plain}.") or f".{plain}." in f"{name}."


_SAFE = re.compile(r"[\w.*^$|()\\-]+")
"""What expressions of published configs are made of; nested repeats could run for ever."""


def _expression(pattern: str, name: str) -> bool:
    if not _SAFE.fullmatch(pattern) or len(pattern) > 200 or pattern.count("*") > 4:
        return False
    if re.search(r"\)[*+?]", pattern):
        return False
    try:
        return re.match(pattern, name) is not None
    except (re.error, RecursionError):
        return False
