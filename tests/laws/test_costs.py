"""More of a resource never hurts, and every byte and replica is accounted for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvdsl.costs.estimate import Estimate, estimate, memory_estimate
from tests.laws.worlds import GB, SHRINKING, World, worlds

few = settings(max_examples=60)
TIMES = ("decode.tpot", "decode.kv_read", "decode.weight_read", "decode.collectives",
         "prefill.ttft")  # fmt: skip
CAPACITY = ("kv.tokens", "kv.tokens_per_rank", "kv.sequences")
PERCENT = st.integers(1, 99).map(lambda n: Fraction(n, 100))


def capacity(world: World) -> Estimate:
    return memory_estimate(world.subject)


def numbers(found: Estimate, names: tuple[str, ...]) -> list[float]:
    return [found.number(name) for name in names]


def grows(before: World, after: World) -> bool:
    """No figure of capacity is lower."""
    pairs = zip(
        numbers(capacity(before), CAPACITY), numbers(capacity(after), CAPACITY), strict=True
    )
    return all(low <= high for low, high in pairs)


def no_slower(before: World, after: World) -> bool:
    """No time is longer, but for the last digits of a float. Beside a shorter attention more of an
    exchange is seen, so that then the step is judged as a whole."""
    beside = before.degrees.attention.overlap
    names = tuple(n for n in TIMES if not (beside and n == "decode.collectives"))
    pairs = zip(numbers(estimate(before.subject), names), numbers(estimate(after.subject), names),
                strict=True)  # fmt: skip
    return all(new <= old * (1 + 1e-12) for old, new in pairs)


# --- capacity ----------------------------------------------------------------------------------


@given(worlds(), st.integers(1, 200 * GB))
def test_more_memory_never_lowers_capacity(world: World, more: int) -> None:
    assert grows(world, replace(world, memory=world.memory + more))


@given(worlds(), PERCENT)
def test_more_utilization_never_lowers_capacity(world: World, least: Fraction) -> None:
    lower = replace(world, utilization=min(least, world.utilization))
    assert grows(lower, world)


@given(worlds(), PERCENT)
def test_less_reserve_never_lowers_capacity(world: World, kept: Fraction) -> None:
    assert grows(world, replace(world, reserve=int(world.reserve * kept)))


@given(worlds())
def test_a_smaller_format_of_the_cache_never_lowers_capacity(world: World) -> None:
    for larger, smaller in pairwise(SHRINKING):
        assert grows(replace(world, kv=larger), replace(world, kv=smaller))


@given(worlds(), st.integers(2, 9))
def test_capacity_is_the_sum_over_replicas(world: World, replicas: int) -> None:
    assume(len(world.node_devices) == 1)  # where devices differ, so do the replicas
    one = replace(world, degrees=replace(world.degrees, replicas=1))
    many = replace(world, degrees=replace(world.degrees, replicas=replicas)).roomy()
    each, all_of_them = capacity(one), capacity(many)
    for name in ("kv.tokens", "kv.sequences", "gpus"):
        assert all_of_them.number(name) == replicas * each.number(name)
    for name in ("kv.tokens_per_rank", "memory.weights", "kv.copies", "kv.bytes_per_token"):
        assert all_of_them.values[name].value == each.values[name].value


@given(worlds())
def test_what_fits_in_a_holder_fits_and_one_token_more_does_not(world: World) -> None:
    found = capacity(world)
    for holder in found.capacities:
        books = [b for b in found.ledgers if any(c is b.rank for c in holder.holder.classes)]
        tokens = int(holder.tokens.value)
        stages = found.placement.stages
        whole = all(s.part.growth == "token" for stage in stages for s in stage.cache)
        if whole and all(b.room.value >= 0 for b in books):
            assert all(tokens * Fraction(b.token.value) <= b.room.value for b in books)
            assert any((tokens + 1) * Fraction(b.token.value) > b.room.value for b in books)


# --- the ledger --------------------------------------------------------------------------------


@given(worlds())
def test_the_ledger_of_every_device_adds_up_to_the_byte(world: World) -> None:
    for book in capacity(world).ledgers:
        modules = sum(Fraction(term.value) for _, term in book.modules)
        assert modules == book.weights.value
        assert modules + Fraction(book.reserve.value) + Fraction(book.room.value) == (
            book.usable.value
        )
        rest = Fraction(book.memory.value) * (1 - world.utilization)
        assert Fraction(book.usable.value) + rest == book.memory.value


@given(worlds())
def test_bytes_of_a_request_grow_with_its_length_and_by_a_token_at_the_most(world: World) -> None:
    longer = replace(world, context=world.context + 1)
    each = Fraction(capacity(world).values["kv.bytes_per_token"].value)
    before = Fraction(capacity(world).values["kv.bytes_per_request"].value)
    after = Fraction(capacity(longer).values["kv.bytes_per_request"].value)
    assert before <= after <= before + each


# --- times -------------------------------------------------------------------------------------


@few
@given(worlds(), st.integers(1, 4000 * GB))
def test_more_memory_bandwidth_never_raises_a_time(world: World, more: int) -> None:
    assert no_slower(world, replace(world, bandwidth=world.bandwidth + more))


@few
@given(worlds(), st.integers(1, 900 * GB))
def test_a_faster_link_never_raises_a_time(world: World, more: int) -> None:
    assert no_slower(world, replace(world, link=world.link + more))
    assert no_slower(world, replace(world, fabric=world.fabric + more))


@few
@given(worlds(), PERCENT)
def test_less_latency_never_raises_a_time(world: World, kept: Fraction) -> None:
    assert no_slower(world, replace(world, latency=world.latency * kept))


@few
@given(worlds(), st.integers(1, 500))
def test_more_requests_in_flight_never_lower_the_time_of_a_token(world: World, more: int) -> None:
    busier = replace(world, concurrency=world.concurrency + more)
    before, after = estimate(world.subject), estimate(busier.subject)
    assert before.number("decode.tpot") <= after.number("decode.tpot") * (1 + 1e-12)


@few
@given(worlds())
def test_the_time_of_a_token_is_no_shorter_than_any_of_its_parts(world: World) -> None:
    found = estimate(world.subject)
    tpot = found.number("decode.tpot")
    parts = [found.number(n) for n in ("decode.kv_read", "decode.collectives")]
    assert all(part <= tpot * (1 + 1e-12) for part in parts)
    assert found.number("decode.kv_read_mean") <= found.number("decode.kv_read") * (1 + 1e-12)
