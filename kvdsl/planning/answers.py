"""Four answers that a reader looks for first: does it fit, hold, what limits it, what is better.

Comes in: a plan with its bars, steps, findings and comparison. Goes out: an `Answer` each, in one
or two sentences of the plan's own figures. Not its job: figures that the plan has not (costs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from kvdsl.comparison import LABELS, ROWS
from kvdsl.diagnostics import Severity
from kvdsl.plan import Answer, Column, Finding, MemoryBar, Mood, Plan, RequirementResult
from kvdsl.units import BYTES, Quantity, counted, grouped, shown

MORE: Mapping[str, bool] = MappingProxyType({name: more for name, _, more in ROWS})
"""Whether more of a value is better."""

DECIDES = (
    "kv.tokens", "kv.sequences", "decode.tpot", "prefill.ttft", "decode.throughput",
    "cost.per_mtok", "gpus",
)  # fmt: skip
"""Values that a decision turns on; the others only say why."""

FITS, HOLDS, LIMITS, BETTER = (
    "Does it fit?", "Does it hold?", "What limits it?", "What would be better?",
)  # fmt: skip
WORTH = 0.02
"""A gain that is smaller is none: estimates are not that good."""

MOST_GAINS, MOST_LOSSES, MOST_NAMED = 3, 2, 2


def answers(plan: Plan) -> tuple[Answer, ...]:
    """None where there is no plan: its verdict has said why."""
    if plan.unplanned or not plan.memory:
        return ()
    return (_fits(plan), _holds(plan), *_limits(plan), _better(plan))


# --- does it fit -------------------------------------------------------------------------------


def _fits(plan: Plan) -> Answer:
    bar = max(plan.memory, key=lambda b: float(_taken(b).value) / float(b.usable.value or 1))
    taken, usable = _taken(bar), bar.usable
    where = f"on the fullest GPU ({bar.title}, {bar.device})"
    if bar.room.value <= 0:
        over = Quantity(taken.value - usable.value, BYTES)
        text = f"No: weights and reserve take {shown(taken)} {where}, and {shown(usable)} may be "
        return _answer(FITS, "bad", "memory", f"{text}used; {shown(over)} too much")
    free = Quantity(usable.value - taken.value, BYTES)
    loaded = any(s.group == "cache" for s in bar.segments)
    left = "stay free" if loaded else "are left for the cache"
    text = f"{shown(taken)} of {shown(usable)} taken {where}; {shown(free)} {left}"
    waiting = _waiting(plan)
    if waiting:
        return _answer(FITS, "warning", "memory", f"Not all at once: {waiting}", text)
    return _answer(FITS, "good", "memory", f"Yes: {text}")


def _answer(question: str, mood: Mood | Literal[""], section: str, *lines: str) -> Answer:
    return Answer(question, tuple(f"{line}." for line in lines), mood, section)


def _taken(bar: MemoryBar) -> Quantity:
    pieces = (s.quantity.value for s in bar.segments if s.group in ("weights", "reserve", "cache"))
    return Quantity(sum(pieces), BYTES)


def _waiting(plan: Plan) -> str:
    """What does not run at once; empty where all does."""
    runs, asked = _requests(plan, "kv.running")
    if runs is None or asked is None or asked.value <= runs.value:
        return ""
    return f"{grouped(runs.value)} of {counted(asked.value, 'requests')} run, the others wait"


def _requests(plan: Plan, name: str) -> tuple[Quantity | None, Quantity | None]:
    """A capacity in requests, and those that the workload has in flight."""
    fit, asked = plan.values.get(name), plan.values.get("workload.concurrency")
    return fit.quantity if fit else None, asked.quantity if asked else None


# --- does it hold ------------------------------------------------------------------------------


def _holds(plan: Plan) -> Answer:
    asked = [r for r in plan.requirements if r.keyword == "require"]
    failed = [r for r in plan.requirements if r.status == "fails"]
    hard = [r for r in failed if r.keyword == "require" and not r.waived]
    open_ = [r for r in asked if r.status == "unanswered" and not r.waived]
    mood: Mood = "bad" if hard or open_ else "warning" if failed else "good"
    section = "requirements" if plan.requirements else "findings"
    standing = _standing(plan)
    nouns = "requirements" if len(asked) == len(plan.requirements) else "conditions"
    if not plan.requirements:
        text = "The spec requires nothing"
    elif failed:
        said = "; ".join(_told(r) for r in failed[:MOST_NAMED])
        more = f"; and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
        every = len(plan.requirements)
        many = f"its {nouns[:-1]}" if every == 1 else f"{len(failed)} of {every} {nouns}"
        head = "By a waiver" if all(r.waived for r in failed) else "No"
        text = f"{head}, {many} {'fails' if len(failed) == 1 else 'fail'}: {said}{more}"
    elif open_:
        text = f"Unknown: {len(open_)} of {counted(len(asked), 'requirements')} cannot be judged"
    else:
        every = len(plan.requirements)
        all_of = "both" if every == 2 else f"all {every}"
        text = f"Yes: its {nouns[:-1]} holds" if every == 1 else f"Yes: {all_of} {nouns} hold"
        closest = min(_inequalities(plan.requirements), key=_nearness, default=None)
        if closest is not None:
            text += f", closest `{closest.text}`: {closest.margin}"
    return _answer(HOLDS, _worst(plan, mood), section, text, *([standing] if standing else []))


def _told(result: RequirementResult) -> str:
    value = f" is {shown(result.value)}, {result.margin}" if result.value is not None else ""
    waived = f" (waived: {result.waived})" if result.waived else ""
    return f"`{result.text}`{value}{waived}"


def _inequalities(results: Iterable[RequirementResult]) -> Iterator[RequirementResult]:
    for r in results:
        if r.value is not None and r.bound is not None and r.bound.value and r.margin != "equal":
            yield r


def _nearness(result: RequirementResult) -> float:
    assert result.value is not None
    assert result.bound is not None
    return abs(float(result.value.value) / float(result.bound.value) - 1)


def _standing(plan: Plan) -> str:
    """Findings that nobody allowed, but for those that say a condition fails."""
    found = []
    for severity, nouns in ((Severity.ERROR, "errors"), (Severity.WARNING, "warnings")):
        codes = [f.code for f in _open(plan) if f.severity is severity and f.code != "KV910"]
        if codes:
            named = ", ".join(dict.fromkeys(codes))
            found.append(f"{counted(len(codes), nouns)} ({named})")
    stand = "stands" if len(found) == 1 and found[0].startswith("1 ") else "stand"
    return f"{' and '.join(found)} {stand}" if found else ""


def _open(plan: Plan) -> tuple[Finding, ...]:
    return tuple(f for f in plan.findings if f.waived is None)


def _worst(plan: Plan, mood: Mood) -> Mood:
    found = {f.severity for f in _open(plan)}
    if Severity.ERROR in found:
        return "bad"
    return "warning" if mood == "good" and Severity.WARNING in found else mood


# --- what limits it ----------------------------------------------------------------------------


def _limits(plan: Plan) -> Iterator[Answer]:
    """Nothing where it does not fit: times of no request are none."""
    if any(bar.room.value <= 0 for bar in plan.memory):
        return
    said = []
    fit, asked = _requests(plan, "kv.sequences")
    if fit is not None and asked is not None:
        bound = "Memory" if asked.value > fit.value else "Not memory"
        said.append(f"{bound}: {counted(fit.value, 'requests')} fit, {grouped(asked.value)} asked")
    for phase, what in (("decode", "A token"), ("prefill", "A prompt")):
        bar = next((b for b in plan.steps if b.phase == phase), None)
        if bar is not None:
            said.append(f"{what}, {shown(bar.whole)}: {bar.roofline}")
    pools = plan.flow.pools if plan.flow else ()
    busy = [f"{p.name} {percent(p.busy)}" for p in pools if p.busy is not None]
    if busy:
        said.append(f"Of what they can do, the pools are busy for: {', '.join(busy)}")
    if said:
        yield _answer(LIMITS, "", "time" if plan.steps else "cache", *said)


def percent(share: Quantity) -> str:
    return f"{grouped(round(float(share.value) * 100, 2))} %"


# --- what would be better ----------------------------------------------------------------------


def _better(plan: Plan) -> Answer:
    compared = sorted(_beside(plan), key=lambda trade: len(trade.losses) - len(trade.gains))[:1]
    advised = [trade for trade in map(_advice, _open(plan)) if trade is not None]
    trades = [*compared, *advised[: MOST_NAMED - len(compared)]]
    section = "alternatives" if compared else "findings"
    if trades:
        lines = [str(trade) for trade in trades]
        if all(trade.losses for trade in trades):
            lines[0] = f"Nothing outright; {lines[0]}"
        return _answer(BETTER, "", section, *lines)
    beside = [c for c in plan.comparison.columns if not c.main] if plan.comparison else []
    if beside:
        names = ", ".join(column.name for column in beside)
        text = f"None of those compared ({names}) holds more, is faster or costs less"
        return _answer(BETTER, "", "alternatives", text)
    text = "No rule names a better layout; `compare` in the spec sets others beside it"
    return _answer(BETTER, "", "findings" if plan.findings else "", text)


@dataclass(frozen=True, slots=True)
class _Trade:
    """What another layout gains, and what it costs."""

    name: str
    gains: tuple[str, ...]
    losses: tuple[str, ...]

    def __str__(self) -> str:
        text = f"{self.name}: {', '.join(self.gains[:MOST_GAINS])}"
        return f"{text}; but {', '.join(self.losses[:MOST_LOSSES])}" if self.losses else text


def _beside(plan: Plan) -> Iterator[_Trade]:
    """Compared layouts that fit and gain something."""
    if plan.comparison is None:
        return
    main = next(c for c in plan.comparison.columns if c.main)
    for column in plan.comparison.columns:
        if not column.main and column.fits:
            gains, losses = _traded(main.values, column.values)
            if gains:
                yield _Trade(_named(column), gains, losses)


def _named(column: Column) -> str:
    return f"{column.name} ({column.text})" if column.text not in ("", column.name) else column.name


def _advice(finding: Finding) -> _Trade | None:
    """A finding's alternative; None where it gains nothing."""
    made = finding.alternative
    if made is None:
        return None
    before = {c.name: c.before for c in made.changes}
    gains, losses = _traded(before, {c.name: c.after for c in made.changes})
    return _Trade(f"{made.title} ({finding.code})", gains, losses) if gains else None


def _traded(
    before: Mapping[str, Quantity], after: Mapping[str, Quantity]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What gets better and what gets worse of that which decides."""
    gains: dict[str, str] = {}
    losses: dict[str, str] = {}
    for name in DECIDES:
        if name not in before or name not in after:
            continue
        old, new = float(before[name].value), float(after[name].value)
        if abs(new - old) <= WORTH * abs(old):
            continue
        into = gains if (new > old) == MORE[name] else losses
        if name == "kv.sequences" and "kv.tokens" in into:
            continue  # the same room, said in requests
        into[name] = f"{LABELS[name]} {shown(before[name])} → {shown(after[name])}"
    return tuple(gains.values()), tuple(losses.values())
