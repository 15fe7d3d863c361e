"""Who had a device first, against the same told device by device."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kvdsl.planning.ranges import Ranges

RUNS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.sampled_from("abcd")))


@given(RUNS)
def test_a_run_is_told_what_others_had_of_it_before(runs: list[tuple[int, int, str]]) -> None:
    known, owners = Ranges(), dict[int, str]()
    for start, many, name in runs:
        devices = range(start, start + many)
        before = Counter(owners[each] for each in devices if each in owners)
        assert +known.take(start, start + many, name) == before
        for each in devices:
            owners.setdefault(each, name)
