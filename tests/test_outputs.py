"""What pipelines read: annotations, SARIF, JUnit and GitLab's code quality."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from kvdsl.cli import main
from kvdsl.cli.rule import known_pages
from kvdsl.diagnostics import Diagnostic, Fix, Label, Severity
from kvdsl.render.annotations import MOST_OF_LEVEL, annotated
from kvdsl.render.junit import gitlab_form, junit_text
from kvdsl.render.sarif import MOST, sarif_form
from kvdsl.source import SourceFile

HERE = Path(__file__).resolve().parent
SARIF = Draft7Validator(json.loads((HERE / "sarif-2.1.0.json").read_text(encoding="utf-8")))
EXAMPLES = HERE.parent / "specs" / "examples"

FILE = SourceFile("a b/ü.kvspec", "kvspec 1\nlet 漢👩 = = 1\n")
HERE_IT_IS = FILE.span(18, 19)


def diagnostic(
    text: str = "50 % <b>\n\x00\x1b[31m ]]> \ud800", severity: Severity = Severity.ERROR
) -> Diagnostic:
    fix = Fix("take it out", HERE_IT_IS, "")
    label = Label(FILE.span(13, 15), text)
    return Diagnostic(
        "KV001", severity, text, Label(HERE_IT_IS, text), (label,), (text,), (text,), fix
    )


def test_sarif_is_of_the_published_form_with_help_and_fixes() -> None:
    form = sarif_form([diagnostic()], known_pages(), "0.1.0")
    assert [e.message for e in SARIF.iter_errors(form)] == []
    run = form["runs"][0]  # type: ignore[index]
    (result,) = run["results"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert (result["ruleId"], rule["id"], result["ruleIndex"]) == ("KV001", "KV001", 0)
    assert rule["help"]["text"]
    region = result["locations"][0]["physicalLocation"]["region"]
    # The sign of a family of one is two code units, as the format counts columns.
    assert (region["startLine"], region["startColumn"], region["endColumn"]) == (2, 11, 12)
    location = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location["uri"] == "a%20b/%C3%BC.kvspec"
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["deletedRegion"] == region


def test_sarif_of_every_example_is_of_the_published_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", "--no-cache", "--output", "sarif", str(EXAMPLES)])
    form = json.loads(capsys.readouterr().out)
    assert [e.message for e in SARIF.iter_errors(form)] == []
    rules = form["runs"][0]["tool"]["driver"]["rules"]
    assert all(rule["help"]["markdown"].count("```") % 2 == 0 for rule in rules)


def test_sarif_keeps_the_gravest_where_there_are_too_many() -> None:
    many = [diagnostic(f"w{n}", Severity.WARNING) for n in range(MOST)]
    form: Any = sarif_form([*many, diagnostic("e")], {}, "0.1.0")
    results = form["runs"][0]["results"]
    assert len(results) == MOST
    assert results[0]["level"] == "error"


def test_a_finding_keeps_its_mark_when_its_line_moves() -> None:
    moved = SourceFile(FILE.name, "\n\n" + FILE.text)
    there = Diagnostic("KV001", Severity.ERROR, "x", Label(moved.span(20, 21)))
    here = Diagnostic("KV001", Severity.ERROR, "x", Label(HERE_IT_IS))
    marks = [
        form["runs"][0]["results"][0]["partialFingerprints"]
        for form in (sarif_form([d], {}, "1") for d in (there, here))
        if isinstance(form["runs"], list)
    ]
    assert marks[0] == marks[1]
    twice = gitlab_form([here, here])
    assert twice[0]["fingerprint"] != twice[1]["fingerprint"]


def test_junit_is_xml_whatever_a_message_holds() -> None:
    text = junit_text([diagnostic(), diagnostic("w", Severity.WARNING)], ["fine.kvspec", FILE.name])
    root = ET.fromstring(text)
    assert (root.get("tests"), root.get("failures")) == ("3", "1")
    suites = {suite.get("name"): suite for suite in root}
    assert suites["fine.kvspec"].get("failures") == "0"
    (failure,) = root.iter("failure")
    assert (failure.get("message") or "").startswith("50 % <b>")
    assert any("warning: w" in (out.text or "") for out in root.iter("system-out"))


def test_gitlab_has_what_its_merge_requests_read() -> None:
    (issue,) = gitlab_form([diagnostic("x")])
    assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
    assert issue["severity"] == "critical"
    assert issue["location"] == {"path": FILE.name, "lines": {"begin": 2}}


def test_annotations_escape_what_the_runner_reads() -> None:
    (line,) = annotated([diagnostic("50 %, a:b\n::error::x")]).splitlines()
    head, _, message = line.removeprefix("::error ").partition("::")
    assert "file=a b/ü.kvspec" in head
    assert message.startswith("50 %25, a:b%0A::error::x")
    assert "title=KV001" in head


def test_annotations_keep_to_ten_of_each_level_the_most_severe_first() -> None:
    found = [diagnostic(f"w{n}", Severity.WARNING) for n in range(15)]
    found += [diagnostic(f"e{n}") for n in range(12)]
    lines = annotated(found).splitlines()
    levels = [line.split(" ")[0] for line in lines[:-1]]
    assert levels == ["::error"] * MOST_OF_LEVEL + ["::warning"] * MOST_OF_LEVEL
    assert lines[-1].startswith("7 more findings are not annotated")


def test_several_forms_come_out_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.kvspec").write_text("kvspec 1\nlet a = = 1\n")
    forms = ("json", "github", "gitlab", "sarif", "junit", "full")
    words = [word for form in forms for word in ("--output", f"{form}=out/{form}")]
    Path("out").mkdir()
    code = main(["check", "--output", "concise", *words, "a.kvspec"])
    assert code == 1
    assert capsys.readouterr().out.startswith("a.kvspec:2:9: error[KV001]")
    assert sorted(path.name for path in Path("out").iterdir()) == sorted(forms)
    assert all("KV001" in Path("out", form).read_text() for form in forms)
