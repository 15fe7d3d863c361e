"""The verdict, the strip of key figures, and the lists of what was assumed and cited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvdsl.costs.admission import RUNNING
from kvdsl.costs.money import default_price
from kvdsl.diagnostics import Severity
from kvdsl.formulas import Term
from kvdsl.plan import Comparison, Entry, Finding, Mood, RequirementResult, Tile, Verdict
from kvdsl.spec.vocabulary import INPUTS
from kvdsl.units import UNITS, Quantity, counted, grouped, shown

COUNTED = "counted from "
"""How the note of a figure begins that was counted from a model's declaration."""

IDEAL = (
    "every efficiency is 1, nothing overlaps, no overheads; all resident weights are read in each "
    "step, an embedding's whole table too, but of routed experts those that its tokens hit; decode "
    "does not wait for prefill on the same devices"
)
"""What `time = ideal` means."""

FITTED = (
    "the engine's pace: launches, shares of the peaks and waits fitted to measurements of other "
    "deployments; a measurement lies in the band of nine of ten unless its build is another"
)
"""What `time = fitted` means."""

UNFITTED = "efficiencies of the links; the engine has no pace, so kernels and launches cost nothing"
"""What it means under an engine without fitted constants."""

EQUAL = 0.05
"""Capacities closer than this are told as equal in the verdict: its ratio has one decimal."""


def verdict(
    values: Mapping[str, Term],
    requirements: Sequence[RequirementResult],
    findings: Sequence[Finding],
    comparison: Comparison | None,
    decoding: int | None = None,
) -> Verdict:
    """One sentence with the answer. `decoding` are the GPUs of pools that hold the cache, where
    others only prefill."""
    open_findings = [f for f in findings if f.waived is None]
    errors = [f for f in open_findings if f.severity is Severity.ERROR]
    if not values:
        count = counted(len(errors), "errors")
        return Verdict("bad", f"Cannot be planned: {errors[0].diagnostic.headline} ({count})."
                       if errors else "Cannot be planned.")  # fmt: skip
    room = values["memory.kv"].value
    if room <= 0:
        return Verdict("bad", f"Does not fit: {errors[0].diagnostic.headline}." if errors
                       else "Does not fit: no room is left for a cache.")  # fmt: skip
    tokens = values["kv.tokens"].quantity
    gpus = counted(values["gpus"].value, "GPUs")
    if decoding is not None and decoding != values["gpus"].value:
        gpus = f"the {grouped(decoding)} of {gpus} that decode"
    text = f"Fits: {counted(compact(tokens), 'tokens')} of KV on {gpus}"
    text += _against(comparison) + _crowded(values, open_findings)
    failing = fail(requirements)
    mood: Mood = "good"
    if failing:
        text, mood = text + failing, "bad"
    elif errors:
        text, mood = f"{text}; {counted(len(errors), 'errors')}", "bad"
    else:
        text += all_hold(requirements)
        warned = any(f.severity is Severity.WARNING for f in open_findings)
        allowed = any(r.waived for r in requirements)
        mood = "warning" if warned or allowed else "good"
    return Verdict(mood, text + ".")


def _crowded(values: Mapping[str, Term], findings: Sequence[Finding]) -> str:
    """What a sentence of success must not leave out: requests that wait, prompts that pile up."""
    codes = {f.code for f in findings}
    said = ""
    if "KV202" in codes:
        runs, asked = values[RUNNING].value, values.get("workload.concurrency")
        if asked is None:
            said += f"; only {counted(runs, 'requests')} run at once"
        elif runs < asked.value:
            many = counted(asked.value, "requests")
            said += f"; only {grouped(runs)} of {many} run at once"
        else:
            fit, many = values["kv.sequences"].value, counted(asked.value, "requests")
            said += f"; only {grouped(fit)} of {many} fit whole"
    if "KV203" in codes:
        said += "; prompts arrive faster than they are prefilled"
    return said


def fail(requirements: Sequence[RequirementResult]) -> str:
    """How many of the requirements fail, behind a sentence; empty where none does, but by an
    `allow`."""
    failed = [r for r in requirements if r.status == "fails" and r.keyword == "require"]
    if all(r.waived for r in failed):
        return ""
    held = sum(r.status == "holds" for r in requirements if r.keyword == "require")
    whole = sum(r.keyword == "require" for r in requirements)
    waived = sum(bool(r.waived) for r in failed)
    beside = f", {waived} waived" if waived else ""
    if held:
        return f"; {len(failed)} of {whole} requirements fail{beside}"
    one = "; the requirement fails"
    return f"; none of {whole} requirements holds{beside}" if whole > 1 else one


def all_hold(requirements: Sequence[RequirementResult]) -> str:
    asked = [r for r in requirements if r.keyword == "require"]
    judged = [r for r in asked if r.status == "holds"]
    waived = sum(bool(r.waived) for r in asked)
    if not asked:
        return ""
    if waived and len(asked) == 1:
        return "; the requirement does not hold and is waived"
    if waived:
        return f"; {len(judged)} of {len(asked)} requirements hold, {waived} waived"
    if len(judged) < len(asked):
        return f"; {len(judged)} of {len(asked)} requirements judged, all hold"
    if len(asked) == 1:
        return "; its requirement holds"
    return f"; {'both' if len(asked) == 2 else f'all {len(asked)}'} requirements hold"


def _against(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    main = next(c for c in comparison.columns if c.main)
    others = [c for c in comparison.columns if not c.main and c.fits and "kv.tokens" in c.values]
    if not others or "kv.tokens" not in main.values:
        return ""
    other = max(others, key=lambda c: c.values["kv.tokens"].value)
    held = float(other.values["kv.tokens"].value)
    times = float(main.values["kv.tokens"].value) / held if held else 0.0
    if abs(times - 1) < EQUAL:
        return f", as many as {other.name}"
    return f", {times:.1f}x what {other.name} holds" if held else ""


def compact(quantity: Quantity) -> str:
    """`1.40 M`, `652 k`, `812`: three digits."""
    value = float(quantity.value)
    for factor, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            number = value / factor
            digits = 2 if number < 10 else 1 if number < 100 else 0
            return f"{number:.{digits}f}{letter}"
    return grouped(quantity.value)


def tiles(values: Mapping[str, Term], price_per_mtok: str = "USD/Mtok") -> tuple[Tile, ...]:
    return tuple(_tiles(values, price_per_mtok))


def _tiles(values: Mapping[str, Term], money: str) -> Iterator[Tile]:
    if not values:
        return
    gpus = float(values["gpus"].value)
    yield Tile("GPUs", grouped(values["gpus"].value), "", "hold a rank", "gpus")
    tokens = values["kv.tokens"].quantity
    yield Tile("KV tokens", compact(tokens), "tok", grouped(tokens.value), "kv.tokens")
    requests = values["kv.sequences"].quantity
    size, copies = values["kv.bytes_per_request"].quantity, values["kv.copies"].value
    stored = "" if copies == 1 else f"{float(copies):.3g} x "
    each = f"of {stored}{shown(size)} each"
    yield Tile("Requests that fit", grouped(requests.value), "req", each,
               "kv.sequences")  # fmt: skip
    weights = values["memory.weights"].quantity
    figure, unit = shown(weights).rsplit(" ", 1)
    room = values["memory.kv"].quantity
    fits = room.value > 0
    left = f"{shown(room)} left for cache"
    if not fits:
        left = f"{shown(Quantity(-room.value, room.dimension))} too much, with the reserve"
    yield Tile("Weights on the fullest GPU", figure, unit, left, "memory.weights")
    if not fits:
        return  # times of no request are none
    for name, label, below in (
        ("prefill.ttft", "TTFT", "mean time to the first token"),
        ("decode.tpot", "TPOT", "a token's way through all stages"),
    ):
        if name in values:
            figure, _, unit = shown(values[name].quantity).rpartition(" ")
            said = below
            if f"{name}_low" in values:
                ends = [shown(values[f"{name}_{end}"].quantity) for end in ("low", "high")]
                said = f"nine of ten runs: {ends[0]} to {ends[1]}"
            yield Tile(label, figure or unit, unit if figure else "", said, name)
    if "decode.throughput" in values:
        rate = float(values["decode.throughput"].value)
        yield Tile("Output per GPU", grouped(rate / gpus), "tok/s", f"{grouped(rate)} tok/s in all",
                   "decode.throughput")  # fmt: skip
    if "cost.per_mtok" in values:
        price = float(values["cost.per_mtok"].value) * float(UNITS["Mtok"][1])
        said = ", ".join(filter(None, ("of output", default_price(values["cost.per_mtok"]))))
        yield Tile("Cost", f"{price:.2f}", money, said, "cost.per_mtok")


def assumptions(values: Mapping[str, Term], *, ideal: bool) -> tuple[Entry, ...]:
    """Every leaf that nobody wrote: defaults, and what was taken where nothing gives it."""
    found: dict[tuple[str, str, str], Entry] = {}
    for term in _leaves(values):
        if term.basis in ("assumed", "default"):
            entry = Entry(term.label, shown(term.quantity), term.note, term.basis, term.span)
            found.setdefault((entry.label, entry.figure, entry.note), entry)
    every = [*times(values, ideal=ideal), *found.values()]
    return tuple(sorted(every, key=lambda e: (e.source, e.label, e.figure)))


def times(values: Mapping[str, Term], *, ideal: bool) -> tuple[Entry, ...]:
    """What the times of a plan are; nothing where it has none."""
    if not values:
        return ()
    time = Entry("times", "ideal", IDEAL, "assumed", None)
    if not ideal:
        note = FITTED if "decode.launches" in values else UNFITTED
        time = Entry("times", "fitted", note, "assumed", None)
    return (time,)


def sources(values: Mapping[str, Term]) -> tuple[Entry, ...]:
    """Every catalog figure that entered, with its citation."""
    found: dict[tuple[str, str, str], Entry] = {}
    for term in _leaves(values):
        if term.basis == "catalog" and term.source:
            entry = Entry(term.label, shown(term.quantity), term.note, term.source, term.span)
            if term.note.startswith(COUNTED):
                # Hundreds of counts follow from one declaration: it is cited once.
                entry = Entry("shape of the model", "", term.note, term.source, term.span)
            found.setdefault((entry.label, entry.figure, entry.source), entry)
    return tuple(sorted(found.values(), key=lambda e: (e.label, e.figure, e.source)))


def _leaves(values: Mapping[str, Term]) -> Iterator[Term]:
    for name in sorted(set(values) - set(INPUTS)):  # an input only says itself again
        yield from values[name].leaves()
