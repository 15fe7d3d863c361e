"""The comment of a pull request: it fits, says what it left out, and no stranger writes in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kvdsl import units
from kvdsl.diagnostics import Diagnostic, Label, Severity
from kvdsl.difference import (
    DeploymentChange,
    Difference,
    FigureChange,
    FindingChange,
    Flip,
    Mover,
    Regression,
    SpecChange,
    Trouble,
    ValueChange,
)
from kvdsl.plan import Finding, Verdict
from kvdsl.render.annotations import MOST_OF_LEVEL, difference_annotations
from kvdsl.render.changes import flip_text
from kvdsl.render.comment import MARKER, MOST, comment
from kvdsl.render.fitting import Section, fitted, size
from kvdsl.render.markup import code, prose
from kvdsl.source import SourceFile
from kvdsl.units import Quantity

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OURS = re.compile(
    r"<!-- kvdsl-diff -->|</?details( open)?>|</?summary>|</?sub>|<br>|</?code>|\s|"
    r"(?<=<summary>)[^<]*|(?<=<code>)[^<]*|(?<=</code>)[^<]*"
)

HOSTILE = (
    "@admin",
    "org/repo#12 and #34",
    "[click](https://evil.example)",
    "https://evil.example www.evil.example",
    "me@evil.example",
    "<img src=x onerror=alert(1)>",
    "</details><!-- kvdsl-diff --><script>",
    "| a | b |\n| - | - |\n# head",
    "``` fence ````",
    "`tick` ``",
    "**bold** _x_ ~~y~~ ![i](j)",
    "\u202eslanoitceridib\u202c \x1b[31m",
    "&lt;b&gt; &#64;all",
    "deadbeefcafe1234 GH-12 !5 %3 ~bug :tada:",
    "漢字 👩‍👩‍👧 ẞ",
    "a" * 5_000,
    "\\",
    "- item\n1. one\n> quote",
)


def finding(text: str, severity: Severity = Severity.WARNING) -> Finding:
    span = SourceFile(f"{text}.kvspec", "line\n").span(0, 4)
    return Finding("KV101", "name", severity, Diagnostic("KV101", severity, text, Label(span)))


def value(text: str, before: int = 1_402_348, after: int = 701_174) -> ValueChange:
    a, b = Quantity(before, units.TOKENS), Quantity(after, units.TOKENS)
    return ValueChange("kv.tokens", text, a, b, "worse", (Mover(text, a, b),))


def deployment(text: str, lines: int = 2) -> DeploymentChange:
    number = Quantity(1, units.NONE)
    return DeploymentChange(
        name=text,
        file=f"{text}.kvspec",
        state="changed",
        was=text,
        verdict_before=Verdict("good", text),
        verdict_after=Verdict("bad", text),
        spec=tuple(SpecChange("~", f"a{n}.b.{text}", text, text) for n in range(lines)),
        values=(value(text),),
        flips=(Flip("require", text, text, text, "holds", "fails", number, number, number, text),),
        findings=(
            FindingChange("new", finding(text)),
            FindingChange("gone", finding(text)),
            FindingChange("still", finding(text)),
        ),
    )


def difference(text: str, count: int = 1, lines: int = 2) -> Difference:
    return Difference(
        text,
        text,
        tuple(deployment(f"{text}{n}" if count > 1 else text, lines) for n in range(count)),
        (FigureChange("~", text, text, text, text, text, (text,), replayed=False),),
        (Trouble(text, "after", text, 2, text),),
        (Regression("value", text, text),),
    )


def tokens(text: str) -> Iterator[tuple[str, str]]:
    for block in READER.parse(text):
        yield block.type, block.content
        for inline in block.children or ():
            yield inline.type, inline.content


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_stranger_is_markup(text: str) -> None:
    """Read back as CommonMark: no link, no picture, no heading, no HTML but the comment's own."""
    for kind, content in tokens(comment(difference(text))):
        assert kind not in ("link_open", "image", "blockquote_open", "ordered_list_open")
        if kind in ("html_inline", "html_block"):
            assert OURS.sub("", content) == "", content
    headings = [c for k, c in tokens(comment(difference(text))) if k == "heading_open"]
    assert len(headings) == 1


CALL = re.compile(r"(?<![\w/])@\w|#\d|https?://|\bwww\.|\bGH-\d|\w@\w")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_stranger_calls_anybody_or_links_outside_of_code(text: str) -> None:
    """GitHub looks for mentions, issues and addresses in what is no code, after Markdown."""
    spoken = [c for k, c in tokens(comment(difference(text))) if k == "text"]
    assert [c for c in spoken if CALL.search(c)] == []


@given(st.text(max_size=200))
def test_any_sentence_comes_out_as_it_went_in(text: str) -> None:
    found = [c for kind, c in tokens(f"x {prose(text)}") if kind in ("text", "code_inline")]
    kinds = {kind for kind, _ in tokens(f"x {prose(text)}")}
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "code_inline"}
    assert found[0].startswith("x")


@given(st.text(min_size=1, max_size=100))
def test_any_name_is_one_code_span(text: str) -> None:
    kinds = [kind for kind, _ in tokens(code(text))]
    assert kinds == ["paragraph_open", "inline", "code_inline", "paragraph_close"]


@pytest.mark.parametrize("text", ["chat", "漢字の名前", "👩‍👩‍👧" * 20])
@pytest.mark.parametrize("count", [1, 30, 300, 2_000])
def test_any_number_of_deployments_fits_and_what_is_left_out_is_said(text: str, count: int) -> None:
    made = comment(difference(text, count))
    assert size(made) <= MOST
    assert made.startswith(MARKER)
    if count >= 300:
        assert "left out for length" in made
        assert size(made) > MOST * 0.9, "what fits is there"
    for _, content in tokens(made):
        assert "�" not in content


def test_sections_give_way_in_the_stated_order() -> None:
    """With less and less room, what stays is always a prefix of the order of importance."""
    heads = ["**Requirements**", "| deployment |", "**Worse than", "**New findings**",
             "**The catalog changed**"]  # fmt: skip
    whole = comment(difference("chat", 40))
    assert [h for h in heads if h in whole] == heads
    rows = []
    for most in (60_000, 30_000, 20_000, 12_000):
        text = comment(difference("chat", 40), most)
        assert size(text) <= most
        rows.append(
            (text.count("- warning KV101"), text.count("| `chat"), text.count("**broken**"))
        )
    assert rows == sorted(rows, reverse=True)
    assert rows[-1][2] == 40, "requirements stay to the last"


def test_a_closing_fence_in_a_spec_does_not_close_the_tree() -> None:
    text = comment(difference("````"))
    fences = [c for c in READER.parse(text) if c.type == "fence"]
    assert len(fences) == 1
    assert "a1" in fences[0].content


def test_an_item_that_does_not_fit_is_not_jumped_over() -> None:
    section = Section(0, "head", ("a" * 10, "b" * 500, "c"), "", lambda n: f"{n} more")
    text = fitted([section], 100)
    assert ("a" * 10 in text, "c" in text, "2 more" in text) == (True, False, True)


def test_nothing_changed_is_no_comment_unless_asked() -> None:
    same = Difference("a", "b")
    assert comment(same) == ""
    assert comment(same, unchanged="No plan changed.") == f"{MARKER}\nNo plan changed.\n"


def test_annotations_of_a_difference_keep_githubs_limit_and_escape(tmp_path: Path) -> None:
    one = deployment("50 %, a:b\n::error::x")
    many = replace(one, findings=tuple(FindingChange("new", finding(f"w{n}")) for n in range(30)))
    text = difference_annotations(Difference("a", "b", (many,)))
    lines = text.splitlines()
    assert sum(line.startswith("::warning ") for line in lines) == MOST_OF_LEVEL
    assert lines[0].startswith("::error "), "the most severe first"
    assert "::error::x" not in [line[:10] for line in lines]
    assert "50 %25" in text
    assert lines[-1] == "20 more findings are not annotated: GitHub shows ten of each level a step"


def test_what_still_fails_is_told_with_what_moved_of_it() -> None:
    def flip(before: int, after: int, low: int, high: int, *, alike: bool = True) -> str:
        numbers = [Quantity(n, units.TOKENS) for n in (before, after, high, low)]
        a, b, bound, was = numbers
        return flip_text(
            Flip("require", "t", "", "", "fails", "fails", a, b, bound, "p", was, alike=alike)
        )

    assert flip(5, 6, 9, 9) == "still fails: 5 tok, now 6 tok"
    assert flip(5, 5, 9, 8) == "still fails at 5 tok, against 8 tok instead of 9 tok"
    assert flip(5, 6, 9, 8) == "still fails: 5 tok, now 6 tok, against 8 tok instead of 9 tok"
    assert flip(5, 6, 9, 9, alike=False) == "still fails, now at 6 tok"
