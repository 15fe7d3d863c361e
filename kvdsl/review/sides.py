"""One side of a comparison: the plans of its files, and the files that gave none.

Comes in: plans by the name of their file. Goes out: a `Side`, and which deployment of one side is
which of the other: by file and name, else by what it says. Not its job: reading files (project,
pipeline).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from kvdsl.difference import Trouble
from kvdsl.plan import Plan

ALIKE = 0.5
"""Of what two deployments say, so much must be the same for one to be the other, renamed: the
default of `git diff --find-renames`."""


@dataclass(frozen=True, slots=True)
class Sketches:
    """Plans of one file without pictures, and what its fleets come to, in the same form; `broken`
    are deployments that could not be resolved."""

    plans: tuple[Plan, ...] = ()
    fleets: tuple[Plan, ...] = ()
    broken: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    title: str
    files: Mapping[str, Sketches] = field(default_factory=dict)

    def plans(self) -> Iterator[Plan]:
        for sketches in self.files.values():
            yield from sketches.plans
            yield from sketches.fleets

    def sums(self, plan: Plan) -> bool:
        """Whether it is that of a fleet."""
        return any(plan is each for sketches in self.files.values() for each in sketches.fleets)


@dataclass(frozen=True, slots=True)
class Pair:
    """A deployment or fleet on both sides, or on one."""

    before: Plan | None
    after: Plan | None


Key = tuple[str, str]
Said = frozenset[tuple[str, str]]

MOST_PAIRS = 40_000
"""So many pairs are compared for a renamed deployment; git stops at a like number of files."""

MOST_ALIKE = 16
"""Of equals one is as good as another."""


def pairs(old: Side, new: Side) -> tuple[Pair, ...]:
    """Every deployment of either side, those of the new side first, in their order."""
    before = {(plan.file, plan.name): plan for plan in old.plans()}
    after = {(plan.file, plan.name): plan for plan in new.plans()}
    known = {key: key for key in after if key in before}
    known |= _renamed(
        {key: plan for key, plan in before.items() if key not in known},
        {key: plan for key, plan in after.items() if key not in known},
    )
    found = [Pair(before.get(known.get(key, ("", ""))), plan) for key, plan in after.items()]
    taken = set(known.values())
    return (*found, *(Pair(plan, None) for key, plan in before.items() if key not in taken))


def _renamed(lost: Mapping[Key, Plan], came: Mapping[Key, Plan]) -> dict[Key, Key]:
    """New keys with the old ones that they were, the most alike first; each is taken once."""
    said = {key: _said(plan) for key, plan in (*lost.items(), *came.items())}
    scored = sorted(
        (
            (_score(key, other, said[key], said[other]), key, other)
            for key, other in _candidates(lost, came, said)
        ),
        key=lambda each: (-each[0], each[1], each[2]),
    )
    found: dict[Key, Key] = {}
    taken: set[Key] = set()
    for score, key, other in scored:
        if score >= ALIKE and key not in found and other not in taken:
            found[key] = other
            taken.add(other)
    return found


def _candidates(
    lost: Iterable[Key], came: Iterable[Key], said: Mapping[Key, Said]
) -> Iterator[tuple[Key, Key]]:
    """Pairs that may be one deployment: all of them, or where they are too many those of one name,
    those of one file and those that say the very same."""
    old, new = list(lost), list(came)
    if len(old) * len(new) <= MOST_PAIRS:
        yield from product(new, old)
        return
    by_trait: dict[object, list[Key]] = {}
    for key in old:
        for trait in _traits(key, said[key]):
            by_trait.setdefault(trait, []).append(key)
    for key in new:
        near = [
            o for trait in _traits(key, said[key]) for o in by_trait.get(trait, ())[:MOST_ALIKE]
        ]
        yield from ((key, other) for other in dict.fromkeys(near))


def _traits(key: Key, said: Said) -> tuple[object, ...]:
    return ("file", key[0]), ("name", key[1]), said


def _said(plan: Plan) -> Said:
    return frozenset((fact.path, fact.value) for fact in plan.facts if not fact.entry)


def _score(key: Key, other: Key, one: Said, two: Said) -> float:
    """The share of what either says that both say; one that keeps its name or file goes first."""
    whole = one | two
    alike = len(one & two) / len(whole) if whole else 0.0
    if alike < ALIKE:
        return 0.0
    return alike + (key[1] == other[1]) + (key[0] == other[0]) / 2
