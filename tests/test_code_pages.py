"""Pages of codes below KV100: the example has that fault alone, what stands instead has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvdsl.cli.rule import known_pages
from kvdsl.diagnostics import Diagnostic
from kvdsl.project.loader import load
from kvdsl.resolve.code_pages import PAGES, CodePage
from kvdsl.resolve.resolver import Resolver
from kvdsl.rules import SECTIONS


def told(text: str, folder: Path) -> tuple[Diagnostic, ...]:
    """What is wrong with a spec beside which an `h-20.kvspec` lies."""
    (folder / ".git").mkdir()
    (folder / "h-20.kvspec").write_text("kvspec 1\nlet devices_each = 8\n", encoding="utf-8")
    path = folder / "prod.kvspec"
    path.write_text(f"kvspec 1\n{text}\n", encoding="utf-8")
    return Resolver(load(str(path))).check()


@pytest.mark.parametrize("code", PAGES)
def test_the_example_has_the_fault_alone(code: str, tmp_path: Path) -> None:
    assert [d.code for d in told(PAGES[code].example, tmp_path)] == [code]


@pytest.mark.parametrize("code", PAGES)
def test_what_stands_instead_has_no_fault(code: str, tmp_path: Path) -> None:
    assert told(PAGES[code].better, tmp_path) == ()


@pytest.mark.parametrize("code", PAGES)
def test_a_page_is_in_the_sections_of_a_rule(code: str) -> None:
    page: CodePage = PAGES[code]
    shown = known_pages()[code].sections
    assert tuple(title for title, _, _ in shown) == SECTIONS
    assert [spec for _, _, spec in shown] == ["", "", page.example, page.better]
    assert [prose for _, prose, _ in shown] == [page.checks, page.why, "", page.instead]
