"""Formulas of the mixers with a state of fixed size: parameters of a layer, and what it keeps.

Comes in: a part of a model. Goes out: terms, down to its attributes. Exact: they give what the
tensors (placement.mixer_tensors) and the cache (placement.cache) have, and tests hold them to it.
Not its job: formats of what is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvdsl.costs.origins import of_attribute, of_model
from kvdsl.formulas import Formula, Term, formula
from kvdsl.spec.model import GatedDelta, Kda, Lightning, Mamba1, Mamba2, Model, ShortConv
from kvdsl.units import NONE

Mixer = GatedDelta | Kda | Lightning | Mamba1 | Mamba2 | ShortConv
MIXERS = (GatedDelta, Kda, Lightning, Mamba1, Mamba2, ShortConv)

_DELTA = "Yang et al., Gated Delta Networks, arXiv 2412.06464"
_KDA = "Kimi Linear, arXiv 2510.26692"
_LIGHTNING = "MiniMax-01, arXiv 2501.08313"
_MAMBA_1 = "Gu and Dao, Mamba, arXiv 2312.00752"
_MAMBA_2 = "Dao and Gu, Mamba-2, arXiv 2405.21060"
_SHORT = "LFM2, as transformers stores it"


@formula(
    "hidden x (2 K + 3 V + 2 value heads) + (2 K + V) x conv + 2 value heads + value dim, with "
    "K = key heads x key dim, V = value heads x value dim",
    NONE,
    _DELTA,
)
def gated_delta_parameters(
    hidden: int, key_heads: int, key_dim: int, value_heads: int, value_dim: int, conv: int
) -> int:
    keys, values = key_heads * key_dim, value_heads * value_dim
    projections = hidden * (2 * keys + 3 * values + 2 * value_heads)
    return projections + (2 * keys + values) * conv + 2 * value_heads + value_dim


@formula("value heads x key dim x value dim", NONE, _DELTA)
def gated_delta_state(value_heads: int, key_dim: int, value_dim: int) -> int:
    return value_heads * key_dim * value_dim


@formula("(2 x key heads x key dim + value heads x value dim) x conv", NONE, _DELTA)
def gated_delta_columns(
    key_heads: int, key_dim: int, value_heads: int, value_dim: int, conv: int
) -> int:
    return (2 * key_heads * key_dim + value_heads * value_dim) * conv


@formula(
    "hidden x (4 D + head dim + heads) + 3 D x conv + head dim x D + heads + D + head dim + gate, "
    "with D = heads x head dim",
    NONE,
    _KDA,
)
def kda_parameters(hidden: int, heads: int, head_dim: int, conv: int, gate: int) -> int:
    inner = heads * head_dim
    projections = hidden * (4 * inner + head_dim + heads) + head_dim * inner
    return projections + 3 * inner * conv + heads + inner + head_dim + gate


@formula("hidden x heads x head dim", NONE, _KDA)
def full_gate(hidden: int, heads: int, head_dim: int) -> int:
    return hidden * heads * head_dim


@formula("head dim x (hidden + heads x head dim)", NONE, _KDA)
def narrow_gate(hidden: int, heads: int, head_dim: int) -> int:
    return head_dim * (hidden + heads * head_dim)


@formula("heads x head dim x head dim", NONE, _KDA)
def kda_state(heads: int, head_dim: int) -> int:
    return heads * head_dim * head_dim


@formula("3 x heads x head dim x conv", NONE, _KDA)
def kda_columns(heads: int, head_dim: int, conv: int) -> int:
    return 3 * heads * head_dim * conv


@formula("5 x hidden x heads x head dim + heads x head dim", NONE, _LIGHTNING)
def lightning_parameters(hidden: int, heads: int, head_dim: int) -> int:
    return (5 * hidden + 1) * heads * head_dim


@formula("heads x head dim x head dim", NONE, _LIGHTNING)
def lightning_state(heads: int, head_dim: int) -> int:
    return heads * head_dim * head_dim


@formula(
    "3 x hidden x inner + inner x (conv + conv bias + 2 x dt rank + 3 x state + 2) + biases",
    NONE,
    _MAMBA_1,
)
def mamba1_parameters(
    hidden: int, inner: int, state: int, conv: int, dt_rank: int, conv_bias: int, biases: int
) -> int:
    each = conv + conv_bias + 2 * dt_rank + 3 * state + 2
    return 3 * hidden * inner + inner * each + biases


@formula("inner x state", NONE, _MAMBA_1)
def mamba1_state(inner: int, state: int) -> int:
    return inner * state


@formula("inner x conv", NONE, _MAMBA_1)
def mamba1_columns(inner: int, conv: int) -> int:
    return inner * conv


@formula(
    "hidden x (2 D + M + heads) + M x columns + 3 x heads + rest, with "
    "D = heads x head dim, M = D + 2 x groups x state",
    NONE,
    _MAMBA_2,
)
def mamba2_parameters(
    hidden: int, heads: int, head_dim: int, groups: int, state: int, columns: int, rest: int
) -> int:
    inner = heads * head_dim
    mixed = inner + 2 * groups * state
    projections = hidden * (2 * inner + mixed + heads)
    return projections + mixed * columns + 3 * heads + rest


@formula("heads x head dim x state", NONE, _MAMBA_2)
def mamba2_state(heads: int, head_dim: int, state: int) -> int:
    return heads * head_dim * state


@formula("(heads x head dim + 2 x groups x state) x conv", NONE, _MAMBA_2)
def mamba2_columns(heads: int, head_dim: int, groups: int, state: int, conv: int) -> int:
    return (heads * head_dim + 2 * groups * state) * conv


@formula("4 x hidden x width + width x conv + biases", NONE, _SHORT)
def short_conv_parameters(hidden: int, width: int, conv: int, biases: int) -> int:
    return 4 * hidden * width + width * conv + biases


@formula("width x conv", NONE, _SHORT)
def short_conv_columns(width: int, conv: int) -> int:
    return width * conv


@dataclass(frozen=True, slots=True)
class Forms:
    """Formulas of one form: parameters of a layer, values of its state and of its convolution."""

    parameters: Formula
    state: Formula | None
    columns: Formula | None


FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "gated_delta": Forms(gated_delta_parameters, gated_delta_state, gated_delta_columns),
        "kda": Forms(kda_parameters, kda_state, kda_columns),
        "lightning": Forms(lightning_parameters, lightning_state, None),
        "mamba1": Forms(mamba1_parameters, mamba1_state, mamba1_columns),
        "mamba2": Forms(mamba2_parameters, mamba2_state, mamba2_columns),
        "short_conv": Forms(short_conv_parameters, None, short_conv_columns),
    }
)


def layer_parameters(model: Model, part: Mixer) -> Term:
    """Parameters of the mixer in one layer, without its `extra`."""
    inputs = {"hidden": of_model(model, "hidden", model.hidden), **_more(model, part)}
    label = f"parameters of one {part.name}"
    return _derived(model, part, FORMS[part.form].parameters, label, inputs)


def kept_values(model: Model, part: Mixer, component: str) -> Term | None:
    """Values of the state, or of the convolution's columns, that one layer keeps of a request."""
    forms = FORMS[part.form]
    chosen = forms.columns if component == "conv_state" else forms.state
    if chosen is None:
        return None
    return _derived(model, part, chosen, f"values of the {component.replace('_', ' ')}", {})


def _derived(
    model: Model, part: Mixer, chosen: Formula, label: str, given: Mapping[str, Term]
) -> Term:
    code = chosen.function.__code__
    names = code.co_varnames[: code.co_argcount]
    inputs = {name: given.get(name) or of_attribute(model, part, name) for name in names}
    return chosen.derive(label, "", **inputs)


def _more(model: Model, part: Mixer) -> dict[str, Term]:
    """Inputs that are no attribute of the part: what is on or off, counted."""
    hidden = of_model(model, "hidden", model.hidden)
    match part:
        case Kda():
            inputs = {"hidden": hidden}
            inputs |= {name: of_attribute(model, part, name) for name in ("heads", "head_dim")}
            gate = full_gate if part.full_gate else narrow_gate
            return {"gate": gate.derive("output gate", "", **inputs)}
        case Mamba1():
            biases = (2 * part.inner + model.hidden) * part.bias
        case Mamba2():
            inner = part.heads * part.head_dim
            rows = 2 * inner + 2 * part.groups * part.state + part.heads
            rest = inner * part.norm + (rows + model.hidden) * part.bias
            return {
                "columns": of_model(model, "columns and bias of conv", part.conv + part.conv_bias),
                "rest": of_model(model, "norm and biases", rest),
            }
        case ShortConv():
            return {
                "biases": of_model(model, "biases", (4 * part.width + model.hidden) * part.bias)
            }
        case _:
            return {}
    return _flags(model, part, biases)


def _flags(model: Model, part: Mamba1, biases: int) -> dict[str, Term]:
    return {
        "conv_bias": of_model(model, "conv bias", int(part.conv_bias)),
        "biases": of_model(model, "biases", biases),
    }
