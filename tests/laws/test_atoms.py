"""The one rule: `n` atoms over `a` ranks are max(1, n / a) on each, and max(1, a / n) copies."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kvdsl.placement.atoms import Cut

SIZES = st.integers(1, 24)


@st.composite
def even_cuts(draw: st.DrawFn) -> Cut:
    """Atoms that the axis divides, an axis that the atoms divide, or no atoms at all."""
    small, times = draw(SIZES), draw(SIZES)
    atoms, size = draw(st.sampled_from(((small, small * times), (small * times, small))))
    return Cut("heads", draw(st.sampled_from((atoms, None))), "tp", size)


@given(even_cuts())
def test_what_each_rank_holds_times_the_ranks_is_the_copies(cut: Cut) -> None:
    assert cut.even
    assert cut.held * cut.size == cut.copies
    if cut.atoms is not None:
        assert cut.held == max(Fraction(1), Fraction(cut.atoms, cut.size)) / cut.atoms
        assert cut.copies == max(Fraction(1), Fraction(cut.size, cut.atoms))


@given(even_cuts())
def test_the_runs_of_the_ranks_tile_the_dimension_once_a_copy(cut: Cut) -> None:
    runs = [cut.atoms_of(coordinate) for coordinate in range(cut.size)]
    assert all(end - start == cut.held for start, end in runs)
    held = Counter(runs)
    apart = sorted(held)
    assert [start for start, _ in apart] == [k * cut.held for k in range(len(apart))]
    assert apart[-1][1] == 1
    assert set(held.values()) == {cut.copies}


@given(even_cuts())
def test_neighbours_on_an_axis_hold_neighbouring_runs(cut: Cut) -> None:
    runs = [cut.atoms_of(coordinate) for coordinate in range(cut.size)]
    assert runs == sorted(runs)


@given(SIZES, SIZES)
def test_a_cut_is_even_where_one_divides_the_other(atoms: int, size: int) -> None:
    even = atoms % size == 0 or size % atoms == 0
    assert Cut("heads", atoms, "tp", size).even is even
