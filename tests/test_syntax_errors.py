"""What is said about text that cannot be read: the exact words, beside the text.

A case under `errors/syntax/` is a spec and a `.txt` of the same name. After a change that is meant,
`KVDSL_UPDATE=1 pytest tests/test_syntax_errors.py` writes them anew; read the difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvdsl.diagnostics import Diagnostic
from kvdsl.source import SourceFile
from kvdsl.syntax.nodes import Broken, Declare, Let
from kvdsl.syntax.parser import parse

FOLDER = Path(__file__).resolve().parent / "errors" / "syntax"
CASES = sorted(FOLDER.glob("*.kvspec"))


def told(problem: Diagnostic) -> Iterator[str]:
    place = f"{problem.span.line}:{problem.span.column}"
    yield f"{problem.severity.value} {problem.code} {place} {problem.headline}"
    seen = problem.span.text.encode("unicode_escape").decode()
    yield f"  at: {seen}" + (f"  {problem.primary.text}" if problem.primary.text else "")
    for label in problem.labels:
        yield f"  {label.span.line}:{label.span.column}: {label.text}"
    yield from (f"  note: {note}" for note in problem.notes)
    yield from (f"  help: {line}" for line in problem.helps)
    if problem.fix is not None:
        yield f"  fix: {problem.fix.title}"


def fixed(text: str, problems: tuple[Diagnostic, ...]) -> str:
    """The text after every offered fix, applied from the end so that places stay true."""
    for problem in sorted(problems, key=lambda p: -p.span.start):
        if problem.fix is not None:
            span = problem.fix.span
            text = text[: span.start] + problem.fix.replacement + text[span.end :]
    return text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_fault_is_told_in_these_words(case: Path) -> None:
    _, problems = parse(SourceFile(case.name, case.read_text(encoding="utf-8")))
    text = "".join(f"{line}\n" for problem in problems for line in told(problem))
    golden = case.with_suffix(".txt")
    if os.environ.get("KVDSL_UPDATE"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_no_message_shows_the_name_of_a_terminal(case: Path) -> None:
    source = SourceFile(case.name, case.read_text(encoding="utf-8"))
    terminals = r"\b(LBRACE|RBRACE|LSQB|RSQB|LPAR|RPAR|EQUAL|COMMA|QUANTITY|_SEP|\$END|__ANON\w*)\b"
    for problem in parse(source)[1]:
        assert not re.search(terminals, "\n".join(told(problem)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_fix_mends_its_fault(case: Path) -> None:
    text = case.read_text(encoding="utf-8")
    _, problems = parse(SourceFile(case.name, text))
    offered = sum(problem.fix is not None for problem in problems)
    _, left = parse(SourceFile(case.name, fixed(text, problems)))
    assert len(left) <= len(problems) - offered


def test_what_follows_a_broken_declaration_is_still_there() -> None:
    text = "kvspec 1\nlayout a { tp = = }\npool b extends {\nlet c = 1\nlayout d { tp = 8 }\n"
    module, problems = parse(SourceFile("case.kvspec", text))
    assert len(problems) == 2
    _, a, b, c, d = module.statements
    assert isinstance(a, Broken)
    assert (a.kind and a.kind.text, a.name and a.name.text) == ("layout", "a")
    assert isinstance(b, Broken)
    assert (b.kind and b.kind.text, b.name and b.name.text) == ("pool", "b")
    assert isinstance(c, Let)
    assert isinstance(d, Declare)


def test_characters_of_noise_are_told_once() -> None:
    _, problems = parse(SourceFile("case.kvspec", "kvspec 1\n# " + "\x00" * 1000 + "\n"))
    (problem,) = problems
    assert problem.notes == ("this file holds 999 more",)
