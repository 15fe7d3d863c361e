"""What is handed over between two pools: more of anything never makes a user wait longer, and no
byte is lost or made on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.transfer import Handover, handover
from kvdsl.spec.deployment import Pool, Transfer
from kvdsl.spec.formats import Format
from kvdsl.spec.hardware import Link
from tests.laws.worlds import BF16, GB, SHRINKING, World, degrees, models, worlds

few = settings(max_examples=40)
SPEEDS = st.none() | st.integers(1, 2000).map(lambda n: n * GB)
LATENCIES = st.none() | st.fractions(0, Fraction(1, 1000))


@dataclass(frozen=True)
class Pair:
    """Two pools of one model."""

    sender: Estimate
    receiver: Estimate

    def move(self, transfer: Transfer) -> Handover:
        return handover(transfer, self.sender, self.receiver)


def pool(world: World, role: Literal["prefill", "decode"]) -> Estimate:
    return estimate(replace(world.subject, pool=Pool(role=role)))


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    first = draw(worlds())
    model = draw(st.just(first.model) | models())
    first = replace(first, model=model, degrees=draw(degrees(model))).roomy()
    second = replace(first, degrees=draw(degrees(model))).roomy()
    return Pair(pool(first, "prefill"), pool(second, "decode"))


@st.composite
def transfers(draw: st.DrawFn) -> Transfer:
    form = draw(st.sampled_from((None, *SHRINKING)))
    if draw(st.booleans()):
        ratio = draw(st.fractions(1, 4))
        form = Format(name="coded", of=form or BF16, ratio=ratio,
                      encode=draw(SPEEDS),
                      decode=draw(SPEEDS))  # fmt: skip
    return Transfer(
        over=Link(name="wire", bandwidth=draw(st.integers(1, 1000)) * GB, latency=draw(LATENCIES)),
        lanes=draw(st.none() | st.integers(1, 16)),
        format=form,
        overlap=draw(st.sampled_from(("none", "layerwise"))),
        pipelined=draw(st.booleans()),
        setup=draw(st.none() | st.just(Fraction(1, 1000))),
    )


def seen(found: Handover) -> float:
    return float(found.visible.value)


def no_longer(before: Handover, after: Handover) -> bool:
    """But for the last digits of a float."""
    return seen(after) <= seen(before) * (1 + 1e-12)


@few
@given(pairs(), transfers(), st.integers(1, 1000))
def test_a_faster_link_never_shows_more_of_the_transfer(
    pair: Pair, transfer: Transfer, more: int
) -> None:
    link = transfer.over
    quick = link.model_copy(update={"bandwidth": link.bandwidth + more * GB})
    near = quick.model_copy(update={"latency": 0})
    for faster in (quick, near):
        assert no_longer(
            pair.move(transfer), pair.move(transfer.model_copy(update={"over": faster}))
        )


@few
@given(pairs(), transfers(), st.integers(1, 8))
def test_more_lanes_never_show_more_of_the_transfer(
    pair: Pair, transfer: Transfer, more: int
) -> None:
    found = pair.move(transfer)
    lanes = int(-(-Fraction(found.lanes.value) // 1)) + more
    wider = pair.move(transfer.model_copy(update={"lanes": lanes}))
    assert no_longer(found, wider)
    assert wider.present.value >= found.present.value or transfer.lanes is None


@few
@given(pairs(), transfers())
def test_a_smaller_format_never_shows_more_of_the_transfer(pair: Pair, transfer: Transfer) -> None:
    forms = [pair.move(transfer.model_copy(update={"format": form})) for form in SHRINKING]
    for before, after in pairwise(forms):
        assert after.size.value <= before.size.value
        assert no_longer(before, after)


@few
@given(pairs(), transfers())
def test_more_overlap_never_shows_more_of_the_transfer(pair: Pair, transfer: Transfer) -> None:
    for changes in ({"overlap": "layerwise"}, {"pipelined": True}):
        assert no_longer(pair.move(transfer), pair.move(transfer.model_copy(update=changes)))


@few
@given(pairs(), transfers())
def test_what_is_seen_is_a_part_of_the_whole(pair: Pair, transfer: Transfer) -> None:
    found = pair.move(transfer)
    assert 0 <= seen(found) <= float(found.whole.value) * (1 + 1e-12)


@few
@given(pairs(), transfers())
def test_every_byte_is_sent_once_for_each_device_that_holds_it(
    pair: Pair, transfer: Transfer
) -> None:
    found = pair.move(transfer.model_copy(update={"format": None}))
    assert sum(Fraction(m.size.value) for m in found.parts) == found.size.value
    assert sum(Fraction(m.one.value) for m in found.parts) == found.one.value
    for moved in found.parts:
        assert moved.size.value == moved.one.value * moved.copies
        assert moved.copies >= 1
    # What decode holds of a prompt on the devices of one request is what was sent to them.
    copies = Fraction(pair.receiver.values["kv.copies"].value)
    even = all(part.even for part in pair.receiver.placement.parts)
    if even and found.one.value:
        assert Fraction(found.size.value) / Fraction(found.one.value) == copies


@few
@given(pairs(), transfers())
def test_all_requests_together_have_as_many_lanes_as_the_smaller_side(
    pair: Pair, transfer: Transfer
) -> None:
    found = pair.move(transfer.model_copy(update={"lanes": None}))
    each = Fraction(transfer.over.bandwidth)
    sides = [Fraction(p.values["gpus"].value) for p in (pair.sender, pair.receiver)]
    assert Fraction(found.present.value) == each * min(sides)
