"""`--threshold` and `--fail-on`: words of the command line about how much is a change.

Comes in: words. Goes out: what `review` asks. Not its job: comparing anything (review).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kvdsl.render.characters import safe
from kvdsl.spelling import nearest

if TYPE_CHECKING:
    from kvdsl.review.thresholds import Asked, Threshold

GROUPS = ("regression", "requirement", "error")
_LIMIT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*(\S*)")


def asked_of(thresholds: Sequence[str], fails: Sequence[str]) -> Asked:
    """Raises a usage error where a word is not understood."""
    from kvdsl.difference import WATCHED
    from kvdsl.review.thresholds import TELLING, Asked, Threshold

    everywhere, single = TELLING, {}
    for text in thresholds:
        name, equals, limit = text.rpartition("=")
        if equals:
            single[_known(name.strip(), "--threshold")] = _limit(limit, "--threshold")
        else:
            everywhere = _limit(text, "--threshold")
    failing: dict[str, Threshold] = {}
    groups = set()
    for text in fails:
        name, equals, limit = text.partition("=")
        if name in GROUPS and not equals:
            groups.add(name)
        else:
            reached = _limit(limit, "--fail-on") if equals else Threshold()
            failing[_known(name.strip(), "--fail-on")] = reached
    if "regression" in groups and not failing:
        failing = dict.fromkeys(WATCHED, Threshold())
    whole = "regression" in groups
    return Asked(
        everywhere,
        single,
        failing,
        fails_broken=whole or "requirement" in groups,
        fails_findings=whole or "error" in groups,
    )


def _known(name: str, option: str) -> str:
    from kvdsl.spec.vocabulary import VOCABULARY, asked

    if asked(name) is None:
        from kvdsl.resolve.foreign_names import answered_name

        meant = answered_name(name)[0]
        near = (meant,) if meant else nearest(name, (*VOCABULARY, *GROUPS), most=1)
        words = f"; it is {', '.join(GROUPS)} or a value" if option == "--fail-on" else "; name one"
        hint = f"; did you mean `{near[0]}`?" if near else f"{words} such as `decode.tpot`"
        raise click.BadParameter(f"no plan has a value `{safe(name)}`{hint}", param_hint=option)
    return name


def _limit(text: str, option: str) -> Threshold:
    """`5 %`, `5%`, `1 ms`, `1ms`, `100`."""
    from fractions import Fraction

    from kvdsl.review.thresholds import Threshold
    from kvdsl.units import Quantity

    found = _LIMIT.fullmatch(text.strip())
    if found is not None:
        number, unit = Fraction(found[1].replace("_", "")), found[2]
        if unit == "%":
            return Threshold(part=number / 100)
        try:
            return Threshold(amount=Quantity.of(number, unit) if unit else Quantity(number))
        except KeyError:
            pass
    raise click.BadParameter(
        f"`{safe(text)}` is no threshold; write `5 %` or an amount such as `1 ms`",
        param_hint=option,
    )
