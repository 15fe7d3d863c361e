"""Many files checked on all cores, in the order in which they were named.

Comes in: paths and what they are checked with. Goes out: what each check found. Few files are
checked here: a worker costs as much as a few files do. A worker knows what was imported before it
began, and what it learns of the catalog serves all its files. Not its job: what is checked
(pipeline).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kvdsl.cli.console import Console
from kvdsl.cli.progress import shown

if TYPE_CHECKING:
    from kvdsl.pipeline import Checked
    from kvdsl.planning.deploy import Rulebook
    from kvdsl.project.catalog import Catalog

WORTH_IT = 24
"""Files below which workers cost more than they save: one that starts bare takes half a second
to be ready, and a file some 10 to 40 ms."""

MOST_WORKERS = 16

SHARES = 32
"""Parts that each worker has of all files, so that none waits long for the last."""

TRIED = 4
"""Files that are checked before workers begin."""


def checked(console: Console, paths: Sequence[str], book: Rulebook) -> list[Checked]:
    """What each path's check found."""
    workers = min(_cores(), MOST_WORKERS, len(paths) // (WORTH_IT // 2))
    steps = [(path, path) for path in paths]
    with _known_to_all(book):
        if workers > 1 and len(paths) >= WORTH_IT and "-" not in paths:
            found = _shared_out(paths, book, workers)
            return [next(found) for _ in shown(console, steps)]
        if len(paths) > 1:
            _spare_collector()
        return [_check(path) for path in shown(console, steps)]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _shared_out(paths: Sequence[str], book: Rulebook, workers: int) -> Iterator[Checked]:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # The first files are checked here: what that imports, builds and reads of the catalog, a fork
    # has from the start.
    yield from map(_check, paths[:TRIED])
    rest = paths[TRIED:]
    with ProcessPoolExecutor(
        workers, get_context(_method()), initializer=_begin, initargs=(book,)
    ) as pool:
        yield from pool.map(_check, rest, chunksize=max(1, len(rest) // (workers * SHARES)))


def _method() -> str:
    """How workers start. A fork has all that is known here, but may hang where threads are; on
    other systems than Linux their own libraries have some."""
    from multiprocessing import get_all_start_methods
    from threading import active_count

    if sys.platform == "linux" and active_count() == 1:
        return "fork"
    return "forkserver" if "forkserver" in get_all_start_methods() else "spawn"


_given: list[tuple[Catalog, Rulebook]] = []
"""The catalog and the rulebook of this process: of a worker, or of the command while it checks."""


@contextmanager
def _known_to_all(book: Rulebook) -> Iterator[None]:
    from kvdsl.project.catalog import Catalog

    _given[:] = [(Catalog(), book)]
    thresholds = gc.get_threshold()
    try:
        yield
    finally:
        _given.clear()
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _begin(book: Rulebook) -> None:
    from kvdsl.project.catalog import Catalog

    if not _given:  # else a fork, which has them
        _given.append((Catalog(), book))
    _spare_collector()


def _spare_collector() -> None:
    """What a file's check makes is freed by itself, all but a little: a collector that goes over
    everything each time some hundreds of objects came takes a twelfth of the time for nothing."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _check(path: str) -> Checked:
    from kvdsl.pipeline import check_path

    catalog, book = _given[0]
    return check_path(path, catalog, book)
