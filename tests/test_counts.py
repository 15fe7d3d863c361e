"""Counts with their nouns, as messages and reports print them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvdsl.units import BYTES, NONE, TIME, TOKENS, Dimension, Numeral, Quantity, counted, shown


@pytest.mark.parametrize(
    ("number", "nouns", "told"),
    [
        (1, "query heads", "1 query head"),
        (8, "query heads", "8 query heads"),
        (0, "ranks", "0 ranks"),
        (1, "copies", "1 copy"),
        (2, "copies", "2 copies"),
        (1, "micro-batches", "1 micro-batch"),
        (1, "boxes", "1 box"),
        (1, "times", "once"),
        (3, "times", "3 times"),
        (1_402_348, "tokens", "1,402,348 tokens"),
        (Fraction(3, 2), "ranks", "1.5 ranks"),
        ("1", "GPUs", "1 GPU"),
        ("16", "GPUs", "16 GPUs"),
    ],
)
def test_a_count_agrees_with_its_noun(number: int | Fraction | str, nouns: str, told: str) -> None:
    assert counted(number, nouns) == told


def test_a_template_puts_the_noun_behind_its_fact() -> None:
    facts = {"heads": Numeral("1"), "tp": Numeral("16")}
    template = "{heads:KV heads} over {tp:ranks}, TP={tp}"
    assert template.format_map(facts) == "1 KV head over 16 ranks, TP=16"


@pytest.mark.parametrize(
    ("value", "dimension", "told"),
    [
        (10**18 - 1, TOKENS, "999,999,999,999,999,999 tok"),
        (10**25, TOKENS, "1e25 tok"),
        (-(10**25), NONE, "-1e25"),
        (516_096 * 10**25, BYTES, "5.161e15 PB"),
        (99_996 * 10**25, NONE, "1e30"),
        (10**400, NONE, "1e400"),
        (Fraction(10**25, 3), NONE, "3.333e24"),
        (1e20, TIME, "1e20 s"),
        (float("inf"), TIME, "inf s"),
    ],
)
def test_an_absurd_figure_is_rounded(
    value: int | Fraction | float, dimension: Dimension, told: str
) -> None:
    assert shown(Quantity(value, dimension)) == told
