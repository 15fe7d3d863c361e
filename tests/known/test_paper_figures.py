"""Figures of papers on sharding, formats and levers, to their tolerances. What was measured is
shown as a reference and never asked."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from kvdsl.reference.techniques_sharding import STUDIED, SYSTEMS
from tests.known.paper_answers import ANSWERS, OF_POOLS, Figure
from tests.known.published import PAPER_FIGURES

FIGURES: Mapping[str, Mapping[str, Any]] = {f["id"]: f for f in PAPER_FIGURES}
OF_OTHERS = {"dualblade", "directkv", "pykvcache", "pykvcache-preload", "specKV", "lmcache"}
"""Measured by systems of pools and tiers."""

MEASURED = {name for name, f in FIGURES.items() if f["kind"] == "measured"}


def numbers(figure: Figure) -> tuple[Fraction | float | int, ...]:
    return figure if isinstance(figure, tuple) else (figure,)


def near(got: Fraction | float | int, wanted: float, tolerance: Mapping[str, float]) -> bool:
    allowed = tolerance["abs"] if "abs" in tolerance else tolerance["rel"] * abs(wanted)
    return abs(float(got) - wanted) <= allowed


@pytest.mark.parametrize("name", ANSWERS)
def test_a_figure_of_a_paper_comes_out_as_printed(name: str) -> None:
    figure = FIGURES[name]
    printed = figure["printed"]
    got = numbers(ANSWERS[name]())
    wanted = printed if isinstance(printed, list) else [printed]
    assert len(got) == len(wanted)
    for value, expected in zip(got, wanted, strict=True):
        assert near(value, float(expected), figure["tolerance"]), f"{float(value)} for {expected}"


def test_every_figure_that_can_be_reckoned_is_answered_or_of_another_table() -> None:
    elsewhere = {name for name in FIGURES if name.startswith(OF_POOLS)}
    assert sorted(FIGURES.keys() - MEASURED - elsewhere - ANSWERS.keys()) == []
    assert sorted(ANSWERS.keys() & MEASURED) == []


def test_every_figure_stands_on_the_page_with_its_system() -> None:
    of_pools = {name for name in FIGURES if name.startswith(OF_POOLS)} | OF_OTHERS
    named = [name for system in SYSTEMS for name in (*system.reckoned, *system.quoted)]
    told = {name for name in FIGURES if name in named or name.startswith(STUDIED)}
    assert sorted(FIGURES.keys() - told - of_pools) == []
    assert sorted(name for name in named if name not in FIGURES and name not in STUDIED) == []
    reckoned = {name for system in SYSTEMS for name in system.reckoned} - set(STUDIED)
    assert reckoned <= ANSWERS.keys()
