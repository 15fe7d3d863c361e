"""Parameters of the catalog's models, group by group, as transformers counts published configs."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from kvdsl.pipeline import ask
from kvdsl.planning.models import model_values
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.model import Model
from tests.known.published import HERE


def counted() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    lines = (HERE / "data" / "parameter_counts.csv").read_text("utf-8").splitlines()
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        found.setdefault(row["name"], {})[row["group"]] = int(row["parameters"])
    return found


COUNTED = counted()
CATALOG = Catalog()


@cache
def resolver() -> Resolver:
    return Resolver(load_text("kvspec 1\n", catalog=CATALOG))


def parameters(name: str) -> Mapping[str, int]:
    """The groups of a catalog model and their total, as kvdsl counts them."""
    model, problems = resolver().declaration(f"models.{name}")
    assert isinstance(model, Model), problems
    found = {"total": 0}
    for dotted, term in model_values(model).items():
        head, _, group = dotted.partition(".")
        if head == "parameters" and group != "mtp":  # what no count of the classes has
            value = Fraction(term.value)
            assert value.denominator == 1
            found[group or "total"] = int(value)
    return found


@pytest.mark.parametrize("name", COUNTED)
def test_every_group_of_a_model_counts_what_its_checkpoint_stores(name: str) -> None:
    assert parameters(name) == COUNTED[name]


@pytest.mark.parametrize("name", COUNTED)
def test_the_groups_of_a_count_add_up_to_its_total(name: str) -> None:
    groups = dict(COUNTED[name])
    assert groups.pop("total") == sum(groups.values())


def test_no_model_of_the_catalog_goes_without_a_count() -> None:
    assert sorted(COUNTED) == sorted(CATALOG.names("models"))


@pytest.mark.parametrize("group", [*COUNTED["deepseek_v3"]])
def test_a_count_can_be_asked_by_its_dotted_name(group: str, tmp_path: Path) -> None:
    spec = tmp_path / "empty.kvspec"
    spec.write_text("kvspec 1\n", "utf-8")
    name = "models.deepseek_v3.parameters" + ("" if group == "total" else f".{group}")
    found = ask(str(spec), name)
    assert found.value is not None
    assert found.value.value == COUNTED["deepseek_v3"][group]


@pytest.mark.parametrize(
    ("name", "drafts"),
    [
        # One MoE layer, the projection of two hidden states and three norms: DeepSeek-V3 technical
        # report, section 2.2. The repository's 684,531,386,000 stored elements are these, copies of
        # embedding and head (2 x 129,280 x 7,168) and 41,540,496 scales beside 671,026,419,200.
        ("deepseek_v3", 11_507_286_272 + 2 * 7168 * 7168 + 3 * 7168),
        ("deepseek_r1", 11_507_286_272 + 2 * 7168 * 7168 + 3 * 7168),
    ],
)
def test_draft_layers_are_counted_apart(name: str, drafts: int) -> None:
    model, _ = resolver().declaration(f"models.{name}")
    assert isinstance(model, Model)
    values = model_values(model)
    assert values["parameters.mtp"].value == drafts
    assert values["parameters"].value == COUNTED[name]["total"]
    copies, scales = 2 * 129_280 * 7168, 41_540_496
    assert COUNTED[name]["total"] + drafts + copies + scales == 684_531_386_000
