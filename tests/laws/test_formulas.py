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

NUMBERS_ONLY = frozenset(
    {
        "cache.bytes_per_token_on_rank", "cache.copies",
        "collectives.all_reduce_time", "collectives.gather_time", "collectives.all_to_all_time",
        "collectives.send_time", "collectives.rank_bandwidth",
        "decode.token_throughput",
        "load.busiest_requests", "load.mean_requests", "load.middle",
        "memory.tokens_that_fit", "memory.requests_that_fit",
        "money.price_of_token",
        "passes.read_time", "passes.compute_time", "passes.product_work", "passes.attention_work",
        "passes.cache_bytes", "passes.tokens_on_fullest", "passes.causal_pairs",
        "prefill.new_tokens", "prefill.found_tokens", "prefill.queued_time",
        "prefill.rate_of_server", "prefill.prompt_throughput",
    }
)  # fmt: skip
"""Formulas that refuse arrays still: they make Fractions of what they take, or branch on it. The
list may only shrink."""


def formulas() -> Iterator[tuple[str, Formula]]:
    for found in pkgutil.iter_modules(kvdsl.costs.__path__):
        module = importlib.import_module(f"kvdsl.costs.{found.name}")
        for name, value in vars(module).items():
            if isinstance(value, Formula) and value.function.__module__ == module.__name__:
                yield f"{found.name}.{name}", value


FORMULAS = dict(formulas())
ON_ARRAYS = [name for name in FORMULAS if name not in NUMBERS_ONLY]


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


@pytest.mark.parametrize("name", sorted(NUMBERS_ONLY))
def test_a_formula_that_takes_numbers_only_refuses_an_array(name: str) -> None:
    formula = FORMULAS[name]
    count = len(inputs(formula))
    rows = [tuple(range(2, 2 + count)), tuple(range(3, 3 + count))]
    with pytest.raises((TypeError, ValueError)):
        on_arrays(formula, rows)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_names_its_inputs_in_words_and_has_a_text_and_a_source(name: str) -> None:
    formula = FORMULAS[name]
    assert formula.name
    assert formula.text
    assert formula.source
    assert inputs(formula)
