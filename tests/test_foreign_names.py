"""Names that other tools have for attributes lead to attributes that there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from kvdsl.diagnostics import Diagnostic
from kvdsl.project.loader import load_text
from kvdsl.resolve import foreign_names
from kvdsl.resolve.foreign_names import elsewhere, homes, own_name
from kvdsl.resolve.resolver import Resolver
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


WHOLE = """deployment prod{number} {{
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   {{ tp = 8 }}
  budget   {{ reserve = 3 GB }}
  workload {{ prompt = 4 ktok; output = 512 tok; concurrency = 8 req }}
}}
"""
"""A deployment with nothing wrong in it, to put advice into."""

PLACES = ("{number} {{", "layout   {{", "budget   {{", "workload {{")
VALUES = ("8", '"fp8"')
BESIDE = ("KV028", "KV035", "KV044", "KV060", "KV061", "KV062", "KV063")
"""What stands there already stands twice with the advice, or what is beside it in a block is left
out, or the value was too large before: no faults of the advice."""


def told(place: str, lines: Sequence[str]) -> dict[str, list[Diagnostic]]:
    """What is told of each line, put into a deployment of its own."""
    text = "kvspec 1\n"
    at: dict[int, str] = {}
    for number, line in enumerate(lines):
        whole = WHOLE.replace(place, f"{place}\n@\n").format(number=number)
        at[text.count("\n") + whole[: whole.index("@")].count("\n") + 1] = line
        text += whole.replace("@", line)
    found: dict[str, list[Diagnostic]] = {line: [] for line in lines}
    for problem in Resolver(load_text(text, "a.kvspec", Path())).check():
        if problem.span.line in at:
            found[at[problem.span.line]].append(problem)
    return found


def advised(problems: Iterable[Diagnostic]) -> str | None:
    """What a help says to write, where it says all of it."""
    unknown = (problem for problem in problems if problem.code == "KV027")
    for line in (each for problem in unknown for each in problem.helps):
        found = re.search(r"write (?:it in its block: )?`([^`]+)`$", line)
        if found and "…" not in found[1] and "NAME" not in found[1]:
            return found[1]
    return None


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_advised_for_a_name_of_another_tool_can_be_written(place: str, value: str) -> None:
    """The name with a value of the other tool gets advice, and the advice has no fault."""
    faulty = told(place, [f"{foreign} = {value}" for foreign in foreign_names._OWN])
    advice = {w: line for line, problems in faulty.items() if (w := advised(problems))}
    assert advice or value == VALUES[1]
    bad = {
        f"{advice[line]} -> {line}": [p.headline for p in problems if p.code not in BESIDE]
        for line, problems in told(place, list(advice)).items()
    }
    assert {line: said for line, said in bad.items() if said} == {}
