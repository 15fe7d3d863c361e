"""Tensors of feed-forward parts: dense, and experts with their router and shared experts.

Comes in: a part. Goes out: its tensors in one layer. Rules: language.md, Feed-forward.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.placement.tensor import Tensor, vector
from kvdsl.spec.model import Gated, Model, Moe, Plain


def feed_forward(model: Model, name: str, part: Gated | Plain | Moe) -> Iterator[Tensor]:
    if isinstance(part, Moe):
        yield from _moe(model, name, part)
    else:
        yield from _dense(model, name, part)


def _dense(model: Model, name: str, part: Gated | Plain) -> Iterator[Tensor]:
    hidden, width = model.hidden, part.intermediate
    wide = 2 if isinstance(part, Gated) else 1
    yield Tensor("ffn", name, "up", width, hidden, "width", width, count=wide)
    yield Tensor("ffn", name, "down", hidden, width, "width", width, along="columns")
    if part.bias:
        yield Tensor("ffn", name, "up_bias", 1, width, "width", width, count=wide)
        yield Tensor("ffn", name, "down_bias", 1, hidden, "width", hidden)


def _moe(model: Model, name: str, part: Moe) -> Iterator[Tensor]:
    hidden = part.latent or model.hidden
    wide = 2 if part.gated else 1
    many, width = part.experts, part.intermediate
    routed = Tensor("routed_experts", name, "up", width, hidden, "experts", many, count=wide * many)
    yield routed
    yield replace(routed, name="down", rows=hidden, columns=width, count=many,
                  along="columns")  # fmt: skip
    if part.bias:
        yield replace(routed, name="up_bias", rows=1, columns=width)
        yield replace(routed, name="down_bias", rows=1, columns=hidden, count=many)
    if part.latent is not None:
        yield Tensor(
            "routed_experts", name, "latent", part.latent, model.hidden, "width", part.latent,
            count=2, group="extra",
        )  # fmt: skip
    router = Tensor("router", name, "weight", many, model.hidden, "router", many)
    yield router
    for given, what in ((part.router_bias, "bias"), (part.score_bias, "score_bias")):
        if given:
            yield replace(router, name=what, rows=1, columns=many)
    shared = part.shared_width
    if shared:
        up = Tensor("shared_experts", name, "up", shared, model.hidden, "width", shared, count=wide)
        yield up
        yield replace(up, name="down", rows=model.hidden, columns=shared, count=1,
                      along="columns")  # fmt: skip
        if part.shared_gate:
            yield vector("shared_experts", name, "gate", model.hidden)
