"""The difference of two sides.

Comes in: two sides, where wanted the new spec under the old catalog (`between`), and thresholds.
Goes out: a `Difference`. Equal sides give an empty one. Not its job: words (render).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from kvdsl.comparison import ECHOES, LABELS
from kvdsl.difference import (
    DeploymentChange,
    Difference,
    FigureChange,
    FindingChange,
    Flip,
    State,
    Trouble,
    ValueChange,
)
from kvdsl.formulas import Term
from kvdsl.plan import Finding, Plan
from kvdsl.requirements import JUDGED
from kvdsl.review.conditions import agreed_flips, flips, same_condition
from kvdsl.review.facts import Moved, by_key, moved, spec_changes
from kvdsl.review.movers import movers
from kvdsl.review.sides import Pair, Side, pairs
from kvdsl.review.thresholds import Asked, regressions, tidy, worth
from kvdsl.spec.vocabulary import INPUTS

PLAIN = Asked()


def difference(
    old: Side,
    new: Side,
    asked: Asked = PLAIN,
    between: Side | None = None,
    replayed: frozenset[tuple[str, str]] = frozenset(),
    moves: Sequence[Moved] = (),
) -> Difference:
    """What changed from `old` to `new`. `moves` are figures of the catalog that are known to have
    moved beside those that the plans show; `replayed` those that `old` was computed with."""
    middle = {(plan.file, plan.name): plan for plan in between.plans()} if between else {}
    changed: list[DeploymentChange] = []
    unchanged = 0
    figures: dict[tuple[str, str], tuple[Moved, list[str]]] = {}
    for pair in pairs(old, new):
        one = _change(pair, asked, middle, (old, new))
        if one is None:
            unchanged += 1
        else:
            changed.append(one)
        for move in _moves(pair):
            figures.setdefault((move.entry, move.path), (move, []))[1].append(_name(pair))
    for move in moves:
        figures.setdefault((move.entry, move.path), (move, []))
    made = Difference(
        old.title,
        new.title,
        tuple(sorted(changed, key=_gravest)),
        tuple(_figures(figures.values(), replayed)),
        tuple(_troubles(old, new)),
        unchanged=unchanged,
    )
    return replace(made, regressions=regressions(made, asked))


def _name(pair: Pair) -> str:
    plan = pair.after or pair.before
    assert plan is not None
    return plan.name


def _gravest(change: DeploymentChange) -> tuple[int, float, str, str]:
    """Broken requirements first, then the largest changes for the worse."""
    broken = sum(flip.broken for flip in change.flips)
    errors = sum(f.waived is None and f.severity.rank == 0 for f in change.found("new"))
    worse = [abs(v.ratio or 0) for v in change.values if v.worth == "worse"]
    unreadable = change.state == "unreadable"
    return -(broken + errors + unreadable), -max(worse, default=0.0), change.file, change.name


# --- one deployment ----------------------------------------------------------------------------


def _change(
    pair: Pair, asked: Asked, middle: Mapping[tuple[str, str], Plan], of: tuple[Side, Side]
) -> DeploymentChange | None:
    before, after = pair.before, pair.after
    plan = after or before
    assert plan is not None
    facts = by_key(before.facts if before else ()), by_key(after.facts if after else ())
    both = before is not None and after is not None
    spec = spec_changes(*facts) if both else ()
    fleet = any(side.sums(plan) for side in of)
    values = tidy(_values(before, after, middle.get((plan.file, plan.name))))
    if fleet:  # a sum is no part of another
        values = tuple(replace(value, main=True) for value in values)
    told = tuple(value for value in values if asked.told(value))
    wanted = agreed_flips(before, after)
    found = tuple(flips(before, after))
    findings = tuple(_findings(before, after, wanted))
    state = _state(pair, *of)
    fresh = any(f.moved for f in findings) or any(not flip.settled for flip in found)
    if both and state == "changed" and not (spec or told or fresh):
        return None
    still = both and not spec and not any(True for _ in moved(*facts))
    still = still and not any(flip.reworded or flip.lone for flip in wanted)
    return DeploymentChange(
        plan.name,
        plan.file,
        state,
        before.name if before and after and before.name != after.name else "",
        before.file if before and after and before.file != after.file else "",
        before.verdict if before else None,
        after.verdict if after else None,
        spec,
        told,
        found,
        findings,
        len(values) - len(told),
        # What a fleet is made of moves with its deployments, which are told beside it.
        compiler=still and not fleet and bool(values or fresh),
        kind="fleet" if fleet else "deployment",
    )


def _state(pair: Pair, old: Side, new: Side) -> State:
    before, after = pair.before, pair.after
    if before is None and after is not None:
        return "mended" if _is_broken(old, after) else "added"
    if after is None and before is not None:
        return "unreadable" if _is_broken(new, before) else "removed"
    assert before is not None
    assert after is not None
    same = (before.file, before.name) == (after.file, after.name)
    return "changed" if same else "renamed"


def _is_broken(side: Side, plan: Plan) -> bool:
    """Whether that side has the deployment, or its file, and cannot resolve it."""
    sketches = side.files.get(plan.file)
    if sketches is None:
        return False
    return plan.name in sketches.broken or (bool(sketches.troubles) and not sketches.plans)


def _values(before: Plan | None, after: Plan | None, between: Plan | None) -> list[ValueChange]:
    old = before.values if before else {}
    new = after.values if after else {}
    found = []
    for name in dict.fromkeys((*(n for n in LABELS if n in new), *new, *old)):
        if name in INPUTS or (name.startswith("pools.") and name.split(".", 2)[2] in INPUTS):
            continue  # what the author wrote is told as that
        if all(_echoed(name, values) for values in (old, new)):
            continue
        one, two = old.get(name), new.get(name)
        a, b = one.quantity if one else None, two.quantity if two else None
        term = two or one
        way = movers(one, two) if one and two and one.value != two.value else ()
        middle = between.values[name].quantity if between and name in between.values else None
        label = LABELS.get(name) or (term.label if term else "") or name
        found.append(ValueChange(name, label, a, b, worth(name, a, b), way, middle, name in LABELS))
    return found


def _echoed(name: str, values: Mapping[str, Term]) -> bool:
    """Whether a value tells nothing that another has not told."""
    own, first = values.get(name), values.get(ECHOES.get(name, ""))
    return name in ECHOES and (own is None or (first is not None and own.value == first.value))


# --- requirements and findings -----------------------------------------------------------------


def _findings(
    before: Plan | None, after: Plan | None, wanted: Sequence[Flip]
) -> Iterator[FindingChange]:
    """By code: as many as there are on both sides stay, the same words first. Failed requirements
    are told as such; what a policy wants is one finding on both sides, whatever its bound."""
    old, new = _open(before), _open(after)
    for finding in new:
        flip = _flip_of(finding, wanted, after=True)
        same = (
            next((f for f in old if _alike(f, finding)), None)
            or next((f for f in old if flip and _flip_of(f, wanted, after=False) is flip), None)
            or next((f for f in old if _of_a_kind(f, finding) and not _again(f, new)), None)
        )
        if same is None:
            yield FindingChange("new", finding, flip)
            continue
        old.remove(same)  # of plans that were kept, nobody knows what policies wanted
        yield FindingChange("still", finding, None if flip is None or flip.lone else flip)
    waived = [f for f in _not_judged(after) if f.waived is not None]
    for finding in old:
        now = next((f for f in waived if _alike(f, finding)), None) or next(
            (f for f in waived if f.code == finding.code), None
        )
        if now is not None:
            waived.remove(now)
            yield FindingChange("waived", now)
        else:
            yield FindingChange("gone", finding, _flip_of(finding, wanted, after=False))


def _not_judged(plan: Plan | None) -> list[Finding]:
    return [f for f in (plan.findings if plan else ()) if f.code not in JUDGED]


def _open(plan: Plan | None) -> list[Finding]:
    return [f for f in _not_judged(plan) if f.waived is None]


def _flip_of(finding: Finding, wanted: Sequence[Flip], *, after: bool) -> Flip | None:
    """What a policy wants, where a finding is that a deployment does not meet it."""
    agreed = finding.agreed
    if agreed is None:
        return None
    return next((flip for flip in wanted if same_condition(agreed, flip, after=after)), None)


def _alike(one: Finding, other: Finding) -> bool:
    return (one.code, one.diagnostic.headline) == (other.code, other.diagnostic.headline)


def _of_a_kind(one: Finding, other: Finding) -> bool:
    return one.code == other.code and one.agreed is None and other.agreed is None


def _again(finding: Finding, others: Iterable[Finding]) -> bool:
    """Whether the other side has a finding with the very words, which this one waits for."""
    return any(_alike(finding, other) for other in others)


# --- the catalog -------------------------------------------------------------------------------


def _moves(pair: Pair) -> Iterator[Moved]:
    if pair.before is not None and pair.after is not None:
        yield from moved(by_key(pair.before.facts), by_key(pair.after.facts))


def _figures(
    found: Iterable[tuple[Moved, list[str]]], replayed: frozenset[tuple[str, str]]
) -> Iterator[FigureChange]:
    for move, names in sorted(found, key=lambda each: (each[0].entry, each[0].path)):
        after = move.after
        yield FigureChange(
            move.sign,
            move.entry,
            move.path,
            move.before.value if move.before else "",
            after.value if after else "",
            after.source if after else "",
            tuple(dict.fromkeys(names)),
            (move.entry, move.path) in replayed or bool(names),
        )


def _troubles(old: Side, new: Side) -> Iterator[Trouble]:
    """Faults of the new side, then of the old one where the new one is sound: a file that was
    broken before and still is, is told once."""
    before = {file for file, sketches in old.files.items() if sketches.troubles}
    after = {file for file, sketches in new.files.items() if sketches.troubles}
    for file, sketches in new.files.items():
        side: Literal["both", "after"] = "both" if file in before else "after"
        yield from (replace(trouble, side=side) for trouble in sketches.troubles)
    for file, sketches in old.files.items():
        if file in new.files and file not in after:
            yield from (replace(trouble, side="before") for trouble in sketches.troubles)
