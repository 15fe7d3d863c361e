"""A model as a set of logical tensors with named dimensions.

Comes in: the typed model. Goes out: tensors by module, each with its shape, the layers that have
one, and the dimension that a layout may cut. Counts are what a checkpoint stores: router biases
and norms included, draft heads (`mtp`) and towers apart. Not its job: where a tensor goes.

Rules of counting: the model's attributes in language.md; checked against the counts that
transformers gives for published configs (tests/known).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from kvdsl.placement.attention_tensors import attention
from kvdsl.placement.depths import Depths, joined, kinds_of_layer
from kvdsl.placement.feed_forward_tensors import feed_forward
from kvdsl.placement.mixer_tensors import mixer
from kvdsl.placement.tensor import Tensor, vector
from kvdsl.recall import Recall
from kvdsl.spec.model import (
    AnyPart,
    Gated,
    Gqa,
    Layer,
    Mla,
    Model,
    Moe,
    Plain,
    SharedCache,
)


def tensors(model: Model) -> tuple[Tensor, ...]:
    """All tensors of the main model, in the order of the stack; equal ones of several layers are
    one."""
    return _TENSORS.get((model,), (), lambda: _tensors(model))


_TENSORS: Recall[tuple[Tensor, ...]] = Recall(64)


def _tensors(model: Model) -> tuple[Tensor, ...]:
    in_stack: dict[tuple[Tensor, int], Depths] = {}
    for layer, depths in kinds_of_layer(model):
        many: Counter[Tensor] = Counter()  # a layer may have a part twice
        for tensor in _layer(model, layer):
            key = (tensor, many[tensor])
            many[tensor] += 1
            in_stack[key] = joined(in_stack[key], depths) if key in in_stack else depths
    placed = (replace(tensor, depths=depths) for (tensor, _), depths in in_stack.items())
    return (*_outside(model), *placed)


def draft_tensors(model: Model, layers: int | None = None) -> tuple[Tensor, ...]:
    """Tensors of the draft layers: each has the projection of two hidden states to one and three
    norms more. Embedding and head are the model's own. All are counted in `mtp`; a matrix of the
    layer itself keeps its module. `layers` says how many of them are used (None: all).

    Source: DeepSeek-V3 technical report, arXiv 2412.19437, section 2.2.
    """
    found: list[Tensor] = []
    left = layers if layers is not None else sum(count for count, _ in model.drafts())
    for count, layer in model.drafts():
        used = min(count, left)
        left -= used
        if not used:
            continue
        made = [
            *_layer(model, layer),
            Tensor("mtp", "", "join", model.hidden, 2 * model.hidden, "router", model.hidden),
            replace(vector("mtp", "", "norms", model.hidden), count=3),
        ]
        depths = Depths.of([(model.layers, used)])
        found.extend(replace(t, depths=depths, group="mtp", place="last", draft=True) for t in made)
    return tuple(found)


def active(model: Model, tensor: Tensor) -> int:
    """Parameters of a tensor that one token meets: `active` of the routed experts, all else."""
    part = model.parts.get(tensor.part)
    if tensor.cut == "experts" and isinstance(part, Moe):
        return tensor.in_all * part.active // part.experts
    return tensor.in_all


TABLES = ("tokens", "positions", "layer_tokens")
"""Tensors of which a token looks up a row; a head that is tied multiplies by the first."""


def met(model: Model, logical: tuple[Tensor, ...]) -> int:
    """Parameters that one token meets: a row of a table is looked up, not met, but the table of a
    head that is tied is the head."""
    used = sum(active(model, t) for t in logical if t.module != "tower" and t.name not in TABLES)
    tied = sum(t.in_all for t in logical if t.name == "tokens") if model.tied_embeddings else 0
    return used + tied


def _outside(model: Model) -> Iterator[Tensor]:
    width = model.embedding_dim or model.hidden
    rows = model.embedding_rows or model.vocab
    vocabulary = Tensor("embedding", "", "tokens", rows, width, "vocabulary", rows, place="first")
    yield vocabulary
    if not model.tied_embeddings:
        yield replace(
            vocabulary, module="head", name="head", rows=model.vocab, atoms=model.vocab,
            place="last",
        )  # fmt: skip
    if model.embedding_dim is not None:
        down = Tensor("embedding", "", "project_in", model.hidden, width, "width", width,
                      group="extra")  # fmt: skip
        yield replace(down, place="first")
        yield replace(down, module="head", name="project_out", place="last")
    if model.positions:
        yield Tensor(
            "embedding", "", "positions", model.positions, model.hidden, "width", model.hidden,
            place="first",
        )  # fmt: skip
    if model.head_bias:
        yield Tensor("head", "", "bias", 1, model.vocab, "vocabulary", model.vocab, place="last")
    sides = 2 if model.norm_bias else 1
    if model.embedding_norm:
        yield replace(vector("norms", "", "embedding", model.hidden * sides), place="first")
    if model.final_norm:
        yield replace(vector("norms", "", "final", model.hidden * sides), place="last")
    if model.extra:
        yield replace(_extra(model.extra), place="first")
    if model.layer_input:
        yield from _layer_input(model, model.layer_input)


def _layer(model: Model, layer: Layer) -> list[Tensor]:
    found: list[Tensor] = []
    for name in layer.parts:
        part = model.parts[name]
        found.extend(_part(model, name, part))
        if part.extra:
            found.append(vector(_module(part), name, "extra", part.extra))
    norms = layer.norms if layer.norms is not None else model.layer_norms
    norms = len(layer.parts) if norms is None else norms
    width = model.hidden * (2 if model.norm_bias else 1)
    if norms:
        found.append(replace(vector("norms", "", "layer", width), count=norms))
    if layer.extra:
        found.append(_extra(layer.extra))
    if model.layer_input:
        size = (model.layer_input, model.hidden)
        gate = Tensor("norms", "", "layer_input", *size, "norm", 1, count=2, group="extra")
        found.append(gate)
    return found


def _extra(width: int) -> Tensor:
    """What no attribute names lies as norms do, and is counted apart."""
    return replace(vector("norms", "", "extra", width), group="extra")


def _layer_input(model: Model, width: int) -> Iterator[Tensor]:
    """A table with a row for each token and layer, and the projection of the embedding to it."""
    every = width * model.layers
    yield Tensor(
        "embedding", "", "layer_tokens", model.vocab, every, "vocabulary", model.vocab,
        place="first",
    )  # fmt: skip
    down = Tensor("embedding", "", "layer_project", every, model.hidden, "width", every,
                  place="first", group="extra")  # fmt: skip
    yield down
    yield replace(_extra(width), place="first")


def _module(part: AnyPart) -> str:
    """Of a part's own `extra`. What a mixture of experts has beside them is its router's."""
    match part:
        case Gated() | Plain():
            return "ffn"
        case Moe():
            return "router"
        case Gqa() | Mla() | SharedCache():
            return "attention"
        case _:
            return "state_mixer"


def _part(model: Model, name: str, part: AnyPart) -> Iterator[Tensor]:
    match part:
        case Gqa() | Mla() | SharedCache():
            yield from attention(model, name, part)
        case Gated() | Plain() | Moe():
            yield from feed_forward(model, name, part)
        case _:
            yield from mixer(model, name, part)
