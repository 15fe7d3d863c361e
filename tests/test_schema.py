"""The published schemas of the JSON outputs, held against real output and against wrong output."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kvdsl.cli import main
from kvdsl.pipeline import compile_text
from kvdsl.render import machine
from kvdsl.render.machine_plan import plans_form
from tests.silly import CASES

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "specs" / "examples").glob("*.kvspec"))


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


PLAN, FINDINGS = validator("plan"), validator("findings")


def wrong(schema: Draft202012Validator, data: object) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in schema.iter_errors(data)]


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    main(list(arguments))
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("spec", EXAMPLES, ids=lambda spec: spec.stem)
def test_the_plan_of_an_example_is_of_the_published_form(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wrong(PLAN, written(capsys, "plan", str(spec), "--output", "json")) == []


@pytest.mark.parametrize("spec", EXAMPLES, ids=lambda spec: spec.stem)
def test_the_findings_of_an_example_are_of_the_published_form(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = written(capsys, "check", "--no-cache", str(spec), "--output", "json")
    assert wrong(FINDINGS, found) == []


@pytest.mark.parametrize("case", list(CASES)[::6])
def test_a_silly_plan_is_of_the_published_form_too(case: str) -> None:
    compilation = compile_text(CASES[case].text, "silly.kvspec")
    assert wrong(PLAN, json.loads(machine.text(plans_form(compilation.plans)))) == []
    assert wrong(FINDINGS, json.loads(machine.text(machine.findings(compilation.report)))) == []


FLEET = """kvspec 1
deployment one {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   { tp = 8 }
  budget   { reserve = 3 GB }
  workload { context = 8 ktok; concurrency = 8 req }
}
deployment dark extends one { on = 1 x bare }
node bare { devices = 8 x mute; scale_up { link = links.nvlink4; shape = switch } }
device mute extends devices.h100_sxm { drop price; drop power }
fleet all { deployments = [one, dark]; require gpus <= 8; require power <= 9 kW }
"""


def test_a_fleet_is_of_the_published_form() -> None:
    compilation = compile_text(FLEET, "fleet.kvspec")
    form = json.loads(machine.text(plans_form(compilation.plans, compilation.fleets)))
    assert wrong(PLAN, form) == []
    (made,) = form["fleets"]
    assert made["sums"]["gpus"] == {"value": 16, "unit": "1"}
    assert not {"power", "cost.per_hour", "cost.per_year"} & made["sums"].keys()
    assert made["deployments"][0]["values"]["power"] == {"value": 5600, "unit": "W"}
    assert [each["status"] for each in made["requirements"]] == ["fails", "unanswered"]
    made["sums"]["gpus"].pop("unit")
    assert wrong(PLAN, form) != []


def test_findings_in_text_that_cannot_be_read_are_of_the_published_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.kvspec").write_text("kvspec 1\nlayout a { tp = 8 KB }\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = written(
        capsys, "check", "--no-cache", "wrong.kvspec", "gone.kvspec", "--output", "json"
    )
    assert found["counts"]["error"] == 2
    assert wrong(FINDINGS, found) == []


def test_inputs_are_told_with_the_hash_that_sha256sum_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hardware.kvspec").write_text("kvspec 1\nlet n = 8\n", encoding="utf-8")
    data = 'kvspec 1\nimport "hardware.kvspec"\nlet m = devices.h100_sxm.memory\n# é\n'
    (tmp_path / "prod.kvspec").write_text(data, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = written(capsys, "check", "--no-cache", "prod.kvspec", "--output", "json")
    catalog = ROOT / "specs" / "catalog"
    files = {
        "prod.kvspec": tmp_path / "prod.kvspec",
        "hardware.kvspec": tmp_path / "hardware.kvspec",
        "catalog/devices/h100_sxm.kvspec": catalog / "devices" / "h100_sxm.kvspec",
        "catalog/links/nvlink4.kvspec": catalog / "links" / "nvlink4.kvspec",
        "catalog/links/pcie_5_x16.kvspec": catalog / "links" / "pcie_5_x16.kvspec",
    }
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    assert {each["file"]: each["sha256"] for each in found["inputs"]} == hashes


def test_an_output_tells_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(EXAMPLES[0])
    first = written(capsys, "plan", spec, "--output", "json")
    assert written(capsys, "plan", spec, "--output", "json") == first


def test_the_schema_refuses_what_is_not_of_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    plan = written(capsys, "plan", str(EXAMPLES[0]), "--output", "json")
    changes: tuple[Callable[[Any], object], ...] = (
        lambda p: p.update(format=2),
        lambda p: p["plans"][0].update(extra=1),
        lambda p: p["plans"][0].pop("values"),
        lambda p: p["plans"][0]["values"]["kv.tokens"].pop("unit"),
        lambda p: p["plans"][0]["values"]["kv.tokens"].update(value="1 M"),
        lambda p: p["inputs"][0].update(sha256="0"),
    )
    for change in changes:
        broken = copy.deepcopy(plan)
        change(broken)
        assert wrong(PLAN, broken) != []


def test_a_unit_stands_beside_every_quantity_and_no_whole_number_is_rounded() -> None:
    """`value` never stands without `unit`, whatever is added to the form."""
    compilation = compile_text(EXAMPLES[0].read_text(encoding="utf-8"), "example.kvspec")
    form = json.loads(machine.text(plans_form(compilation.plans)))
    waiting: list[Any] = [form]
    seen = 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if isinstance(each.get("value"), int | float):
                assert "unit" in each, each
                seen += 1
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    assert seen > 100
    tokens = form["plans"][0]["values"]["kv.tokens"]["value"]
    assert isinstance(tokens, int)
