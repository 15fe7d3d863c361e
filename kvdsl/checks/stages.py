"""Rules on stages: what must add up, what is uneven, what idles."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvdsl.checks.study import Fact, Study, Suggestion
from kvdsl.costs.estimate import Estimate
from kvdsl.diagnostics import Severity
from kvdsl.placement.placement import stage_layers
from kvdsl.rules import Rule, rule
from kvdsl.units import BYTES, Quantity, counted, grouped, shown, tidy


@rule(
    "KV130",
    "wrong-stages",
    Severity.ERROR,
    "subject",
    "{fault}",
    label="{sum}",
    helps=("{fix}",),
)
def wrong_stages(study: Study) -> Iterator[Fact]:
    """The layers of the stages add up to the model's.

    What it checks
        `stages` has an entry for each of `pp` stages, the entries add up to the model's layers,
        and there are no more stages than layers.

    Why it matters
        A layer that is in no stage is not served.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 4; pp = 2; stages = [40, 39] }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 32 req }
        }

    Instead
        Leave `stages` out for an even split, or make it add up.

        deployment better extends served { layout = { tp = 4; pp = 2 } }
    """
    degrees, layers = study.subject.degrees, study.subject.model.layers
    given = degrees.stage_layers
    facts: dict[str, str] = {}
    if given is not None and len(given) != degrees.pp:
        facts = {
            "fault": f"`stages` names {counted(len(given), 'stages')}, and `pp` is {degrees.pp}",
            "sum": f"pp = {degrees.pp}",
            "fix": f"write `pp = {len(given)}`, or {counted(degrees.pp, 'numbers')} of layers that "
            f"add up to {layers}",
        }
    elif given is not None and sum(given) != layers:
        said = " + ".join(map(str, given))
        last = given[-1] + layers - sum(given)
        facts = {
            "fault": f"the stages hold {counted(sum(given), 'layers')}, and the model has {layers}",
            "sum": f"{said} = {sum(given)}",
            "fix": f"`stages = [{', '.join(map(str, (*given[:-1], last)))}]` adds up"
            if last > 0
            else "leave `stages` out for an even split",
        }
    elif given is None and degrees.pp > layers:
        facts = {
            "fault": f"{counted(degrees.pp, 'stages')} cannot share {counted(layers, 'layers')}",
            "sum": f"pp = {degrees.pp}",
            "fix": f"take a `pp` of {layers} at the most",
        }
    if facts:
        yield Fact(study.subject.place("layout"), facts)


@rule(
    "KV131",
    "uneven-stages",
    Severity.WARNING,
    "costs",
    "stage {weakest} holds fewer tokens than the others and sets the capacity",
    label="layers a stage: {layers}",
    notes=(
        "{tokens} tok fit there, {most} in stage {strongest}; {stranded} of the others' room "
        "is stranded",
        "by stage: {stages}",
    ),
)
def uneven_stages(study: Study) -> Iterator[Fact]:
    """The stage with the least room decides how many tokens a replica holds.

    What it checks
        Whether moving layers from the stage with the least capacity to the one with the most would
        hold more tokens. The finding shows the best split that such moves reach.

    Why it matters
        A request lies in every stage; what the others have left is stranded.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 4; pp = 2; stages = [44, 36] }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 32 req }
        }

    Instead
        Even stages, or the split that the finding shows.

        deployment better extends served { layout = { tp = 4; pp = 2 } }
    """
    degrees, found = study.subject.degrees, study.costs
    if degrees.pp == 1 or not found.fits:
        return
    held = _held(found)
    layers = stage_layers(study.subject)
    if len(held) < degrees.pp or len(set(held.values())) == 1:
        return
    weakest = min(held, key=lambda s: held[s])
    strongest = max(held, key=lambda s: held[s])
    moved = () if study.closed else _even(study, layers)
    other = study.under(degrees.with_stages(degrees.pp, moved)) if moved else None
    if other is None or other.values["kv.tokens"].value <= found.values["kv.tokens"].value:
        return
    text = f"stages = [{', '.join(map(str, moved))}]"
    yield Fact(
        study.subject.place("layout"),
        {
            "weakest": weakest,
            "strongest": strongest,
            "layers": ", ".join(map(str, layers)),
            "tokens": held[weakest],
            "most": held[strongest],
            "stranded": _stranded(found, held[weakest]),
            "stages": "; ".join(_said(found, stage) for stage in range(min(degrees.pp, TOLD))),
        },
        tuple((f"tokens in stage {s}", Quantity(n)) for s, n in sorted(held.items())),
        Suggestion(text, other.subject.degrees.text(), other, ("kv.tokens", "kv.sequences")),
    )


TOLD = 8
"""Stages that a finding describes one by one."""

MOVES = (64, 32, 16, 8, 4, 2, 1)
"""Layers that are moved at once: far first, then one by one."""


def _held(found: Estimate) -> dict[int, int]:
    """Tokens that fit on each stage's fullest device."""
    held: dict[int, int] = {}
    for book in found.ledgers:
        if book.token.value:
            fits = int(book.room.value // book.token.value)
            held[book.rank.stage] = min(fits, held.get(book.rank.stage, fits))
    return held


def _even(study: Study, layers: tuple[int, ...]) -> tuple[int, ...]:
    """Layers by stage once no move from the weakest to the strongest holds more tokens."""

    def room(split: tuple[int, ...]) -> dict[int, int]:
        degrees = study.subject.degrees.with_stages(len(split), split)
        return _held(study.room_of(study.subject.under(degrees)))

    held = room(layers)
    for many in MOVES:
        while True:
            weakest = min(held, key=lambda s: held[s])
            strongest = max(held, key=lambda s: held[s])
            moved = list(layers)
            moved[weakest] -= many
            moved[strongest] += many
            if moved[weakest] < 1:
                break
            other = room(tuple(moved))
            if min(other.values()) <= held[weakest]:
                break
            layers, held = tuple(moved), other
    return layers


def _said(found: Estimate, stage: int) -> str:
    """A stage as its line: layers, what else it holds, its pool and what fits there."""
    placed = found.placement.stages[stage]
    ends = [word for word in ("embedding", "head")
            if any(share.tensor.module == word for share in placed.shards)]  # fmt: skip
    beside = f" and {' and '.join(ends)}" if ends else ""
    book = min((b for b in found.ledgers if b.rank.stage == stage), key=lambda b: b.room.value)
    tokens = int(book.room.value // book.token.value)
    room = shown(Quantity(tidy(Fraction(book.room.value)), BYTES))
    return f"{counted(placed.layers, 'layers')}{beside}, {room} for {tokens:,} tok"


def _stranded(found: Estimate, tokens: int) -> Quantity:
    """Bytes of all devices that no request can use, once the weakest stage holds its tokens."""
    left = Fraction(0)
    for book in found.ledgers:
        room = Fraction(book.room.value) - tokens * Fraction(book.token.value)
        left += max(Fraction(0), room) * book.rank.count
    return Quantity(tidy(left), BYTES)


@rule(
    "KV132",
    "idle-stages",
    Severity.WARNING,
    "costs",
    "only {busy} of {pp:stages} can work at a time: {requests} on a replica, {busy:micro-batches}",
    label="{pp:stages}",
    notes=("{idle} % of every stage's time is idle; one pass of {busy:micro-batches} through "
           "{pp:stages} alone idles for {bubble} % of it",),
    helps=("keep at least {pp:requests} in flight on each DP rank or replica, or cut by `tp`",),
)  # fmt: skip
def idle_stages(study: Study) -> Iterator[Fact]:
    """A pipeline with fewer micro-batches than stages idles.

    What it checks
        The requests in flight on the busiest DP rank or replica are at least as many as the
        stages, so that each stage has a micro-batch of its own.

    Why it matters
        A token needs its forerunner, so a micro-batch is in one stage at a time. With fewer of
        them than stages the rest waits: (PP - 1) / (m + PP - 1) of a pass, 1 - m / PP in steady
        decode.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 2; pp = 4 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 3 req }
        }

    Instead
        More in flight, or fewer stages.

        deployment better extends served { layout = { tp = 8 } }
    """
    degrees, found = study.subject.degrees, study.costs
    load, pp = found.load, degrees.pp
    if load is None or pp == 1 or not found.fits or not 0 < load.busiest.value < pp:
        return
    busy = int(load.micro_batches.value)
    enough = degrees.pp * degrees.holders
    other = study.in_flight(enough) if study.subject.workload.concurrency is not None else None
    yield Fact(
        study.subject.place("layout"),
        {
            "busy": busy,
            "pp": pp,
            "requests": load.busiest.quantity,
            "idle": grouped(100 * (1 - busy / pp)),
            "bubble": grouped(100 * (pp - 1) / (busy + pp - 1)),
        },
        (("idle share of a stage", Quantity(1 - busy / pp)),),
        Suggestion(f"concurrency = {enough} req", f"workload {{ concurrency = {enough} req }}",
                   other, ("decode.throughput", "decode.tpot"))
        if other is not None and other.fits
        else None,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (
    wrong_stages,
    uneven_stages,
    idle_stages,
)
