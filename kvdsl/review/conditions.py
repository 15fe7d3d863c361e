"""Conditions of two plans, paired: what a deployment requires of itself, and what policies want.

Comes in: two plans. Goes out: flips. A condition is the same on both sides where its words are, its
label is, or, where one of the two has none, what it asks and how it compares: another bound is no
other condition. Not its job: findings (review), words (render).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvdsl.difference import Flip, Standing
from kvdsl.plan import Agreed, Plan, RequirementResult

Result = RequirementResult
Pairing = tuple[Result | None, Result | None]


def flips(before: Plan | None, after: Plan | None) -> Iterator[Flip]:
    """Requirements that are judged otherwise, and those that fail."""
    for one, two in paired(
        before.requirements if before else (), after.requirements if after else ()
    ):
        first, last = standing(one), standing(two)
        if first == last and first not in ("fails", "unanswered", "waived"):
            continue
        if two is None and first != "fails":
            continue  # a requirement that held and is no longer asked is a change of the spec
        if one is None and last in ("holds", "skipped"):
            continue
        yield flip(one, two)


def agreed_flips(before: Plan | None, after: Plan | None) -> tuple[Flip, ...]:
    """What policies want of a deployment on either side, judged on both."""
    sides = [plan.agreed if plan else () for plan in (before, after)]
    found: list[Flip] = []
    for policy in dict.fromkeys(each.policy for side in reversed(sides) for each in side):
        old, new = ([each.result for each in side if each.policy == policy] for side in sides)
        found += (flip(one, two, policy) for one, two in paired(old, new))
    return tuple(found)


def same_condition(agreed: Agreed, flip: Flip, *, after: bool) -> bool:
    """Whether a flip is of that condition, as it reads on one of the sides."""
    place = flip.place if after else flip.place_before
    return (agreed.policy, str(agreed.result.span)) == (flip.policy, place)


def flip(one: Result | None, two: Result | None, policy: str = "") -> Flip:
    told = two or one
    assert told is not None
    return Flip(
        told.keyword,
        told.text,
        told.label,
        told.because,
        standing(one),
        standing(two),
        one.value if one else None,
        two.value if two else None,
        told.bound,
        str(told.span),
        one.bound if one else None,
        alike=one is None or two is None or one.name == two.name,
        waived=two.waived if two else "",
        policy=policy,
        text_before=one.text if one else "",
        place_before=str(one.span) if one else "",
    )


def standing(result: Result | None) -> Standing | None:
    if result is None:
        return None
    return "waived" if result.waived else result.status


def paired(old: Sequence[Result], new: Sequence[Result]) -> list[Pairing]:
    """Those of the new side in their order, each with its own of the old one, then the rest."""
    left = list(old)
    found: dict[int, Result] = {}
    for alike in _ALIKE:
        for number, two in enumerate(new):
            if number in found:
                continue
            same = next(
                (one for one in left if one.keyword == two.keyword and alike(one, two)), None
            )
            if same is not None:
                left.remove(same)
                found[number] = same
    pairs: list[Pairing] = [(found.get(number), two) for number, two in enumerate(new)]
    return [*pairs, *((one, None) for one in left)]


def _unlabelled(one: Result, two: Result) -> bool:
    return not (one.label and two.label)


def _asked(result: Result) -> tuple[str, str]:
    return result.name, result.operator


_ALIKE: tuple[Callable[[Result, Result], bool], ...] = (
    lambda one, two: one.label == two.label and one.text == two.text,
    lambda one, two: bool(one.label) and one.label == two.label,
    lambda one, two: _unlabelled(one, two) and one.text == two.text,
    lambda one, two: _unlabelled(one, two) and bool(one.operator) and _asked(one) == _asked(two),
)
"""When two conditions are one, the surest first."""
