"""The action's scripts, run on the two commits of a pull request, and what they post."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.review.repository import HARDWARE, OTHER, PROD
from tests.scratch import SETTINGS, Scratch

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).resolve().parent / "review" / "comment.md"


@pytest.fixture
def request_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    """A branch that puts `chat` on sixteen ranks, beside a deployment that it leaves alone."""
    made = Scratch(tmp_path / "plans", monkeypatch)
    made.write({"shared/hardware.kvspec": HARDWARE, "prod.kvspec": PROD, "small.kvspec": OTHER})
    made.commit("base")
    made.git("checkout", "-q", "-b", "feature")
    made.replace("prod.kvspec", "layout  = tp8_pp2", "layout  = tp16")
    made.commit("TP=16")
    return made


def run(script: str, scratch: Scratch, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        **SETTINGS,
        "PYTHONPATH": str(ROOT),
        "KVDSL": f"{sys.executable} -m kvdsl",
        "PYTHONDONTWRITEBYTECODE": "1",
        **settings,
    }
    return subprocess.run(
        ["bash", str(ROOT / "action" / script)],
        cwd=scratch.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_review_writes_comment_findings_and_reports(request_of_two: Scratch) -> None:
    ran = run("review", request_of_two, BASE="main", FAIL_ON="regression")
    out = request_of_two.folder / "kvdsl-review"
    assert ran.returncode == 1, ran.stderr
    assert sorted(path.name for path in out.iterdir()) == [
        "comment.md",
        "diff.json",
        "kvdsl.sarif",
        "prod.html",
    ]
    assert "::error file=prod.kvspec,line=18" in ran.stdout
    assert json.loads((out / "kvdsl.sarif").read_text())["version"] == "2.1.0"
    text = (out / "comment.md").read_text(encoding="utf-8")
    if os.environ.get("KVDSL_UPDATE"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_a_request_that_changes_no_plan_gets_no_comment(request_of_two: Scratch) -> None:
    request_of_two.git("checkout", "-q", "main")
    request_of_two.write({"README": "words\n"})
    request_of_two.commit("words")
    ran = run("review", request_of_two, BASE="HEAD~1")
    assert ran.returncode == 0, ran.stderr
    assert (request_of_two.folder / "kvdsl-review" / "comment.md").read_text() == ""


def test_a_base_that_the_clone_lacks_is_told_with_the_way_out(request_of_two: Scratch) -> None:
    ran = run("review", request_of_two, BASE="0" * 40)
    assert ran.returncode == 2
    assert "fetch-depth: 0" in ran.stderr


GH = """\
#!/usr/bin/env bash
printf '%s\\n' "$*" >>calls
case "$*" in *--jq*) printf '%s' "${COMMENT:-}" ;; esac
"""


@pytest.mark.parametrize(
    ("body", "comment", "calls"),
    [
        ("text", "", ["-X POST repos/o/r/issues/7/comments"]),
        ("text", "41", ["-X PATCH repos/o/r/issues/comments/41"]),
        ("", "41", ["-X DELETE repos/o/r/issues/comments/41"]),
        ("", "", []),
    ],
)
def test_the_bot_has_one_comment_and_takes_it_away(
    request_of_two: Scratch, body: str, comment: str, calls: list[str]
) -> None:
    request_of_two.write({"gh": GH, "kvdsl-review/comment.md": body})
    ran = run("comment", request_of_two, GH="bash ./gh", COMMENT=comment, REPOSITORY="o/r",
              NUMBER="7")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    said = (request_of_two.folder / "calls").read_text().splitlines()[1:]
    assert [call for call in calls if not any(call in line for line in said)] == []
    assert len(said) == len(calls)


def test_every_input_of_the_action_reaches_a_script_by_the_environment() -> None:
    """A branch or a path may have any name: none is pasted into the text of a script."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    pasted = [
        line
        for step in text.split("run: ")[1:]
        for line in step.split("    - ")[0].splitlines()
        if "${{" in line and not line.strip().split(":")[0].isidentifier()
    ]
    assert pasted == []
