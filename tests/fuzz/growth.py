"""Texts of one kind in any length, and how many calls a check of one makes.

Comes in: a length. Goes out: a text, or a number of calls. Not its job: what such a text is told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from kvdsl.pipeline import check_text
from kvdsl.render import machine
from kvdsl.render.diagnostics import concise, drawn_report
from kvdsl.render.paint import PLAIN


def _whole(text: str) -> Callable[[int], str]:
    return lambda count: "kvspec 1\n" + text * count


KINDS: dict[str, Callable[[int], str]] = {
    "braces": _whole("{"),
    "closers": _whole("}"),
    "quotes": _whole('"'),
    "names": _whole("x\n"),
    "names in a line": _whole("x "),
    "equals signs": _whole("= "),
    "broken statements in a line": _whole("a = = 1; "),
    "broken declarations": _whole("layout a { tp = = 8 }\n"),
    "unclosed declarations": _whole("layout a {\n"),
    "unclosed texts": _whole('let a = "\n'),
    "unknown kinds": _whole("lay a { tp = 8 }\n"),
    "wrong units": _whole("let a = 8 KB\n"),
    "one name many times": _whole("layout a { tp = 8 }\n"),
    "noise": _whole("\u202e\x00"),
    "comments": _whole("# a\n"),
    "layouts": lambda n: (
        "kvspec 1\n" + "".join(f"layout name_{i} {{ tp = 8 }}\n" for i in range(n))
    ),
    "unknown names": lambda n: (
        "kvspec 1\n" + "".join(f"let name_{i} = nobody_{i}\n" for i in range(n))
    ),
    "a list": lambda n: "kvspec 1\nlet a = [" + "1, " * n + "2]\n",
    "a long list of errors": lambda n: "kvspec 1\nlet a = [" + "1 + 1 GB, " * n + "2]\n",
    "a chain of lets": lambda n: (
        "kvspec 1\nlet n0 = 1\n" + "".join(f"let n{i + 1} = n{i} + 1\n" for i in range(n))
    ),
    "a chain of heirs": lambda n: (
        "kvspec 1\nlayout l0 { tp = 8 }\n"
        + "".join(f"layout l{i + 1} extends l{i} {{ pp = 2 }}\n" for i in range(n))
    ),
    "attributes": lambda n: "kvspec 1\nmodel m {\n" + "  hidden = 8\n" * n + "}\n",
    "a stack": lambda n: "kvspec 1\nmodel m {\nstack {\n" + "  2 x layer { a; f }\n" * n + "}\n}\n",
    "requirements": lambda n: (
        "kvspec 1\npolicy p {\n" + "  require kv.tokens >= 1 Mtok\n" * n + "}\n"
    ),
}


def steps(text: str) -> int:
    """Calls of Python functions while a text is checked and its findings are drawn."""
    count = 0

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        report = check_text(text, "growth.kvspec").report
        drawn_report(report)
        for each in report.diagnostics:
            concise(each, PLAIN)
        machine.text(machine.findings(report))
    finally:
        sys.setprofile(before)
    return count
