"""Charts of a pool: capacity over request length, time over requests in flight and over context.

Each point is the subject with another workload, through the same `estimate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kvdsl.costs import cache
from kvdsl.costs.admission import RUNNING
from kvdsl.costs.estimate import Estimate, estimate, memory_estimate, reloaded
from kvdsl.costs.pace import pace_of
from kvdsl.placement.placement import Placement
from kvdsl.plan import Chart, Series
from kvdsl.spec.workload import Workload
from kvdsl.units import counted, grouped

LENGTHS = tuple(1024 * 2**n for n in range(11))
"""Where no model says how far it goes."""

MOST_POINTS = 13
"""Numbers of requests that a chart looks at, beside the workload's own."""


def charts(found: Estimate, compared: Mapping[str, Estimate]) -> tuple[Chart, ...]:
    """The charts of one pool; compared layouts are further lines of the first."""
    subject = found.subject
    if not found.fits or subject.workload.classes:
        return ()
    made = [_capacity(found, compared)]
    if found.decode is not None and subject.workload.concurrency is not None:
        made += [_over_load(found), *_fitted_over_load(found), _over_context(found)]
    return tuple(made)


def _fitted_over_load(found: Estimate) -> Iterator[Chart]:
    """TTFT and output a GPU over requests in flight, where times are an engine's."""
    if pace_of(found.subject) is None or found.subject.workload.context is not None:
        return
    gpus = found.number("gpus")
    asked = float(found.load.asked.value) if found.load else 0.0
    most = float(found.values[RUNNING].value)
    counts = in_flight(most, asked)
    marks = ((asked, "the workload"), (most, "full"))
    if "prefill.ttft" in found.values:
        line = _points(counts, lambda count: _step(found, "prefill.ttft", concurrency=count))
        yield Chart(
            "ttft_over_load", "Time to the first token over requests in flight",
            "Milliseconds to the first token against requests in flight; "
            f"{grouped(most)} run at once.",
            "requests in flight", "req", "time to the first token", "ms",
            (Series("TTFT", tuple(line), main=True),), marks, log_x=True, log_y=True,
        )  # fmt: skip

    def rate(count: int) -> float:
        return _step(found, "decode.throughput", concurrency=count) / 1e3 / gpus

    yield Chart(
        "rate_over_load", "Output of a GPU over requests in flight",
        f"Output tokens a second and GPU against requests in flight; {grouped(most)} run at once.",
        "requests in flight", "req", "output of a GPU", "tok/s",
        (Series("output", tuple(_points(counts, rate)), main=True),), marks, log_x=True,
    )  # fmt: skip


def in_flight(most: float, asked: float) -> tuple[int, ...]:
    """Requests in flight from one to past what fits and what is asked: powers of two, every
    second where those are too many, and what is asked itself."""
    last = max(most, asked) * 2
    powers = [2**n for n in range(64) if 2**n <= last]
    every = -(-len(powers) // (MOST_POINTS - 1)) or 1
    counts = powers[::-every]  # from the last, which is past all
    return tuple(sorted({1, *counts, int(asked)} - {0}))


def _with(found: Estimate, **changes: int) -> Placement:
    """The estimate's placement with another length or number of requests."""
    said = found.subject.workload
    concurrency = changes.get("concurrency", said.concurrency or 1)
    if said.context is None and "context" not in changes and pace_of(found.subject) is not None:
        # Prompts of others take their share of a token's time: lengths stay as they are.
        return reloaded(found, said.model_copy(update={"concurrency": concurrency, "rate": None}))
    workload = Workload(
        prefix_hits=said.prefix_hits,
        concurrency=concurrency,
        context=changes.get("context", said.held or 1),
    )
    return reloaded(found, workload)


def _step(found: Estimate, name: str, **changes: int) -> float:
    """A time in milliseconds under another workload."""
    placement = _with(found, **changes)
    return estimate(placement.subject, placement).number(name) * 1e3


def _points(values: tuple[int, ...], of: Callable[[int], float]) -> Iterator[tuple[float, float]]:
    for value in values:
        y = of(value)
        if y > 0:
            yield float(value), y


def lengths_of(found: Estimate) -> tuple[int, ...]:
    """Lengths of a request that a chart looks at: doubled up to the longest that the model takes,
    or the workload's own where that is longer, which a finding tells."""
    most = found.subject.model.max_context
    if most is None:
        return LENGTHS
    last = max(int(most), int(cache.held_tokens(found.subject)))
    first = min(LENGTHS[0], max(1, last // 4))
    return (*(first * 2**n for n in range(64) if first * 2**n < last), last)


def _capacity(found: Estimate, compared: Mapping[str, Estimate]) -> Chart:
    lengths = lengths_of(found)

    def line(name: str, made: Estimate, *, main: bool) -> Series:
        def requests(length: int) -> float:
            placement = _with(made, context=length)
            one = memory_estimate(placement.subject, placement)
            return float(one.values["kv.sequences"].value)

        return Series(name, tuple(_points(lengths, requests)), main)

    title = found.subject.degrees.name or "this layout"
    lines = [line(title, found, main=True)]
    lines += [line(name, other, main=False) for name, other in compared.items() if other.fits]
    held = cache.held_tokens(found.subject)
    return Chart(
        "capacity",
        "Whole requests that fit, by their length",
        f"Requests that fit against tokens of a request, from {lengths[0]:,} to {lengths[-1]:,}; "
        f"{grouped(found.values['kv.sequences'].value)} at {counted(held, 'tokens')}.",
        "tokens of a request",
        "tok",
        "requests",
        "req",
        tuple(lines),
        ((float(held), "the workload"),),
        log_x=True,
        log_y=True,
    )


def _over_load(found: Estimate) -> Chart:
    asked = float(found.load.asked.value) if found.load else 0.0
    most = float(found.values[RUNNING].value)
    counts = in_flight(most, asked)

    def tpot(count: int) -> float:
        return _step(found, "decode.tpot", concurrency=count)

    lines = [Series("TPOT", tuple(_points(counts, tpot)), main=True)]
    for end in ("low", "high"):
        name = f"decode.tpot_{end}"
        if name in found.values:

            def bound(count: int, name: str = name) -> float:
                return _step(found, name, concurrency=count)

            lines.append(Series(f"TPOT, {end} end of nine in ten", tuple(_points(counts, bound))))
    return Chart(
        "tpot_over_load",
        "Time of a token over requests in flight",
        f"Milliseconds a token against requests in flight; {grouped(most)} run at once.",
        "requests in flight",
        "req",
        "time of a token",
        "ms",
        tuple(lines),
        ((asked, "the workload"), (most, "full")),
        log_x=True,
    )


def _over_context(found: Estimate) -> Chart:
    lengths = lengths_of(found)

    def tpot(length: int) -> float:
        return _step(found, "decode.tpot", context=length)

    def ttft(length: int) -> float:
        return _step(found, "prefill.ttft", context=length)

    lines = [Series("TPOT", tuple(_points(lengths, tpot)), main=True)]
    if found.prefill is not None:
        lines.append(Series("TTFT, unqueued", tuple(_points(lengths, ttft))))
    return Chart(
        "time_over_context",
        "Time of a token and to the first token, by context",
        f"Milliseconds against tokens of context, from {lengths[0]:,} to {lengths[-1]:,}; where "
        "fewer requests fit than are asked, those that fit run.",
        "tokens of context",
        "tok",
        "time",
        "ms",
        tuple(lines),
        ((float(cache.held_tokens(found.subject)), "the workload"),),
        log_x=True,
        log_y=True,
    )
