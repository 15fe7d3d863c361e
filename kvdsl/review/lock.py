"""kvspec.lock: what the catalog's entries meant when somebody last agreed to it.

Comes in: facts of plans, or the text of a lock. Goes out: a `Lock`, its text, and the figures that
two of them have apart. A line a fact and an empty line between entries, sorted, so that git merges
what two branches add; a conflict is solved by writing it again, since a reading passes over what
stands between conflict marks. Not its job: finding the file (cli), or computing with old figures
(resolve).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from kvdsl.plan import Fact
from kvdsl.review.facts import Moved

FORMAT = 1
NAME = "kvspec.lock"
HEAD = f"""\
# What the catalog meant when these specs were last agreed on. Written by `kvdsl lock`.
# After a merge conflict, run `kvdsl lock` again.
kvspec-lock {FORMAT}
"""
MEANING = "meaning"
"""The path under which a change is told that no listed figure shows."""

LONGEST = 80
"""A fact of more characters is kept by its hash alone."""

_ENTRY = re.compile(r"\[(\w+\.\w+)\] ([0-9a-f]{16})")
_LINE = re.compile(r"([\w.\[\], ]+?) = (.+)")
_HASH = 16
"""Hexadecimal digits of the SHA-256 that are kept: enough that a change shows, and fit a line."""


class BadLock(Exception):
    """The text is no lock; the words say where."""


@dataclass(frozen=True, slots=True)
class Locked:
    """One entry: the hash of all its facts, and those that are short enough to be read."""

    digest: str
    figures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Lock:
    entries: Mapping[str, Locked] = field(default_factory=dict)


def lock_of(facts: Iterable[Fact]) -> Lock:
    """The lock of every catalog entry among the facts."""
    found: dict[str, dict[str, str]] = {}
    for fact in facts:
        if fact.entry:
            found.setdefault(fact.entry, {})[fact.path] = fact.value
    return Lock({entry: _locked(found[entry]) for entry in sorted(found)})


def _locked(values: Mapping[str, str]) -> Locked:
    lines = "".join(f"{path} = {values[path]}\n" for path in sorted(values))
    digest = sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    kept = {path: values[path] for path in sorted(values) if _listed(path, values[path])}
    return Locked(digest, kept)


def _listed(path: str, value: str) -> bool:
    return len(value) <= LONGEST and _LINE.fullmatch(f"{path} = {value}") is not None


def lock_text(lock: Lock) -> str:
    parts = [HEAD]
    for entry, locked in sorted(lock.entries.items()):
        lines = [f"[{entry}] {locked.digest}", *(f"{p} = {v}" for p, v in locked.figures.items())]
        parts.append("\n" + "\n".join(lines) + "\n")
    return "".join(parts)


def read_lock(text: str) -> Lock:
    """The lock of a text. What stands between the marks of a merge conflict is passed over, and
    with it the entry that it stands in. Raises BadLock."""
    entries: dict[str, Locked] = {}
    entry, digest = "", ""
    figures: dict[str, str] = {}
    whole = True

    def closed() -> None:
        if entry and whole:
            entries[entry] = Locked(digest, dict(figures))

    for number, line in _without_conflicts(text):
        if line is None:
            whole = False
            continue
        if named := _ENTRY.fullmatch(line):
            closed()
            entry, digest, whole = named[1], named[2], True
            figures = {}
        elif (said := _LINE.fullmatch(line)) and entry:
            figures[said[1]] = said[2]
        elif line.strip() and not line.startswith("#") and not _heads(line, number):
            raise BadLock(f"line {number} is no line of a lock")
    closed()
    return Lock(entries)


def _heads(line: str, number: int) -> bool:
    if not line.startswith("kvspec-lock "):
        return False
    if line != f"kvspec-lock {FORMAT}":
        raise BadLock(f"line {number}: this kvdsl reads `kvspec-lock {FORMAT}`")
    return True


def _without_conflicts(text: str) -> Iterator[tuple[int, str | None]]:
    """Lines with their numbers; None once for each conflict."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("<<<<<<<"):
            inside = True
            yield number, None
        elif line.startswith(">>>>>>>") and inside:
            inside = False
        elif not inside:
            yield number, line


def moves(before: Lock, after: Lock) -> tuple[Moved, ...]:
    """Figures of entries that both have. An entry whose hash moved and none of whose figures did
    has one move, `meaning`."""
    found: list[Moved] = []
    for entry in sorted(set(before.entries) & set(after.entries)):
        old, new = before.entries[entry], after.entries[entry]
        own = list(_moved(entry, old.figures, new.figures))
        if not own and old.digest != new.digest:
            one, two = (Fact(entry, MEANING, each.digest) for each in (old, new))
            own = [Moved(entry, MEANING, one, two)]
        found += own
    return tuple(found)


def _moved(entry: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Moved]:
    for path in dict.fromkeys((*new, *old)):
        one, two = old.get(path), new.get(path)
        if one != two:
            yield Moved(
                entry,
                path,
                None if one is None else Fact(entry, path, one),
                None if two is None else Fact(entry, path, two),
            )


def move_text(move: Moved) -> str:
    """`devices.h200_sxm: bandwidth 4.8 TB/s to 4.9 TB/s`."""
    before, after = move.before, move.after
    if before is not None and after is not None:
        if move.path == MEANING:
            return f"{move.entry}: its meaning changed"
        return f"{move.entry}: {move.path} {before.value} to {after.value}"
    if after is not None:
        return f"{move.entry}: {move.path} is now {after.value}"
    return f"{move.entry}: {move.path} was {before.value if before else ''} and is gone"
