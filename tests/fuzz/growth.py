"""Texts of one kind in any length, and how many calls a check of one makes.

Comes in: a length. Goes out: a text, or a number of calls. Not its job: what such a text is told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from kvdsl.pipeline import check_text, compile_text
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


_DEPLOYED = """\
kvspec 1
model m {{
  hidden = 256
  vocab  = 1000
  attention a = gqa {{ query_heads = 8; kv_heads = 8; head_dim = 32 }}
  attention b = gqa {{ query_heads = 8; kv_heads = 8; head_dim = 32; window = 64 tok }}
  ffn f = gated {{ intermediate = 1024 }}
  stack {{ {stack} }}
}}
cluster hall {{ nodes = 100 x nodes.hgx_h100; fabric = links.infiniband_ndr }}
deployment prod {{
  model   = m
  weights = formats.bf16
  kv      = formats.bf16
  layout {{ {layout} }}
  workload {{ {workload} }}
  {rest}
}}
"""


def deployed(
    stack: str = "8 x layer { a; f }",
    layout: str = "tp = 1",
    workload: str = "context = 8 ktok; concurrency = 16 req",
    rest: str = "on = hall",
) -> str:
    return _DEPLOYED.format(stack=stack, layout=layout, workload=workload, rest=rest)


def _pools(count: int) -> str:
    pool = "pool p{n} {{ share = 1/{many}; on = hall.nodes[0] }}\n"
    return deployed(rest="\n" + "".join(pool.format(n=n, many=count) for n in range(count)))


def _classes(count: int) -> str:
    line = "class c{n} {{ share = 1/{many}; prompt = 100 tok; output = 100 tok }}\n"
    every = "".join(line.format(n=n, many=count) for n in range(count))
    return deployed(workload=f"concurrency = 16 req\n{every}")


DEPLOYED: dict[str, Callable[[int], str]] = {
    "pools on the same devices": _pools,
    "classes of requests": _classes,
    "stages": lambda n: deployed(stack="99 x layer { a; f }", layout=f"tp = 1; pp = {n}"),
    "requirements": lambda n: deployed(rest="on = hall\n" + "require kv.tokens >= 1 Mtok\n" * n),
    "points of a sweep": lambda n: deployed(
        rest="on = hall\nsweep { workload.concurrency = ["
        + ", ".join(f"{i + 1} req" for i in range(n))
        + "]; show = [kv.tokens] }"
    ),
}

KINDS["points of a sweep"] = DEPLOYED["points of a sweep"]


def steps(text: str) -> int:
    """Calls of Python functions while a text is checked and its findings are drawn."""

    def walk() -> None:
        report = check_text(text, "growth.kvspec").report
        drawn_report(report)
        for each in report.diagnostics:
            concise(each, PLAIN)
        machine.text(machine.findings(report))

    return calls(walk)


def planning_steps(text: str) -> int:
    """Calls of Python functions while a text is planned."""
    return calls(lambda: compile_text(text, "growth.kvspec"))


def calls(walk: Callable[[], object]) -> int:
    count = 0

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        walk()
    finally:
        sys.setprofile(before)
    return count
