"""A report in a browser: nothing overflows, overlaps, is fetched or shuts anybody out."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.report.browser import dark, measured, printed
from tests.report.pages import EXAMPLES, NAMES, page

AUDITED = (*EXAMPLES, "hostile")
WIDTHS = (360, 768, 1440)
PAPER = 672  # A4 without its margins, at 96 dots an inch


@cache
def found() -> dict[str, Any]:
    """Every view of every page in one run of the browser: its start is what takes time."""
    views = {}
    for name in NAMES:
        text = page(name)
        views.update({f"{name} {width}": (text, width) for width in WIDTHS})
        views[f"{name} print"] = (printed(text), PAPER)
    with TemporaryDirectory() as folder:
        return measured(Path(folder), views, audit=False)


@cache
def audits() -> dict[str, Any]:
    """Every page in light. Styles are the same for all: dark and narrow are asked of two."""
    views = {f"{name} light": (page(name), 1440) for name in AUDITED}
    for name in ("llama_405b_tp16", "hostile"):
        views[f"{name} dark"] = (dark(page(name)), 1440)
        views[f"{name} narrow"] = (page(name), 360)
    with TemporaryDirectory() as folder:
        return measured(Path(folder), views, audit=True)


def views(name: str, all_found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    assert "failed" not in all_found, all_found
    return [(view, seen) for view, seen in all_found.items() if view.split()[0] == name]


def test_the_audit_sees_a_barrier_where_there_is_one(tmp_path: Path) -> None:
    bad = page("hostile").replace("<main", '<img src="data:,"><p style="color:#bbb">faint</p><main')
    got = measured(tmp_path, {"bad": (bad, 768)}, audit=True)["bad"]["audit"]
    assert {line.split(":")[0] for line in got} == {"color-contrast", "image-alt"}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wider_than_its_page(name: str) -> None:
    for view, seen in views(name, found()):
        assert (view, seen["wide"]) == (view, [])
        assert (view, seen["scrolls"]) == (view, seen["width"])


@pytest.mark.parametrize("name", NAMES)
def test_no_words_of_a_picture_lie_on_others_or_leave_it(name: str) -> None:
    for view, seen in views(name, found()):
        assert (view, seen["crossed"]) == (view, [])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_fetched_and_nothing_complains(name: str) -> None:
    assert found()["console"] == []
    for view, seen in views(name, found()):
        assert (view, seen["fetched"]) == (view, [])
        assert set(seen["fonts"]) <= {"loaded", "unloaded"}


@pytest.mark.parametrize("name", NAMES)
def test_headings_step_down_one_at_a_time_and_every_picture_has_words(name: str) -> None:
    for view, seen in views(name, found()):
        assert seen["headings"].count(1) == 1
        assert [(a, b) for a, b in pairwise(seen["headings"]) if b > a + 1] == []
        assert (view, seen["mute"]) == (view, [])


@pytest.mark.parametrize("name", AUDITED)
def test_an_audit_finds_no_barrier(name: str) -> None:
    for view, seen in views(name, audits()):
        assert (view, seen["audit"]) == (view, [])
