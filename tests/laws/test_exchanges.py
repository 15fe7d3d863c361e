"""Laws of exchanges on any layout: none is of nothing, phases go apart, and options only save."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from kvdsl.costs.estimate import estimate
from kvdsl.placement.placement import build
from tests.laws.worlds import World, worlds

KINDS = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"}


@settings(max_examples=60)
@given(world=worlds())
def test_every_exchange_is_over_a_group_and_of_a_positive_payload(world: World) -> None:
    placement = build(world.subject)
    for exchange in placement.exchanges:
        assert exchange.kind in KINDS
        assert exchange.count > 0
        assert exchange.tokens * exchange.width + exchange.extra + exchange.each_pair > 0
        assert exchange.phase in ("", "decode", "prefill")
        assert placement.widest(exchange.axis, exchange.stage) is not None


@settings(max_examples=40)
@given(world=worlds())
def test_an_exchange_beside_attention_takes_no_longer_than_one_in_turn(world: World) -> None:
    def step(*, overlap: bool) -> float:
        axes = replace(world.degrees.attention, overlap=overlap)
        other = replace(world, degrees=replace(world.degrees, attention=axes))
        return estimate(other.subject).number("decode.tpot")

    assert step(overlap=True) <= step(overlap=False) * (1 + 1e-9)


@settings(max_examples=40)
@given(world=worlds())
def test_an_approximate_split_takes_no_longer_than_an_exact_one(world: World) -> None:
    def step(*, exact: bool) -> float:
        axes = replace(world.degrees.attention, latent_split=True, exact=exact)
        other = replace(world, degrees=replace(world.degrees, attention=axes))
        return estimate(other.subject).number("decode.tpot")

    assert step(exact=False) <= step(exact=True) * (1 + 1e-9)


@settings(max_examples=40)
@given(world=worlds())
def test_an_output_projection_over_more_ranks_takes_no_more_memory(world: World) -> None:
    def weights(*, split: bool) -> float:
        axes = replace(world.degrees.attention, output_split=split)
        other = replace(world, degrees=replace(world.degrees, attention=axes))
        return estimate(other.subject).number("memory.weights")

    assert weights(split=True) <= weights(split=False)
