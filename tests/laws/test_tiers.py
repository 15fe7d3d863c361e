"""Tiers: what leaves one arrives in the next, no byte is lost, and none holds what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.reuse import Reuse, reuse, room_in_all
from kvdsl.costs.tiers import request_bytes, tier
from kvdsl.formulas import Term
from kvdsl.spec.deployment import Rate, TierUse
from kvdsl.spec.formats import Format
from kvdsl.spec.hardware import Link, Tier
from kvdsl.spec.workload import Workload
from kvdsl.units import REQUEST_RATE, TOKENS
from tests.laws.worlds import BF16, FP8, GB, NVFP4, World, worlds

few = settings(max_examples=40)
FORMS = (BF16, FP8, NVFP4)
SCOPES = ("device", "node", "cluster")


@st.composite
def uses(draw: st.DrawFn, name: str) -> TierUse:
    link = Link(name="path", bandwidth=draw(st.integers(1, 500)) * GB)
    held = Tier(
        name=name,
        read=draw(st.none() | st.integers(1, 500).map(lambda n: n * GB)),
        write=draw(st.none() | st.integers(1, 500).map(lambda n: n * GB)),
        latency=draw(st.none() | st.just(Fraction(1, 10**6))),
        granularity=draw(st.none() | st.sampled_from((1, 4096))),
        link=draw(st.none() | st.just(link)),
        shared=draw(st.booleans()),
        accepts=tuple(draw(st.lists(st.sampled_from(FORMS), max_size=2))),
    )
    return TierUse(
        name=name,
        tier=held,
        capacity=Rate(value=draw(st.integers(0, 1000)) * GB, scope=draw(st.sampled_from(SCOPES))),
        format=draw(st.none() | st.sampled_from(FORMS)),
        chunk=draw(st.none() | st.sampled_from((1, 16, 256))),
        count=draw(st.none() | st.integers(1, 4)),
        overlap=draw(st.sampled_from(("none", "layerwise"))),
        store=draw(st.sampled_from(("all", "evicted"))),
    )


@st.composite
def pools(draw: st.DrawFn) -> Estimate:
    world: World = draw(worlds())
    asked = Workload(
        prompt=draw(st.sampled_from((16, 1000, 8192))),
        output=draw(st.integers(1, 500)),
        concurrency=draw(st.integers(1, 50)),
        prefix_hits=Fraction(draw(st.integers(0, 9)), 10),
        reuse=draw(st.none() | st.integers(1, 100_000)),
    )
    return estimate(replace(world.subject, workload=asked))


def kept(pool: Estimate, below: Sequence[TierUse], rate: float) -> Reuse:
    arrivals = Term("arrivals", rate, REQUEST_RATE)
    return reuse(pool, [tier(use, pool) for use in below], arrivals)


TIERS = st.tuples(uses("host"), uses("disk"), uses("far"))
RATES = st.floats(0.01, 100)


@few
@given(pools(), TIERS, RATES)
def test_every_prefix_lies_on_the_devices_in_a_tier_or_nowhere(
    pool: Estimate, below: Sequence[TierUse], rate: float
) -> None:
    found = kept(pool, below, rate)
    shares = [float(found.near_share.value), *(float(one.share.value) for one in found.kept)]
    assert all(0 <= share <= 1 for share in shares)
    assert sum(shares) + found.missing == pytest.approx(1)
    if found.working is None or not found.working.value:
        return
    for share, room in zip(shares, (found.near, *(k.tier.tokens for k in found.kept)), strict=True):
        assert share * float(found.working.value) <= float(room.value) * (1 + 1e-9) + 1e-6
    in_all = min(float(room_in_all(found)), float(found.working.value))
    assert sum(shares) * float(found.working.value) == pytest.approx(in_all, rel=1e-9, abs=1e-6)


@few
@given(pools(), TIERS, RATES, st.permutations((0, 1, 2)))
def test_moving_bytes_between_tiers_loses_none(
    pool: Estimate, below: Sequence[TierUse], rate: float, order: Sequence[int]
) -> None:
    before, after = kept(pool, below, rate), kept(pool, [below[n] for n in order], rate)
    assert room_in_all(after) == room_in_all(before)
    if before.working is not None:
        assert after.missing == pytest.approx(before.missing, abs=1e-9)


@few
@given(pools(), uses("host"), RATES)
def test_a_tier_never_holds_what_its_format_refuses(
    pool: Estimate, use: TierUse, rate: float
) -> None:
    held = tier(use, pool)
    kept_in = (
        {use.format.title} if use.format else {line.format.title for line in pool.subject.kv.lines}
    )
    accepted = {form.title for form in use.tier.accepts}
    refused = {form.title for form in held.refused}
    if held.parts:
        assert refused == (kept_in - accepted if accepted else set())
    if refused:
        assert held.tokens.value == 0
        found = kept(pool, [use], rate)
        assert found.kept[0].share.value == 0 or found.working is None
    weights_only = Format(name="table", bits=1, holds="weights")
    worst = tier(use.model_copy(update={"format": weights_only}), pool)
    assert not worst.parts or (worst.refused and worst.tokens.value == 0)


@few
@given(pools(), uses("host"))
def test_a_tier_holds_no_more_bytes_than_it_has(pool: Estimate, use: TierUse) -> None:
    held = tier(use, pool)
    assert Fraction(held.tokens.value) * Fraction(held.token.value) <= Fraction(held.capacity.value)


@few
@given(pools(), uses("host"), st.integers(1, 500))
def test_more_of_a_tier_never_holds_less_or_takes_longer(
    pool: Estimate, use: TierUse, more: int
) -> None:
    before = tier(use, pool)
    larger = Rate(value=use.capacity.value + more * GB, scope=use.capacity.scope)
    assert (
        tier(use.model_copy(update={"capacity": larger}), pool).tokens.value >= before.tokens.value
    )
    size = request_bytes(before, Term("prompt", 1000, TOKENS))
    load = before.load(size)
    if use.tier.read is None or load is None:
        return
    quick = use.tier.model_copy(update={"read": use.tier.read + more * GB})
    faster = tier(use.model_copy(update={"tier": quick}), pool).load(size)
    assert faster is not None
    assert float(faster.value) <= float(load.value) * (1 + 1e-12)
