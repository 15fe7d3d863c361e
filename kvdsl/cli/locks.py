"""kvspec.lock, found and read; what it says that the catalog does not.

Comes in: a shelf and a path. Goes out: locks and the figures that moved. Not its job: the form of a
lock (review.lock).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvdsl.cli.exits import CommandError
from kvdsl.render.characters import safe

if TYPE_CHECKING:
    from kvdsl.project.catalog import Figures
    from kvdsl.project.shelves import Shelf
    from kvdsl.review.facts import Moved
    from kvdsl.review.lock import Lock


def lock_on(shelf: Shelf, path: str) -> Lock | None:
    """The lock at a path; None where there is none. Raises CommandError where it is no lock."""
    from kvdsl.project.reading import Refusal
    from kvdsl.review.lock import BadLock, read_lock

    text = shelf.read(Path(path))
    if isinstance(text, Refusal):
        return None
    try:
        return read_lock(text)
    except BadLock as error:
        raise CommandError(f"cannot read `{safe(path)}`: {error}") from None


def lock_now(entries: Iterable[str]) -> Lock:
    """The lock of the installed catalog, of these entries."""
    from kvdsl.review.lock import lock_of
    from kvdsl.sketches import entry_facts

    return lock_of(entry_facts(entries))


def moved_between(old: Lock | None, new: Lock | None) -> tuple[Moved, ...]:
    """Figures of the catalog that moved from one side to the other: between their locks, or from
    the old side's lock to the installed catalog where the new side has none."""
    from kvdsl.review.lock import moves

    if old is None:
        return ()
    return moves(old, new if new is not None else lock_now(old.entries))


def old_figures(moved: Sequence[Moved]) -> Figures:
    """What entries said before, where it can be computed with."""
    from kvdsl.resolve.replay import replayable

    found: dict[str, dict[str, str | None]] = {}
    for move in moved:
        if replayable(move.path) and move.path != "meaning":
            before = move.before.value if move.before else None
            found.setdefault(move.entry, {})[move.path] = before
    return found
