"""Laws of a difference: with itself a plan has none, and backwards it is the other way round."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from kvdsl.project.loader import load_text
from kvdsl.review.review import difference
from kvdsl.review.sides import Side, Sketches
from kvdsl.sketches import sketched
from tests.silly import CASES

NAMES = sorted(CASES)[::4]


@cache
def sketches(name: str) -> Sketches:
    return sketched(load_text(CASES[name].text, "a.kvspec"))


def side(name: str) -> Side:
    return Side(name, {"a.kvspec": sketches(name)})


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_and_itself_have_nothing_apart(name: str) -> None:
    again = Side("again", {"a.kvspec": sketched(load_text(CASES[name].text, "a.kvspec"))})
    made = difference(side(name), again)
    assert made.deployments == ()
    assert made.figures == ()
    assert made.unchanged == len(sketches(name).plans)


PAIRS = list(pairwise(NAMES))


@pytest.mark.parametrize(("one", "other"), PAIRS[::3])
def test_backwards_every_change_is_the_other_way_round(one: str, other: str) -> None:
    there, back = difference(side(one), side(other)), difference(side(other), side(one))
    opposite = {"~": "~", "+": "-", "-": "+"}
    turned = {"better": "worse", "worse": "better", "neutral": "neutral"}
    first = {(c.name, v.name): v for c in there.deployments for v in c.values}
    second = {(c.name, v.name): v for c in back.deployments for v in c.values}
    for key in first.keys() & second.keys():
        assert (first[key].before, first[key].after) == (second[key].after, second[key].before)
        assert first[key].worth == turned[second[key].worth]
    for a, b in zip(there.deployments, back.deployments, strict=False):
        if a.name == b.name and a.state == "changed":
            forward = {(opposite[s.sign], s.path, s.after, s.before) for s in a.spec}
            assert forward == {(s.sign, s.path, s.before, s.after) for s in b.spec}
