"""One text as commands see it: `levers`, `compare`, `sweep`, `diff`, `lock` and the others.

Comes in: a text and a number. Goes out: nothing; an exception is kvdsl's own fault. Not its job:
what a command prints (tests/cli), or the stages behind one that `trial` walks by itself.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import click

import kvdsl
from kvdsl.cli.application import kvdsl as application
from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError
from tests.fuzz.mutations import mutated

CHANGES = (
    "layout.tp=2", "layout.pp=2", "layout=l1", "workload.context=9 ktok", "kv=formats.fp8",
    "workload.concurrency=1_000_000 req", "budget.utilization=50 %", "layout.tp=1e12", "tp=8",
    "on=1 x nodes.hgx_h100", "pools.decode.layout.tp=1", "workload.context=8k", "x.y.z=[1, 2]",
    "model=models.deepseek_v3", "budget.reserve=1e25 B", "workload.rate=0.001 req/s", "on=}", "=",
)  # fmt: skip
VALUES = ("kv.tokens", "gpus", "decode.tpot", "prefill.ttft", "nothing", "kv", "cost.per_mtok")
NAMES = ("d", "d0", "prod", "m", "l0", "models.gpt_oss_120b", "", "é", "a.b.c")
HARDWARE = ("nodes.hgx_h100", "racks.gb200_nvl72", "c", "n", "nodes.nope", "2 x nodes.hgx_h100")
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send", "dispatch")
SIZES = ("1", "32768", "1MiB", "1e9", "0", "9999999999999999999999", "1.5kB")


def commanded(text: str, number: int) -> str:
    """Runs the command of that number on the text; its name. Raises whatever kvdsl raises."""
    random = Random(f"command:{number}")
    name = random.choice(tuple(LINES))
    with chdir(_folder()):
        for old in Path().glob("*"):
            old.unlink()
        encoded = text.encode("utf-8", "surrogatepass")
        Path("a.kvspec").write_bytes(encoded)
        if name in ("diff", "compare"):
            other = mutated(random, text) if random.random() < 0.7 else text
            Path("b.kvspec").write_bytes(other.encode("utf-8", "surrogatepass"))
        LINES[name](random, text)
    return name


@cache
def _folder() -> Path:
    """A folder for each process, of which the files of the last text are deleted."""
    return Path(tempfile.mkdtemp(prefix="kvdsl-fuzz-"))


def _run(*arguments: str) -> str:
    """What a command writes to stdout. A mistake that it tells is no fault."""
    out = io.StringIO()
    console = replace(Console.of(os.environ), data=out, talk=io.StringIO(), columns=80)
    try:
        with application.make_context("kvdsl", list(arguments), obj=console) as context:
            application.invoke(context)
    except (click.ClickException, click.exceptions.Exit, CommandError):
        return ""
    return out.getvalue()


def _json(*arguments: str) -> None:
    def refuse(word: str) -> object:
        raise AssertionError(f"JSON has no {word}")

    told = _run(*arguments)
    if told:
        json.loads(told, parse_constant=refuse)


def _settings(random: Random) -> list[str]:
    changes = random.sample(CHANGES, random.choice((0, 0, 1, 2)))
    return [word for change in changes for word in ("--set", change)]


def _levers(random: Random, _text: str) -> None:
    more = random.choice(([], ["--relief", "4"], ["--keep", "25"], ["--format", "fp8"]))
    if random.random() < 0.5:
        _json("levers", "a.kvspec", *more, "--output", "json")
    else:
        _run("levers", "a.kvspec", *more, *_settings(random))


def _compared(random: Random, _text: str) -> None:
    if random.random() < 0.5:
        _json("compare", "a.kvspec", "b.kvspec", "--output", "json")
    else:
        _run("compare", "a.kvspec", "b.kvspec")


def _differing(random: Random, _text: str) -> None:
    form = random.choice(("text", "markdown", "github"))
    more = random.choice(([], ["--fail-on", "regression"], ["--threshold", "1 %"], ["--exit-code"]))
    if random.random() < 0.3:
        _json("diff", "a.kvspec", "b.kvspec", "--output", "json")
    else:
        _run("diff", "a.kvspec", "b.kvspec", "--output", form, *more)


def _swept(random: Random, _text: str) -> None:
    _run("sweep", "a.kvspec", "--output", random.choice(("text", "csv", "markdown")))


def _locked(_random: Random, _text: str) -> None:
    _run("lock", "a.kvspec")
    _run("check", "--no-cache", "a.kvspec")


def _collective(random: Random, _text: str) -> None:
    ranks, size = random.choice(("2", "8", "9", "72", "1000000000")), random.choice(SIZES)
    kind, on = random.choice(KINDS), random.choice(HARDWARE)
    words = ["collective", kind, "--on", on, "--ranks", ranks]
    words += ["--in", "a.kvspec"] if random.random() < 0.7 else []
    if kind == "dispatch":
        words += ["--tokens", random.choice(("1", "128", "99999999999")), "--hidden", "7168"]
    else:
        words += ["--bytes", size]
    _run(*words, *random.choice(([], ["--explain"], ["--output", "json"])))


def _asked(random: Random, _text: str) -> None:
    dotted = f"{random.choice(NAMES)}.{random.choice(VALUES)}".removesuffix(".nothing")
    command = random.choice(("get", "explain"))
    _run(command, "a.kvspec", dotted, *_settings(random))


def _checked(random: Random, _text: str) -> None:
    forms = ("full", "concise", "json", "github", "gitlab", "sarif", "junit")
    _run("check", "--no-cache", "a.kvspec", "--output", random.choice(forms))


def _planned(random: Random, _text: str) -> None:
    form = random.choice(("text", "json", "csv", "markdown"))
    _run("plan", "a.kvspec", "--output", form, *_settings(random))


def _in_bulk(random: Random, text: str) -> None:
    lengths = [random.choice((1, 7, 1024, 10**6, 10**12)) for _ in range(3)]
    for each in kvdsl.bulk(text):
        each.serve(prompt=lengths, output=[1, 512, 512], concurrency=[1, 64, 10**6])


LINES: dict[str, Callable[[Random, str], None]] = {
    "levers": _levers,
    "compare": _compared,
    "diff": _differing,
    "sweep": _swept,
    "lock": _locked,
    "collective": _collective,
    "get": _asked,
    "check": _checked,
    "plan": _planned,
    "bulk": _in_bulk,
}
