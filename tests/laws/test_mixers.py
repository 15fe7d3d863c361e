"""Formulas of mixers with a state give what tensors and cache have, whatever their sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdsl.costs.mixers import FORMS, MIXERS, kept_values, layer_parameters
from kvdsl.formulas import Term
from kvdsl.pipeline import ask_text
from kvdsl.placement.cache import cache_parts
from kvdsl.placement.tensors import tensors
from kvdsl.planning.subjects import DEFAULT_ACTIVATIONS
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.formats import Recipe, RecipeLine
from kvdsl.spec.model import Model

SIZES: Mapping[str, tuple[str, ...]] = {
    "gated_delta": ("key_heads", "value_heads", "key_dim", "value_dim", "conv"),
    "kda": ("heads", "head_dim", "conv"),
    "lightning": ("heads", "head_dim"),
    "mamba1": ("inner", "state", "conv", "dt_rank"),
    "mamba2": ("heads", "head_dim", "groups", "state", "conv"),
    "short_conv": ("width", "conv"),
}
FLAGS: Mapping[str, tuple[str, ...]] = {
    "kda": ("full_gate",),
    "mamba1": ("bias", "conv_bias"),
    "mamba2": ("bias", "conv_bias", "norm"),
    "short_conv": ("bias",),
}


def model(form: str, sizes: list[int], flags: list[bool]) -> Model:
    values = [f"{n} = {v}" for n, v in zip(SIZES[form], sizes, strict=False)]
    values += [f"{n} = {str(v).lower()}" for n, v in zip(FLAGS.get(form, ()), flags, strict=False)]
    text = f"""kvspec 1
model m {{
  hidden = 24
  vocab = 10
  attention mixer = {form} {{ {"; ".join(values)} }}
  stack {{ 1 x layer {{ mixer }} }}
}}"""
    found, problems = Resolver(load_text(text)).declaration("m")
    assert isinstance(found, Model), problems
    return found


def test_every_form_has_formulas() -> None:
    assert set(FORMS) == set(SIZES)
    assert len(MIXERS) == len(SIZES)


@given(
    st.sampled_from(sorted(SIZES)),
    st.lists(st.integers(1, 40), min_size=5, max_size=5),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_a_formula_gives_what_is_counted(form: str, sizes: list[int], flags: list[bool]) -> None:
    made = model(form, sizes, flags)
    part = made.parts["mixer"]
    assert isinstance(part, MIXERS)
    counted = sum(t.in_all for t in tensors(made) if t.part == "mixer")
    assert layer_parameters(made, part).value == counted
    recipe = Recipe(lines=(RecipeLine(format=DEFAULT_ACTIVATIONS),))
    (kept,) = cache_parts(made, recipe)
    for component in kept.components:
        term = kept_values(made, part, component.name)
        assert term is not None
        assert term.value == component.values


@pytest.mark.parametrize("form", sorted(SIZES))
def test_explain_shows_the_formula_and_its_source(form: str) -> None:
    formula = FORMS[form].parameters
    assert formula.source != "definition"
    values = "; ".join(f"{name} = 4" for name in SIZES[form])
    text = (
        f"kvspec 1\nmodel m {{ hidden = 8; vocab = 9; attention x = {form} {{ {values} }}; "
        "stack { 2 x layer { x } } }"
    )
    state = ask_text(text, "m.state.bytes_per_request").value
    assert state is not None
    texts = [each.formula.text for each in _all(state) if each.formula is not None]
    wanted = FORMS[form].state or FORMS[form].columns
    assert wanted is not None
    assert wanted.text in texts


def _all(term: Term) -> Iterator[Term]:
    yield term
    for each in term.inputs:
        yield from _all(each)
