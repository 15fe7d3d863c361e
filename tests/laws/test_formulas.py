"""A formula is written once: on arrays it gives, element by element, what it gives on numbers."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvdsl.costs
from kvdsl.formulas import Formula


def formulas() -> Iterator[tuple[str, Formula]]:
    for found in pkgutil.iter_modules(kvdsl.costs.__path__):
        module = importlib.import_module(f"kvdsl.costs.{found.name}")
        for name, value in vars(module).items():
            if isinstance(value, Formula) and value.function.__module__ == module.__name__:
                yield f"{found.name}.{name}", value


FORMULAS = dict(formulas())
ON_ARRAYS = list(FORMULAS)


def inputs(formula: Formula) -> list[str]:
    return list(inspect.signature(formula.function).parameters)


def on_arrays(formula: Formula, rows: list[tuple[int, ...]]) -> Any:
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    return formula(**dict(zip(inputs(formula), columns, strict=True)))


@pytest.mark.parametrize("name", ON_ARRAYS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_formula_on_arrays_is_the_formula_on_each_number(name: str, data: st.DataObject) -> None:
    formula = FORMULAS[name]
    row = st.tuples(*[st.integers(1, 10_000)] * len(inputs(formula)))
    rows = data.draw(st.lists(row, min_size=1, max_size=4))
    wanted = [float(formula(**dict(zip(inputs(formula), r, strict=True)))) for r in rows]
    assert np.asarray(on_arrays(formula, rows), dtype=float).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_names_its_inputs_in_words_and_has_a_text_and_a_source(name: str) -> None:
    formula = FORMULAS[name]
    assert formula.name
    assert formula.text
    assert formula.source
    assert inputs(formula)
