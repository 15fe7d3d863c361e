"""A bar on a terminal for what takes longer than half a second; nothing else ever sees it.

Comes in: the steps of a command. Goes out: one line on stderr that is wiped before anything else
is written there. Not its job: the steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from kvdsl.cli.console import Console
from kvdsl.render.characters import clipped, safe

PATIENCE = 0.5
"""Seconds before the bar shows: what is done by then needs none."""

CELLS = 20
WIPED = "\r\x1b[K"

Step = TypeVar("Step")


def shown(console: Console, steps: Iterable[tuple[str, Step]]) -> Iterator[Step]:
    """The steps one by one, each under the name that is shown while it is being done."""
    if not console.talk.isatty():
        yield from (step for _, step in steps)
        return
    named = list(steps)
    started = time.monotonic()
    drawn = False
    for done, (name, step) in enumerate(named):
        if len(named) > 1 and time.monotonic() - started > PATIENCE:
            console.talk.write(WIPED + bar(done, len(named), name, console.columns))
            console.talk.flush()
            drawn = True
        yield step
        if drawn:  # the step may have something to say
            console.talk.write(WIPED)
            console.talk.flush()
            drawn = False


def bar(done: int, of: int, name: str, columns: int) -> str:
    filled = CELLS * done // of
    text = f"[{'#' * filled}{'.' * (CELLS - filled)}] {done:,}/{of:,} {safe(name)}"
    return clipped(text, columns - 1)
