"""Laws of collective times: physics that no constant may break."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdsl.costs.libraries import price, refusal
from kvdsl.costs.message import Message
from kvdsl.costs.routes import Route, route
from kvdsl.formulas import Deferred, Term
from kvdsl.pipeline import quoter
from kvdsl.placement.topology import topology
from kvdsl.planning.quotes import Question, Refused
from kvdsl.spec.hardware import Cluster, Node, Rack, Selection
from kvdsl.spec.library import COLLECTIVES, Library
from kvdsl.units import BYTES

TEXT = """kvspec 1
cluster two { nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }
cluster efa { nodes = 4 x nodes.aws_p5en_48xlarge; fabric = links.efa_v3 }
cluster racks2 { racks = 2 x racks.gb200_nvl72; fabric = links.infiniband_ndr }
cluster amd { nodes = 2 x nodes.oam_mi300x; fabric = links.roce_400 }
"""
SOURCE = quoter(TEXT)
HARDWARE = ("nodes.hgx_h100", "nodes.hgx_a100_80gb", "nodes.hgx_b200", "nodes.oam_mi300x",
            "racks.gb200_nvl72", "two", "efa", "racks2", "amd")  # fmt: skip
LIBRARIES = ("nccl", "rccl", "unnamed", "vllm_kernels", "sglang_kernels", "tensorrt_llm_kernels",
             "deepep", "tensorrt_llm_one_sided")  # fmt: skip

hardware = st.sampled_from(HARDWARE).map(SOURCE.declared)
library = st.sampled_from(LIBRARIES).map(lambda name: SOURCE.library(f"libraries.{name}"))
ranks = st.sampled_from((2, 3, 4, 6, 8, 16, 32))
kinds = st.sampled_from(COLLECTIVES)
sizes = st.integers(1, 2**33)


def ways(on: object, count: int) -> Route | None:
    assert isinstance(on, Node | Rack | Cluster)
    stand = topology(Selection(count=1, of=on))
    if count > stand.devices:
        return None
    places = tuple(range(count))
    return route(stand, stand.reach(places), places, None)


def message(kind: str, size: int, copies: int = 8) -> Message:
    return Message(kind, Term("bytes", size, BYTES), copies)


@settings(max_examples=150, deadline=None)
@given(on=hardware, held=library, count=ranks, kind=kinds, size=sizes, more=sizes)
def test_a_longer_message_never_takes_less_time_and_the_band_holds_the_time(
    on: object, held: Library, count: int, kind: str, size: int, more: int
) -> None:
    way = ways(on, count)
    if way is None:
        return
    for algorithm in held.algorithms.values():
        if refusal(algorithm, way, message(kind, size)) is not None:
            continue
        alone = held.model_copy(
            update={"algorithms": {"it": algorithm.model_copy(update={"limit": None})}}
        )
        short = price((alone,), way, message(kind, size))
        long = price((alone,), way, message(kind, size + more))
        assert short is not None
        assert long is not None
        assert 0 < short.low <= short.time.value <= short.high
        assert short.time.value <= long.time.value


@settings(max_examples=100, deadline=None)
@given(on=hardware, held=library, count=ranks, kind=kinds, size=sizes, copies=st.integers(1, 16),
       tokens=st.integers(1, 8192), width=st.sampled_from((128, 2880, 7168)))  # fmt: skip
def test_a_time_is_known_to_be_what_its_chain_derives(
    on: object, held: Library, count: int, kind: str, size: int, copies: int, tokens: int,
    width: int,
) -> None:  # fmt: skip
    way = ways(on, count)
    asked = replace(message(kind, size, copies), tokens=Term("tokens", tokens), width=width)
    if way is None or (found := price((held,), way, asked)) is None:
        return
    for time in (found.time, *(each.time for each in found.chosen)):
        assert isinstance(time, Deferred)
        assert time.derived().value == time.value


@settings(max_examples=100, deadline=None)
@given(on=hardware, held=library, count=ranks, kind=kinds, size=sizes,
       faster=st.integers(11, 40))  # fmt: skip
def test_a_faster_wire_never_raises_a_time(
    on: object, held: Library, count: int, kind: str, size: int, faster: int
) -> None:
    way = ways(on, count)
    if way is None or (before := price((held,), way, message(kind, size))) is None:
        return
    for name in ("wire", "network"):
        term = getattr(way, name)
        if term is not None:
            quick = replace(term, value=Fraction(term.value) * faster / 10)
            after = price((held,), replace(way, **{name: quick}), message(kind, size))
            assert after is not None
            assert after.time.value <= before.time.value


@settings(max_examples=60, deadline=None)
@given(on=st.sampled_from(HARDWARE), held=st.sampled_from(LIBRARIES), count=ranks, kind=kinds,
       many=st.lists(sizes, min_size=1, max_size=5))  # fmt: skip
def test_an_array_of_sizes_is_each_size_by_itself(
    on: str, held: str, count: int, kind: str, many: list[int]
) -> None:
    names = (f"libraries.{held}", "libraries.nccl")
    try:
        singles = [SOURCE.quote(on, Question(kind, count, size, copies=4), names) for size in many]
    except Refused:
        return
    asked = Question(kind, count, np.array(many, dtype=float), copies=4)
    found = SOURCE.quote(on, asked, names)
    assert list(found.time) == pytest.approx([each.time for each in singles])
    assert list(found.low) == pytest.approx([each.low for each in singles])
    assert list(found.high) == pytest.approx([each.high for each in singles])
