"""A report in a browser: nothing overflows, overlaps, is fetched or shut out, on screen or in print."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.report.browser import AXE, dark, measured, needed, printed
from tests.report.pages import NAMES, page

WIDTHS = (360, 768, 1440)
PAPER = 672  # A4 without its margins, at 96 dots an inch


@cache
def found(name: str) -> dict[str, Any]:
    """Every view of a page in one run of the browser."""
    text = page(name)
    views = {f"{width}": (text, width) for width in WIDTHS}
    views["print"] = (printed(text), PAPER)
    with TemporaryDirectory() as folder:
        return measured(Path(folder), views, audit=False)


def test_the_audit_sees_a_barrier_where_there_is_one(tmp_path: Path) -> None:
    bad = page("hostile").replace("<main", '<img src="data:,"><p style="color:#bbb">faint</p><main')
    got = measured(tmp_path, {"bad": (bad, 768)}, audit=True)["bad"]["audit"]
    assert {line.split(":")[0] for line in got} == {"color-contrast", "image-alt"}


@cache
def audits(name: str) -> dict[str, Any]:
    text = page(name)
    views = {"light": (text, 1440), "dark": (dark(text), 1440), "narrow": (text, 360)}
    if name not in ("llama_405b_tp16", "hostile"):  # all pages share their styles
        del views["narrow"]
    with TemporaryDirectory() as folder:
        return measured(Path(folder), views, audit=True)


def views(name: str) -> list[tuple[str, dict[str, Any]]]:
    got = found(name)
    assert "failed" not in got, got
    return [(view, seen) for view, seen in got.items() if view != "console"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wider_than_its_page(name: str) -> None:
    for view, seen in views(name):
        assert (view, seen["wide"]) == (view, [])
        assert (view, seen["scrolls"]) == (view, seen["width"])


@pytest.mark.parametrize("name", NAMES)
def test_no_words_of_a_picture_lie_on_others_or_leave_it(name: str) -> None:
    for view, seen in views(name):
        assert (view, seen["crossed"]) == (view, [])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_fetched_and_nothing_complains(name: str) -> None:
    assert found(name)["console"] == []
    for view, seen in views(name):
        assert (view, seen["fetched"]) == (view, [])
        assert set(seen["fonts"]) <= {"loaded", "unloaded"}


@pytest.mark.parametrize("name", NAMES)
def test_headings_step_down_one_at_a_time_and_every_picture_has_words(name: str) -> None:
    for view, seen in views(name):
        assert seen["headings"].count(1) == 1
        assert [(a, b) for a, b in pairwise(seen["headings"]) if b > a + 1] == []
        assert (view, seen["mute"]) == (view, [])


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_finds_no_barrier(name: str) -> None:
    needed(AXE.exists(), "axe-core")
    got = audits(name)
    assert "failed" not in got, got
    assert {view: seen["audit"] for view, seen in got.items() if view != "console"} == {
        view: [] for view in got if view != "console"
    }
