"""Every number knows where it came from: a chain ends at a line of a spec or of the catalog, or
says which default, assumption or definition it stands on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvdsl.formulas import Deferred, Term
from kvdsl.pipeline import ask, compile_path

EXAMPLES = sorted(Path("specs/examples").glob("*.kvspec"))
LAYOUTS = ("tp16", "two_tp8")
TOLD = frozenset({"default", "assumed", "definition"})


def orphans(values: dict[str, Term]) -> Iterator[str]:
    for name, value in values.items():
        for leaf in value.leaves():
            placed = leaf.span is not None or leaf.source is not None
            if not placed and not (leaf.basis in TOLD and leaf.note):
                yield f"{name}: {leaf.label} = {leaf.value}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_every_leaf_of_every_value_has_a_place_or_says_what_it_stands_on(path: Path) -> None:
    plans = compile_path(str(path)).plans
    assert plans
    for plan in plans:
        assert plan.values
        assert list(orphans(dict(plan.values))) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_a_value_that_is_computed_names_its_formula_with_text_and_source(path: Path) -> None:
    for plan in compile_path(str(path)).plans:
        waiting = list(plan.values.values())
        seen = set()
        while waiting:
            term = waiting.pop()
            if id(term) in seen:
                continue
            seen.add(id(term))
            waiting.extend(term.inputs)
            if term.formula is not None:
                assert term.formula.text
                assert term.formula.source
        assert len(seen) > len(plan.values)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_a_chain_that_is_derived_when_asked_ends_in_the_value_that_was_known_before(
    path: Path,
) -> None:
    found = 0
    for plan in compile_path(str(path)).plans:
        waiting = list(plan.values.values())
        seen: set[int] = set()
        while waiting:
            term = waiting.pop()
            if id(term) in seen:
                continue
            seen.add(id(term))
            waiting.extend(term.inputs)
            if isinstance(term, Deferred):
                later = term.derived()
                assert (later.value, later.dimension) == (term.value, term.dimension), term.label
                assert (later.basis, later.span, later.source) == ("derived", None, None)
                found += 1
    assert found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_what_is_assumed_is_known_before_a_chain_is_derived(path: Path) -> None:
    for plan in compile_path(str(path)).plans:
        for name, value in plan.values.items():
            before = [(leaf.label, leaf.note) for leaf in value.assumptions()]
            found = (leaf for leaf in value.leaves() if leaf.basis == "assumed")
            after = [(leaf.label, leaf.note) for leaf in found]
            assert list(dict.fromkeys(before)) == list(dict.fromkeys(after)), name


@pytest.mark.parametrize("model", ["models.llama_3_1_405b", "models.deepseek_v3"])
def test_the_values_of_a_model_alone_have_a_place_too(model: str) -> None:
    values = ask(str(EXAMPLES[0]), model).values
    assert values
    assert list(orphans(dict(values))) == []
