"""What two deployments say differently: the author's changes, and the catalog's.

Comes in: the facts of two plans. Goes out: `SpecChange`s, and the catalog's facts that moved. A
catalog entry that only one side uses is the author's choice and no change of the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kvdsl.difference import Sign, SpecChange
from kvdsl.plan import Fact

Facts = Mapping[tuple[str, str], Fact]


@dataclass(frozen=True, slots=True)
class Moved:
    """A fact of a catalog entry before and after; one is None where that side has none."""

    entry: str
    path: str
    before: Fact | None
    after: Fact | None

    @property
    def sign(self) -> Sign:
        return "~" if self.before and self.after else "-" if self.before else "+"


def by_key(facts: Iterable[Fact]) -> dict[tuple[str, str], Fact]:
    return {fact.key: fact for fact in facts}


def spec_changes(before: Facts, after: Facts) -> tuple[SpecChange, ...]:
    """In the order of the new spec, what is gone behind its neighbours of the old one."""
    return tuple(_changes(before, after))


def _changes(before: Facts, after: Facts) -> Iterator[SpecChange]:
    for key in _order(before, after):
        if key[0]:
            continue
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            yield SpecChange("+", key[1], "", _told(new))
        elif new is None and old is not None:
            yield SpecChange("-", key[1], _told(old), "")
        elif old is not None and new is not None and old.value != new.value:
            texts = (old.written, new.written)
            # One `let` under both: what it stands for has changed, not what is written here.
            told = texts if all(texts) and texts[0] != texts[1] else (old.value, new.value)
            yield SpecChange("~", key[1], *told)


def _told(fact: Fact) -> str:
    return fact.written or fact.value


def _order(before: Facts, after: Facts) -> Iterator[tuple[str, str]]:
    """Keys of `after` in their order, those that are gone behind what they stood behind."""
    behind: dict[tuple[str, str] | None, list[tuple[str, str]]] = {}
    last: tuple[str, str] | None = None
    for key in before:
        if key in after:
            last = key
        else:
            behind.setdefault(last, []).append(key)
    yield from behind.get(None, ())
    for key in after:
        yield key
        yield from behind.get(key, ())


def moved(before: Facts, after: Facts) -> Iterator[Moved]:
    """Facts of entries that both sides use and that differ."""
    used = {key[0] for key in before} & {key[0] for key in after} - {""}
    for key in _order(before, after):
        if key[0] not in used:
            continue
        old, new = before.get(key), after.get(key)
        if (old.value if old else None) != (new.value if new else None):
            yield Moved(*key, old, new)
