"""The formatter's promises: one form, the same again, the same meaning, every comment kept.

A case under `format/` is an input, a line `# output`, and what it becomes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvdsl.source import SourceFile
from kvdsl.syntax.formatter import equivalent, format_module
from kvdsl.syntax.nodes import Module
from kvdsl.syntax.outline import outline
from kvdsl.syntax.parser import parse

HERE = Path(__file__).resolve().parent
CASES = sorted((HERE / "format").glob("*.kvspec"))
EXAMPLES = sorted((HERE.parent / "specs" / "examples").glob("*.kvspec"))
MARK = "# output\n"


def tree(text: str) -> Module:
    module, problems = parse(SourceFile("case.kvspec", text))
    assert problems == ()
    return module


def comments(text: str) -> list[str]:
    return sorted(comment.text for comment in outline(SourceFile("case.kvspec", text)).comments)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_spec_is_laid_out_in_its_one_form(case: Path) -> None:
    given, _, wanted = case.read_text(encoding="utf-8").partition(MARK)
    assert format_module(tree(given)) == wanted


@pytest.mark.parametrize("case", [*CASES, *EXAMPLES], ids=lambda case: case.stem)
def test_formatting_again_changes_nothing_and_never_the_meaning(case: Path) -> None:
    given, _, _ = case.read_text(encoding="utf-8").partition(MARK)
    once = format_module(tree(given))
    # A second run that mended what the first left undone would hide it: compare with one run.
    assert format_module(tree(once)) == once
    assert equivalent(tree(given), tree(once))
    assert comments(given) == comments(once)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_the_examples_are_written_in_the_one_form(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert format_module(tree(text)) == text


def test_line_ends_of_windows_and_a_byte_order_mark_are_gone_afterwards() -> None:
    text = "\ufeffkvspec 1\r\n\r\n# why\r\nlayout a {\r\n  tp = 8 # eight\r\n}\r\n"
    wanted = "kvspec 1\n\n# why\nlayout a {\n  tp = 8 # eight\n}\n"
    assert format_module(tree(text)) == wanted


def test_what_cannot_be_read_is_printed_as_it_stands() -> None:
    text = "kvspec 1\nlayout   a { tp =   # nothing\n }\nlet  b = 1\n"
    module, problems = parse(SourceFile("case.kvspec", text))
    assert len(problems) == 1
    assert format_module(module) == "kvspec 1\nlayout   a { tp =   # nothing\n }\nlet b = 1\n"


def test_an_empty_file_stays_empty() -> None:
    module, _ = parse(SourceFile("case.kvspec", ""))
    assert format_module(module) == ""


def test_meaning_is_told_apart_from_layout() -> None:
    plain = tree("kvspec 1\nlet a = 1 + 2\n")
    assert equivalent(plain, tree("kvspec 1; let a = (1 +\n  2) # sum\n"))
    assert not equivalent(plain, tree("kvspec 1\nlet a = 1 - 2\n"))
    assert not equivalent(plain, tree("kvspec 1\nlet a = 1 + 2\nlet b = 3\n"))
    assert not equivalent(plain, tree("kvspec 1\n\n## Said of the file.\n\nlet a = 1 + 2\n"))
