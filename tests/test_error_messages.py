"""What is said about specs that can be read and make no sense: the exact words, beside the text.

A case under `errors/` is a spec and a `.txt` of the same name. After a change that is meant,
`KVDSL_UPDATE=1 pytest tests/test_error_messages.py` writes them anew; read the difference.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from kvdsl.diagnostics import Diagnostic
from kvdsl.project.loader import load_text
from kvdsl.project.messages import CODES as PROJECT_CODES
from kvdsl.resolve.messages import CODES
from kvdsl.resolve.resolver import Resolver
from tests.plain import plain

ERRORS = Path(__file__).resolve().parent / "errors"
CASES = sorted(
    case
    for family in ("names", "types", "combinations")
    for case in (ERRORS / family).glob("*.kvspec")
)


def problems_of(case: Path) -> tuple[Diagnostic, ...]:
    text = case.read_text(encoding="utf-8")
    return Resolver(load_text(text, case.name, case.parent)).check()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_a_fault_is_told_in_these_words(case: Path) -> None:
    text = plain(problems_of(case))
    golden = case.with_suffix(".txt")
    if os.environ.get("KVDSL_UPDATE"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_a_fault_is_told_once(case: Path) -> None:
    """Each diagnostic of the case's own file stands in a line that ends in `# !`, one `!` each."""
    text = case.read_text(encoding="utf-8")
    marks = {n: re.search(r"# (!+)$", line) for n, line in enumerate(text.splitlines(), start=1)}
    wanted = Counter({number: len(mark[1]) for number, mark in marks.items() if mark})
    own = [p for p in problems_of(case) if p.span.file.name == case.name]
    assert Counter(problem.span.line for problem in own) == wanted, plain(own)


def test_every_code_is_listed_once_in_order() -> None:
    codes = [code for code, _, _ in CODES]
    assert codes == sorted(set(codes))
    assert len({name for _, name, _ in CODES}) == len(CODES)
    assert {code for code, _, _ in PROJECT_CODES} <= set(codes)


def test_every_code_of_a_case_is_listed() -> None:
    told = {problem.code for case in CASES for problem in problems_of(case)}
    assert told - {"KV001"} <= {code for code, _, _ in CODES}
    assert len(told) > 45
