"""Parts with a state of fixed size out of a config: linear attention, Mamba, short convolutions.

Comes in: a section of the config. Goes out: a piece of one layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kvdsl.importers.config import Refused, Section
from kvdsl.importers.declaration import Piece, Value


def mixer(config: Section, form: str, hidden: int) -> Piece:
    return RULES[form](config, hidden)


def _piece(hint: str, form: str, *values: tuple[str, Value]) -> Piece:
    return Piece("attention", hint, form, values)


def _gated_delta(config: Section, hidden: int) -> Piece:  # noqa: ARG001
    return _piece(
        "linear",
        "gated_delta",
        ("key_heads", config.needed("linear_num_key_heads")),
        ("value_heads", config.needed("linear_num_value_heads")),
        ("key_dim", config.needed("linear_key_head_dim")),
        ("value_dim", config.needed("linear_value_head_dim")),
        ("conv", config.needed("linear_conv_kernel_dim")),
    )


def _kda(config: Section, hidden: int) -> Piece:  # noqa: ARG001
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


def _lightning(config: Section, hidden: int) -> Piece:
    heads = config.needed("num_attention_heads")
    width = config.count("head_dim") or hidden // heads
    return _piece("linear", "lightning", ("heads", heads), ("head_dim", max(width, 1)))


def _mamba1(config: Section, hidden: int) -> Piece:
    state = config.needed("mamba_d_state")
    name, given = config.raw("mamba_dt_rank")
    rank = -(-hidden // 16) if not name or given == "auto" else config.needed("mamba_dt_rank")
    if config.flag("mamba_proj_bias"):
        raise Refused("`mamba_proj_bias` has no faithful form here")
    if config.flag("mamba_conv_bias") is False:
        raise Refused("`mamba_conv_bias` = false has no faithful form here")
    return _piece(
        "mamba",
        "mamba1",
        ("inner", config.needed("mamba_expand") * hidden),
        ("state", state),
        ("conv", config.needed("mamba_d_conv")),
        ("dt_rank", rank),
        # Norms of the step and of what goes in and out of the state.
        ("extra", rank + 2 * state),
    )


def mamba2(config: Section) -> Piece:
    if config.flag("mamba_proj_bias") or config.flag("use_bias"):
        raise Refused("biases of the Mamba projections have no faithful form here")
    if config.flag("use_conv_bias") is False:
        raise Refused("`use_conv_bias` = false has no faithful form here")
    config.raw("expand")  # heads and their width say it
    return _piece(
        "mamba",
        "mamba2",
        ("heads", config.needed("mamba_num_heads")),
        ("head_dim", config.needed("mamba_head_dim")),
        ("groups", config.needed("n_groups", "mamba_n_groups")),
        ("state", config.needed("ssm_state_size")),
        ("conv", config.needed("conv_kernel")),
    )


def _short_conv(config: Section, hidden: int) -> Piece:
    if config.flag("conv_bias"):
        raise Refused("`conv_bias` has no faithful form here")
    width = config.count("conv_dim") or hidden
    return _piece("conv", "short_conv", ("width", width), ("conv", config.needed("conv_L_cache")))


RULES: Mapping[str, Callable[[Section, int], Piece]] = MappingProxyType(
    {
        "gated_delta": _gated_delta,
        "kda": _kda,
        "lightning": _lightning,
        "mamba1": _mamba1,
        "short_conv": _short_conv,
    }
)
