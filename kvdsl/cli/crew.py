"""Many files checked on all cores, in the order in which they were named.

Comes in: paths and what they are checked with. Goes out: what each check found. Few files are
checked here: a worker costs as much as a few files do. Not its job: what is checked (pipeline).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvdsl.cli.console import Console
from kvdsl.cli.progress import shown

if TYPE_CHECKING:
    from kvdsl.pipeline import Checked
    from kvdsl.planning.deploy import Rulebook
    from kvdsl.project.catalog import Catalog

WORTH_IT = 24
"""Files below which workers cost more than they save: one takes a quarter of a second to be ready,
and a file some 10 to 40 ms."""

MOST_WORKERS = 16


def checked(console: Console, paths: Sequence[str], book: Rulebook) -> list[Checked]:
    """What each path's check found."""
    from kvdsl.pipeline import check_path
    from kvdsl.project.catalog import Catalog

    workers = min(_cores(), MOST_WORKERS, len(paths) // (WORTH_IT // 2))
    if workers > 1 and len(paths) >= WORTH_IT and "-" not in paths:
        return list(_shared_out(console, paths, book, workers))
    catalog = Catalog()
    return [check_path(path, catalog, book) for path in shown(console, ((p, p) for p in paths))]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _shared_out(
    console: Console, paths: Sequence[str], book: Rulebook, workers: int
) -> Iterator[Checked]:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_all_start_methods, get_context

    # Started bare where they can be: a fork of a process with threads may hang.
    method = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
    chunk = max(1, len(paths) // (workers * 8))
    with ProcessPoolExecutor(
        workers, get_context(method), initializer=_begin, initargs=(book,)
    ) as pool:
        found = pool.map(_check, paths, chunksize=chunk)
        for _ in shown(console, ((path, path) for path in paths)):
            yield next(found)


_given: list[tuple[Catalog, Rulebook]] = []
"""A worker's own catalog and rulebook, put there when it begins."""


def _begin(book: Rulebook) -> None:
    from kvdsl.project.catalog import Catalog

    _given[:] = [(Catalog(), book)]


def _check(path: str) -> Checked:
    from kvdsl.pipeline import check_path

    catalog, book = _given[0]
    return check_path(path, catalog, book)
