"""Parts with a state of fixed size out of a config: linear attention, Mamba, short convolutions.

Comes in: a section of the config. Goes out: a piece of one layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kvdsl.importers.config import Refused, Section
from kvdsl.importers.declaration import Piece, Value
from kvdsl.importers.family import Family


def mixer(config: Section, family: Family, hidden: int) -> Piece:
    return RULES[family.linear](config, family, hidden)


def _piece(hint: str, form: str, *values: tuple[str, Value]) -> Piece:
    return Piece("attention", hint, form, values)


def _gated_delta(config: Section, family: Family, hidden: int) -> Piece:  # noqa: ARG001
    return _piece(
        "linear",
        "gated_delta",
        ("key_heads", config.needed("linear_num_key_heads")),
        ("value_heads", config.needed("linear_num_value_heads")),
        ("key_dim", config.needed("linear_key_head_dim")),
        ("value_dim", config.needed("linear_value_head_dim")),
        ("conv", config.needed("linear_conv_kernel_dim")),
    )


def _kda(config: Section, family: Family, hidden: int) -> Piece:  # noqa: ARG001
    inner = config.section("linear_attn_config")
    if inner is None:
        raise Refused("`linear_attn_config` is missing")
    values: list[tuple[str, Value]] = [
        ("heads", inner.needed("num_heads")),
        ("head_dim", inner.needed("head_dim")),
        ("conv", inner.needed("short_conv_kernel_size")),
    ]
    if inner.flag("use_full_rank_gate"):
        values.append(("full_gate", True))
    return _piece("linear", "kda", *values)


def _lightning(config: Section, family: Family, hidden: int) -> Piece:  # noqa: ARG001
    heads = config.needed("num_attention_heads")
    width = config.count("head_dim") or hidden // heads
    return _piece("linear", "lightning", ("heads", heads), ("head_dim", max(width, 1)))


def _mamba1(config: Section, family: Family, hidden: int) -> Piece:
    state = config.needed("mamba_d_state", "state_size")
    inner = config.count("mamba_expand") or 0
    width = inner * hidden or config.needed("intermediate_size")
    name, given = config.raw("mamba_dt_rank", "time_step_rank")
    rank = config.needed("mamba_dt_rank", "time_step_rank") if name and given != "auto" else None
    rank = -(-hidden // 16) if rank is None else rank
    values: list[tuple[str, Value]] = [
        ("inner", width),
        ("state", state),
        ("conv", config.needed("mamba_d_conv", "conv_kernel")),
        ("dt_rank", rank),
    ]
    values += _biases(config)
    if family.mixer_norms:
        values.append(("extra", rank + 2 * state))
    return _piece("mamba", "mamba1", *values)


def _biases(config: Section) -> list[tuple[str, Value]]:
    """Of the projections in and out, off by default, and of the convolution, on by default."""
    values: list[tuple[str, Value]] = []
    if any([config.flag("mamba_proj_bias"), config.flag("use_bias")]):
        values.append(("bias", True))
    if False in (config.flag("mamba_conv_bias"), config.flag("use_conv_bias")):
        values.append(("conv_bias", False))
    return values


def _mamba2(config: Section, family: Family, hidden: int) -> Piece:
    heads = config.needed("mamba_num_heads", "mamba_n_heads")
    _, word = config.raw("mamba_head_dim", "mamba_d_head")
    inner = (config.count("expand", "mamba_expand") or 2) * hidden
    own = config.count("mamba_d_ssm")
    if word is None or word == "auto":
        width = max((own or inner) // heads, 1)
    else:
        width = config.needed("mamba_head_dim", "mamba_d_head")
    values: list[tuple[str, Value]] = [
        ("heads", heads),
        ("head_dim", width),
        ("groups", config.needed("n_groups", "mamba_n_groups")),
        ("state", config.needed("ssm_state_size", "mamba_d_state", "state_size")),
        ("conv", config.needed("conv_kernel", "mamba_d_conv")),
    ]
    values += _biases(config)
    norm = config.flag("mamba_rms_norm")
    if not (family.gated_norm if norm is None else norm):
        values.append(("norm", False))
    for key in ("mamba_chunk_size",):
        config.raw(key)
    return _piece("mamba", "mamba2", *values)


def _short_conv(config: Section, family: Family, hidden: int) -> Piece:  # noqa: ARG001
    values: list[tuple[str, Value]] = [
        ("width", config.count("conv_dim") or hidden),
        ("conv", config.needed("conv_L_cache")),
    ]
    if config.flag("conv_bias"):
        values.append(("bias", True))
    return _piece("conv", "short_conv", *values)


RULES: Mapping[str, Callable[[Section, Family, int], Piece]] = MappingProxyType(
    {
        "gated_delta": _gated_delta,
        "kda": _kda,
        "lightning": _lightning,
        "mamba1": _mamba1,
        "mamba2": _mamba2,
        "short_conv": _short_conv,
    }
)
