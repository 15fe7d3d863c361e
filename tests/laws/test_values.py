"""Values of an estimate are computed group by group, and are the same in whatever order they are
asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.values import Values
from kvdsl.formulas import Term
from kvdsl.planning.subjects import subject
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load
from kvdsl.resolve.resolver import Resolver

CATALOG = Catalog()
"""Read once for all tests here."""
EXAMPLES = sorted(Path("specs/examples").glob("*.kvspec"))


def estimates(path: Path) -> list[Estimate]:
    resolver = Resolver(load(str(path), CATALOG))
    found = []
    for name in resolver.concrete("deployment"):
        deployment, _ = resolver.deployment(name)
        assert deployment is not None
        for pool in deployment.pools.values():
            made, _ = subject(deployment, pool)
            assert made is not None
            found.append(estimate(made))
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_a_value_that_is_asked_alone_is_the_one_that_all_of_them_have(path: Path) -> None:
    whole = [dict(found.values) for found in estimates(path)]
    for found, values in zip(estimates(path), whole, strict=True):
        for name in reversed(values):
            assert (found.values[name].label, found.values[name].value) == (
                values[name].label, values[name].value,
            ), name  # fmt: skip
        assert list(found.values) == list(values)


def test_of_a_layout_that_is_known_by_its_memory_no_time_is_computed() -> None:
    asked: list[str] = []

    def group(name: str) -> dict[str, Term]:
        asked.append(name)
        return {name: Term(name, 1)}

    values = Values(
        (
            (("kv.tokens",), lambda: group("kv.tokens")),
            (("decode.",), lambda: group("decode.tpot")),
            (("prefill.",), dict),
        )
    )
    assert values["kv.tokens"].value == 1
    assert "prefill.ttft" not in values
    assert asked == ["kv.tokens"]
    assert "decode.ttft" not in values
    assert "gpus" not in values
    assert (list(values), len(values)) == (["kv.tokens", "decode.tpot"], 2)
    assert asked == ["kv.tokens", "decode.tpot"]
