"""The README of this folder says what its tables hold."""

from __future__ import annotations

from tests.known.contents import readme
from tests.known.published import HERE


def test_the_readme_counts_what_is_tested_and_lists_what_waits() -> None:
    assert (HERE / "README.md").read_text("utf-8") == readme()
