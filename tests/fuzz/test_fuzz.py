"""A share of the fuzz run that `make fuzz` does in full: the same texts, the first of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kvdsl.pipeline import compile_text
from tests.fuzz.campaign import MOST_MEMORY, corpus, run, texts
from tests.fuzz.commands import LINES
from tests.fuzz.figures import Class, Figures, table, united
from tests.fuzz.growth import DEPLOYED, KINDS, deployed, planning_steps, steps
from tests.fuzz.shrinking import shrunk
from tests.fuzz.specs import spec
from tests.silly.case import Case

SHARES = tuple(range(0, 600, 100))


@pytest.mark.parametrize("first", SHARES)
def test_no_text_breaks_kvdsl(first: int) -> None:
    figures = run(seed=1, runs=100, first=first)
    told = "\n".join(f"text {b.number}: {b.trace}\n{b.text}" for b in figures.broke.values())
    assert not figures.broke, told
    assert figures.texts == 100
    assert figures.memory < MOST_MEMORY


def test_a_text_can_be_made_again_by_its_number() -> None:
    base = corpus()
    ((_, alone),) = texts(1, 17, 1, base)
    assert alone == dict(texts(1, 0, 20, base))[17]


def test_many_of_the_drawn_specs_are_planned() -> None:
    """A generator whose specs are all refused would test nothing behind the resolver."""
    plans = [plan for n in range(40) for plan in compile_text(spec(Random(n))).plans]
    assert sum(not plan.unplanned for plan in plans) >= 6


@pytest.mark.parametrize("name", LINES)
def test_a_sound_text_goes_through_every_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Case(rest="sweep { layout.tp = [1, 2]; show = [kv.tokens] }").text
    monkeypatch.chdir(tmp_path)
    for file in ("a.kvspec", "b.kvspec"):
        Path(file).write_text(text, encoding="utf-8")
    for seed in range(4):
        LINES[name](Random(seed), text)


def test_a_text_that_breaks_something_is_cut_down_to_what_does() -> None:
    text = "kvspec 1\n" + "".join(f"layout l{n} {{ tp = {n}; pp = 1 }}\n" for n in range(40))
    assert shrunk(text, lambda less: "tp = 17" in less) == "tp = 17"


def test_figures_of_several_processes_are_added_up() -> None:
    parts = [run(seed=2, runs=5, first=first) for first in (0, 5)]
    whole = united(parts)
    ended = [whole.steps[step] for step in ("diagnosed", "clean", "broke kvdsl")]
    assert whole.texts == sum(ended) == 10
    assert whole.characters == sum(len(text) for _, text in texts(2, 0, 10, corpus()))
    assert sum(each.texts for each in whole.classes.values()) == 10


@pytest.mark.parametrize("exponent", [1, 2])
def test_growth_is_the_exponent_of_time_over_size(exponent: int) -> None:
    classes = {n: Class(10, 10 * 2**n, 10 * (2**n) ** exponent * 1e-6) for n in range(8, 14)}
    assert Figures(classes=classes).growth == pytest.approx(exponent)
    assert Figures(classes={10: Class(10, 10_000, 1.0)}).growth is None


def test_a_table_tells_what_became_of_the_texts() -> None:
    figures = Figures()
    figures.walked("kvspec 1\n", ["clean", "planned"], check=0.001, whole=0.25)
    told = table(figures, 0.5)
    assert "texts                    1   9 characters" in told
    assert "  planned                1   100.0%" in told
    assert "slowest text        0.25 s   of 9 characters, all its steps" in told


@pytest.mark.parametrize("kind", KINDS)
def test_time_is_linear_in_the_text(kind: str) -> None:
    """Counted in calls, which no other process on the machine changes."""
    make = KINDS[kind]
    steps(make(10))  # what is read once for all texts
    some, twice = steps(make(400)), steps(make(800))
    assert twice < 2.3 * some, f"{some:,} calls for a text, {twice:,} for one twice as long"


@pytest.mark.parametrize("kind", DEPLOYED)
def test_a_plan_is_linear_in_what_is_deployed(kind: str) -> None:
    make = DEPLOYED[kind]
    planning_steps(make(2))
    some, twice = planning_steps(make(20)), planning_steps(make(40))
    assert twice < 2.3 * some, f"{some:,} calls for 20, {twice:,} for 40"


def test_a_pattern_costs_what_its_layers_do_however_often_it_comes() -> None:
    pattern = "{many} x pattern {{ layer {{ a; f }}; layer {{ b; f }} }}"
    planning_steps(deployed(pattern.format(many=4)))
    some, many = (planning_steps(deployed(pattern.format(many=n))) for n in (4, 400))
    assert many < 1.3 * some, f"{some:,} calls for 8 layers, {many:,} for 800"


def test_a_rate_is_solved_in_a_few_steps() -> None:
    given = planning_steps(
        deployed(workload="prompt = 1 ktok; output = 1 ktok; concurrency = 9 req")
    )
    asked = planning_steps(deployed(workload="prompt = 1 ktok; output = 1 ktok; rate = 1 req/s"))
    assert asked < 2 * given, f"{given:,} calls where the number is given, {asked:,} for a rate"
