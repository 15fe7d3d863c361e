"""Which terms are told to have moved a value."""

from __future__ import annotations

from kvdsl.formulas import Term, formula, total
from kvdsl.review.movers import movers
from kvdsl.units import NONE


@formula("holders x tokens in each", NONE)
def held(holders: int, each: int) -> int:
    return holders * each


def capacity(holders: int, room: int) -> Term:
    each = total("tokens in each", [Term("room", room, NONE), Term("more", 1, NONE)])
    return held.derive("tokens", holders=Term("holders", holders, NONE), each=each)


def test_what_takes_back_a_doubling_is_told_beside_it() -> None:
    told = [
        (m.label, m.before.value, m.after.value) for m in movers(capacity(2, 99), capacity(4, 69))
    ]
    assert told == [("holders", 2, 4), ("tokens in each", 100, 70), ("room", 99, 69)]


def test_an_input_that_hardly_moved_is_not_told() -> None:
    told = [m.label for m in movers(capacity(2, 99), capacity(4, 97))]
    assert told == ["holders"]
