"""A fleet costs its classes: nothing that is built grows with the number of replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvdsl.costs.estimate import estimate
from kvdsl.placement.degrees import Degrees, attention_dp, uniform
from kvdsl.placement.graph import graph
from kvdsl.placement.placement import Placement, build
from kvdsl.spec.model import Gated, Gqa, Layer, Mla, Model, Moe, Run
from tests.laws.worlds import World

DENSE = Model(
    name="dense",
    hidden=128,
    vocab=512,
    parts={
        "mix": Gqa(name="mix", query_heads=16, kv_heads=8, head_dim=16),
        "mlp": Gated(name="mlp", intermediate=256),
    },
    stack=(Run(count=4, layer=Layer(parts=("mix", "mlp"))),),
)
SPARSE = Model(
    name="sparse",
    hidden=128,
    vocab=512,
    parts={
        "mix": Mla(name="mix", query_heads=16, kv_rank=64, nope_dim=16, rope_dim=16, value_dim=16),
        "moe": Moe(name="moe", experts=16, active=2, intermediate=64),
    },
    stack=(Run(count=4, layer=Layer(parts=("mix", "moe"))),),
)
GPUS = 100_000
LAYOUTS = (
    (DENSE, uniform(8)),
    (DENSE, uniform(8, pp=2)),
    (DENSE, uniform(16)),
    (SPARSE, attention_dp(16, 16)),
)


def fleet(model: Model, layout: Degrees, gpus: int) -> World:
    replicas = gpus // (layout.size * layout.pp)
    return World(model, replace(layout, replicas=replicas), concurrency=1).roomy()


def sizes(placement: Placement) -> tuple[int, ...]:
    folded = graph(placement)
    found = (placement.classes, placement.holders, placement.groups, placement.exchanges)
    return (*map(len, found), folded.number_of_nodes(), folded.number_of_edges())


@pytest.mark.parametrize(("model", "layout"), LAYOUTS, ids=lambda v: getattr(v, "name", "") or None)
def test_a_hundred_thousand_gpus_are_as_many_classes_and_groups_as_a_few(
    model: Model, layout: Degrees
) -> None:
    few, many = fleet(model, layout, 320), fleet(model, layout, GPUS)
    small, large = build(few.subject), build(many.subject)
    assert large.used == GPUS // (layout.size * layout.pp) * layout.size * layout.pp > 99_000
    assert sizes(small) == sizes(large)
    assert sum(c.count for c in large.classes) == large.used


@pytest.mark.parametrize(("model", "layout"), LAYOUTS, ids=lambda v: getattr(v, "name", "") or None)
def test_a_fleet_holds_what_its_replicas_hold(model: Model, layout: Degrees) -> None:
    one = estimate(fleet(model, layout, layout.size * layout.pp).subject)
    many = fleet(model, layout, GPUS)
    all_of_them = estimate(many.subject)
    assert all_of_them.number("kv.tokens") == one.number("kv.tokens") * many.degrees.replicas
    assert all_of_them.number("gpus") == one.number("gpus") * many.degrees.replicas
