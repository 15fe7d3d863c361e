"""Configs of other classes than those published in `data/configs`: the total is the class's own.

Each line of `data/class_counts.jsonl` is a config in the keys of its class, with sizes that models
of the class have, and the number of elements of that class's model as transformers 5.24.0 makes it
on the meta device: parameters, a tied tensor once, and persistent buffers, without towers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvdsl.planning.models import model_values
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.imported import proved
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.model import Model
from tests.known.published import HERE

LINES = (HERE / "data" / "class_counts.jsonl").read_text("utf-8").splitlines()
ROWS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
CLASSES = sorted({row["class"] for row in ROWS})
CATALOG = Catalog()


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row["class"] for row in ROWS])
def test_a_config_of_another_class_counts_what_the_class_makes(number: int) -> None:
    row = ROWS[number]
    found = proved(json.dumps(row["config"]), "m", "a config made for this test")
    model, problems = Resolver(load_text(found.text, catalog=CATALOG)).declaration("m")
    assert isinstance(model, Model), problems
    assert model_values(model)["parameters"].value == row["total"]


def test_no_class_is_counted_by_one_shape_alone_where_two_are_known() -> None:
    assert len(ROWS) > len(CLASSES) > 80
