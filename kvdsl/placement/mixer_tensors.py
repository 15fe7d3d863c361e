"""Tensors of the mixers with a state of fixed size: linear attention, Mamba, short convolutions.

Comes in: a part. Goes out: its tensors in one layer, cut by heads or channels. Not its job: the
state itself (cache). Rules: the modules of the released models, as transformers and vLLM 0.33.0
load them; checked against the counts of published configs (tests/known).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.placement.tensor import Tensor, vector
from kvdsl.spec.model import GatedDelta, Kda, Lightning, Mamba1, Mamba2, Model, ShortConv

Mixer = GatedDelta | Kda | Lightning | Mamba1 | Mamba2 | ShortConv


def mixer(model: Model, name: str, part: Mixer) -> Iterator[Tensor]:
    match part:
        case GatedDelta():
            yield from _gated_delta(model, name, part)
        case Kda():
            yield from _kda(model, name, part)
        case Lightning():
            yield from _lightning(model, name, part)
        case Mamba1():
            yield from _mamba1(model, name, part)
        case Mamba2():
            yield from _mamba2(model, name, part)
        case ShortConv():
            yield from _short_conv(model, name, part)


def _matrix(name: str, what: str, rows: int, columns: int, atoms: int, group: str = "") -> Tensor:
    return Tensor("state_mixer", name, what, rows, columns, "query_heads", atoms, group=group)


def _reading(tensor: Tensor) -> Tensor:
    """A projection that reads what heads or channels give: cut along its columns."""
    return replace(tensor, along="columns")


def _small(name: str, what: str, width: int) -> Tensor:
    return vector("state_mixer", name, what, width)


def _gated_delta(model: Model, name: str, part: GatedDelta) -> Iterator[Tensor]:
    hidden, heads = model.hidden, part.value_heads
    keys, values = part.key_heads * part.key_dim, part.value_heads * part.value_dim
    yield _matrix(name, "qkv", 2 * keys + values, hidden, heads)
    yield _matrix(name, "gate", values, hidden, heads)
    yield _matrix(name, "step_and_decay", 2 * heads, hidden, heads)
    yield _matrix(name, "conv", 2 * keys + values, part.conv, heads)
    yield _small(name, "decay", 2 * heads)
    yield _small(name, "norm", part.value_dim)
    yield _reading(_matrix(name, "o", hidden, values, heads))


def _kda(model: Model, name: str, part: Kda) -> Iterator[Tensor]:
    hidden, heads, inner = model.hidden, part.heads, part.heads * part.head_dim
    yield _matrix(name, "qkv", 3 * inner, hidden, heads)
    yield _matrix(name, "conv", 3 * inner, part.conv, heads)
    # The decay of each channel, and its output gate, come through a narrow space of one head.
    yield _matrix(name, "decay_down", part.head_dim, hidden, 1)
    yield _matrix(name, "decay_up", inner, part.head_dim, heads)
    yield _small(name, "decay", heads + inner)
    yield _matrix(name, "step", heads, hidden, heads)
    if part.full_gate:
        yield _matrix(name, "gate", inner, hidden, heads)
    else:
        yield _matrix(name, "gate_down", part.head_dim, hidden, 1)
        yield _matrix(name, "gate_up", inner, part.head_dim, heads)
    yield _small(name, "norm", part.head_dim)
    yield _reading(_matrix(name, "o", hidden, inner, heads))


def _lightning(model: Model, name: str, part: Lightning) -> Iterator[Tensor]:
    """A checkpoint stores it as any attention, with its norm among the norms: counted so."""
    hidden, heads, inner = model.hidden, part.heads, part.heads * part.head_dim
    yield _matrix(name, "qkv", 3 * inner, hidden, heads, "attention")
    yield _matrix(name, "gate", inner, hidden, heads, "attention")
    yield _reading(_matrix(name, "o", hidden, inner, heads, "attention"))
    yield Tensor("state_mixer", name, "norm", 1, inner, "norm", inner, group="norms")


def _mamba1(model: Model, name: str, part: Mamba1) -> Iterator[Tensor]:
    hidden, inner = model.hidden, part.inner
    yield _matrix(name, "in", 2 * inner, hidden, inner)
    yield _matrix(name, "conv", inner, part.conv + part.conv_bias, inner)
    yield _matrix(name, "x", part.dt_rank + 2 * part.state, inner, inner)
    yield _matrix(name, "dt", inner, part.dt_rank + 1, inner)
    yield _matrix(name, "decay", inner, part.state + 1, inner)
    yield _reading(_matrix(name, "o", hidden, inner, inner))
    if part.bias:
        yield _small(name, "bias", 2 * inner + hidden)


def _mamba2(model: Model, name: str, part: Mamba2) -> Iterator[Tensor]:
    hidden, heads, inner = model.hidden, part.heads, part.heads * part.head_dim
    mixed = inner + 2 * part.groups * part.state
    yield _matrix(name, "in", inner + mixed + heads, hidden, heads)
    yield _matrix(name, "conv", mixed, part.conv + part.conv_bias, heads)
    yield _small(name, "decay", 3 * heads)
    if part.norm:
        yield _small(name, "norm", inner)
    yield _reading(_matrix(name, "o", hidden, inner, heads))
    if part.bias:
        yield _small(name, "bias", inner + mixed + heads + hidden)


def _short_conv(model: Model, name: str, part: ShortConv) -> Iterator[Tensor]:
    hidden, width = model.hidden, part.width
    yield _matrix(name, "in", 3 * width, hidden, width)
    yield _matrix(name, "conv", width, part.conv, width)
    yield _reading(_matrix(name, "o", hidden, width, width))
    if part.bias:
        yield _small(name, "bias", 4 * width + hidden)
