"""Names that other tools have for attributes lead to attributes that there are."""

from __future__ import annotations

import pytest

from kvdsl.resolve import foreign_names
from kvdsl.resolve.foreign_names import elsewhere, homes, own_name
from kvdsl.resolve.schema import KINDS, schema_of
from kvdsl.spec.layout import Layout
from kvdsl.spec.model import FORMS, Model


def test_every_own_name_is_an_attribute_of_some_declaration() -> None:
    own = set(foreign_names._CALLED)
    assert [name for name in sorted(own) if not list(elsewhere(name, "…"))] == []
    forms = {form for every in FORMS.values() for form in every}
    assert {form for form, _ in foreign_names.FORM_NAMES.values()} <= forms


def test_no_name_of_another_tool_is_listed_twice() -> None:
    names = [name for said in foreign_names._CALLED.values() for name in said.split()]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("kind", KINDS)
def test_no_attribute_of_a_block_is_called_otherwise_in_it(kind: str) -> None:
    """`nodes` is an attribute of a cluster; only a block without one is told of `on`."""
    for name in schema_of(KINDS[kind]).names:
        assert name not in homes(KINDS[kind], own_name(name), "1")


def test_an_attribute_is_written_in_the_block_where_it_stands() -> None:
    assert next(homes(Layout, own_name("tensor_parallel_size"), "8")) == "tp = 8"
    assert next(homes(Layout, own_name("data-parallel-size"), "8")) == "attention { dp = 8 }"
    written = next(homes(Model, own_name("num_key_value_heads"), "8"))
    assert written == "attention NAME = gqa { kv_heads = 8 }"
    assert list(homes(Layout, own_name("hidden_size"), "8")) == []
    assert next(elsewhere("hidden", "8")) == ("model", "hidden = 8")
