"""Reports to look at: the five examples through the whole compiler, and one that means harm."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from kvdsl.pipeline import compile_path
from kvdsl.render.html import report_html
from tests.test_report import report

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = {path.stem: path for path in sorted((ROOT / "specs" / "examples").glob("*.kvspec"))}
NAMES = (*EXAMPLES, "several", "hostile")


@cache
def page(name: str) -> str:
    if name not in EXAMPLES:
        return report({"several": "two"}.get(name, name))
    return report_html(compile_path(os.path.relpath(EXAMPLES[name])).plans, "0.1.0")
