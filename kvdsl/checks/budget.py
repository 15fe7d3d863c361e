"""Rules on the memory budget: weights that do not fit, the reserve, one format for everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from kvdsl.checks.study import Fact, Study, Suggestion, told_apart
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.memory import Ledger
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import uniform
from kvdsl.placement.topology import topology
from kvdsl.rules import Rule, rule
from kvdsl.spec.formats import Recipe, RecipeLine
from kvdsl.spec.hardware import Selection
from kvdsl.spec.model import Gqa, Mla
from kvdsl.units import BYTES, Quantity, shown

USUAL_RESERVE = 3 * 10**9
"""Bytes a GPU that the worked 405B case keeps for activations, graphs and communicators; NVIDIA's
aiconfigurator keeps 3.5 GiB for the same. Used for 'what if' only."""

WIDEST = 1_024
"""The widest TP that a suggestion tries: heads are counted in billions by mistake."""

WIDE = ("embedding", "head")
"""Modules that released 8-bit and 4-bit checkpoints usually keep in 16 bits."""


def _short(study: Study) -> Ledger | None:
    """The device with the least room, if weights leave none."""
    book = min(study.costs.ledgers, key=lambda b: Fraction(b.room.value))
    return book if book.room.value <= 0 and study.subject.budget.kv is None else None


def _copied(study: Study) -> bool:
    degrees = study.subject.degrees
    return degrees.replicas > 1 or degrees.attention.dp > 1


def _fewest(study: Study) -> Suggestion | None:
    """The smallest TP on devices of this kind at which weights leave room: p_min."""
    if study.closed:
        return None
    heads = [p.query_heads for p in study.subject.model.parts.values() if isinstance(p, Gqa | Mla)]
    device = study.placed.classes[0].device
    widest = min(heads, default=1)
    for tp in (d for d in range(1, min(widest, WIDEST) + 1) if widest % d == 0):
        if any(h % tp for h in heads):
            continue
        there = topology(Selection(count=tp, of=device))
        subject = replace(study.subject.under(uniform(tp)), topology=there)
        found = study.held_by(subject)
        if found is not None:
            shows = ("gpus", "memory.weights", "memory.kv", "kv.tokens")
            return Suggestion(f"TP={tp}, the fewest devices that hold the weights",
                              f"tp = {tp}", found, shows)  # fmt: skip
    return None


def _wall(book: Ledger) -> Quantity:
    return Quantity(Fraction(book.usable.value) - Fraction(book.reserve.value), BYTES)


def _overflow(study: Study, book: Ledger, made: Suggestion | None) -> Fact:
    parameters = study.costs.values["model.parameters"].quantity
    over = Quantity(-Fraction(book.room.value), BYTES)
    return Fact(
        study.subject.place("layout"),
        {
            "weights": book.weights.quantity,
            "wall": _wall(book),
            "device": book.rank.device.title,
            "over": f"{shown(over)} too much" if over.value else "not a byte left",
            "parameters": parameters,
            "usable": book.usable.quantity,
            "reserve": book.reserve.quantity,
            "copies": study.subject.degrees.replicas * study.subject.degrees.attention.dp,
        },
        (
            ("parameters", parameters),
            ("weights on a device", book.weights.quantity),
            ("usable less reserve", _wall(book)),
            ("too much", over),
        ),
        made,
    )


@rule(
    "KV141",
    "weights-exceed-memory",
    Severity.ERROR,
    "costs",
    "the weights leave no room for a cache: {weights} on a device that has {wall} for them",
    label="{over} on each {device}",
    notes=(
        "{usable} usable - {reserve} reserve = {wall}; {parameters:parameters}",
        "a smaller cache cannot help: no byte is left for any cache",
    ),
    helps=("cut the weights more ways (`tp`, `pp`, `ep`), or store them smaller",),
)
def weights_exceed_memory(study: Study) -> Iterator[Fact]:
    """Weights must leave room for a cache.

    What it checks
        On every device, weights are fewer bytes than utilization x memory - reserve.

    Why it matters
        Nothing runs. Compressing the cache touches no weight, so it cannot help; more devices to
        a replica or smaller weights do.

    Example
        deployment served {
          model    = models.llama_3_1_405b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        The finding names the fewest devices that hold the weights; larger ones do too.

        deployment better extends served { on = 1 x nodes.hgx_h200 }
    """
    book = _short(study)
    if book is not None:
        # Beside copies KV142 says it, and silences this.
        yield _overflow(study, book, None if _copied(study) else _fewest(study))


@rule(
    "KV142",
    "copies-add-no-room",
    Severity.ERROR,
    "costs",
    "{copies:copies} make no room: each needs {weights} on a device that has {wall}",
    label="{over} on each {device}, with any number of copies",
    notes=("every replica or DP rank holds its own weights, so bytes a device stay the same",),
    helps=("use the devices to cut one copy (`tp`, `pp`, `ep`) instead",),
    silences=("KV141", "KV201"),
)
def copies_add_no_room(study: Study) -> Iterator[Fact]:
    """Data parallelism gives a model that does not fit no room.

    What it checks
        A layout with replicas or DP attention whose weights exceed the budget of a device.

    Why it matters
        A copy needs all its bytes again. Only cutting one copy makes room.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 1; replicas = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        `tp`, `pp` or `ep` over the same devices.

        deployment better extends served { layout = { tp = 8 } }
    """
    book = _short(study)
    if book is not None and _copied(study):
        yield _overflow(study, book, _fewest(study))


@rule(
    "KV143",
    "no-reserve",
    Severity.WARNING,
    "costs",
    "no memory is kept for activations, graphs and communication",
    label="no `reserve` here",
    notes=("with {reserve} a GPU the cache holds {after}, not {before}",),
    helps=("add `reserve = 3 GB` to the budget, or the figure from the engine's start-up log",),
)
def no_reserve(study: Study) -> Iterator[Fact]:
    """A budget needs a reserve.

    What it checks
        The budget gives a `reserve`, or the engine an `overhead`, or `kv` outright.

    Why it matters
        Activations, captured graphs and communication buffers take gigabytes. A plan without them
        promises tokens that the engine will not have.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        The figure of the engine's start-up log, or 3 GB until there is one.

        deployment better extends served { budget { reserve = 3 GB } }
    """
    subject = study.subject
    said = subject.budget.reserve is not None or subject.budget.kv is not None
    if said or (subject.engine is not None and subject.engine.overhead is not None):
        return
    if not study.costs.fits:
        return
    budget = subject.budget.model_copy(update={"reserve": USUAL_RESERVE})
    other = study.room_of(subject.with_budget(budget))
    after = shown(other.values["kv.tokens"].quantity) if other.fits else "nothing"
    yield Fact(
        subject.place("budget"),
        {
            "reserve": Quantity(USUAL_RESERVE, BYTES),
            "before": study.costs.values["kv.tokens"].quantity,
            "after": after,
        },
        (),
        Suggestion("reserve = 3 GB", "budget { reserve = 3 GB }", other,
                   ("kv.tokens", "kv.sequences", "memory.kv"), what_if=True),
    )  # fmt: skip


@rule(
    "KV144",
    "one-weight-format",
    Severity.WARNING,
    "costs",
    "all weights in {format}: embedding and head are usually wider",
    label="one format for every module",
    notes=("in {wide} one copy of them takes {taken}",),
    helps=("say so per module: `recipe r {{ default = {path}; embedding = {wide_path}; "
           "head = {wide_path} }}`",),
)  # fmt: skip
def one_weight_format(study: Study) -> Iterator[Fact]:
    """One narrow format for all weights understates most checkpoints.

    What it checks
        `weights` is a single format narrower than the activations, with no line for embedding or
        head.

    Why it matters
        Released FP8 and FP4 checkpoints keep embedding, head, norms and often more in 16 bits.

    Example
        deployment served {
          model    = models.llama_3_1_405b
          weights  = formats.fp8
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h200
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        One format for each module that differs.

        recipe r {
          default = formats.fp8; embedding = formats.bf16; head = formats.bf16
        }

        deployment better extends served { weights = r }
    """
    subject, found = study.subject, study.costs
    one = subject.weights.uniform
    wide = subject.activations
    if one is None or one.bits is None or wide.bits is None or one.bits >= wide.bits:
        return
    lines = (*subject.weights.lines, *(RecipeLine(name=m, format=wide) for m in WIDE))
    other = study.room_of(replace(subject, weights=Recipe(lines=lines)))
    more = _stored(other) - _stored(found)
    if more <= 0:
        return
    before, after = (each.values["kv.tokens"].quantity for each in (found, other))
    # A cache that is given outright holds the same beside wider weights.
    tokens = f": {shown(after)} instead of {shown(before)}" if told_apart(before, after) else ""
    yield Fact(
        subject.place("weights"),
        {
            "format": one.title.rpartition(".")[2],
            "wide": wide.title.rpartition(".")[2],
            "path": one.title,
            "wide_path": wide.title,
            "taken": f"{shown(Quantity(more, BYTES))} more{tokens}",
        },
        (("more a copy", Quantity(more, BYTES)),),
        Suggestion(
            f"embedding and head in {wide.title}",
            "",
            other,
            ("memory.weights", "kv.tokens"),
            what_if=True,
        ),
    )


def _stored(found: Estimate) -> int | Fraction:
    """Bytes of one copy of embedding and head."""
    stored: int | Fraction = 0
    for stage in found.placement.stages:
        book = next(b for b in found.ledgers if b.rank.stage == stage.number)
        for module, term in book.modules:
            held = [s.held for s in stage.shards if s.tensor.module == module]
            if module in WIDE and held:
                stored += Fraction(term.value) / held[0]
    return stored.numerator if isinstance(stored, Fraction) and stored.denominator == 1 else stored


@rule(
    "KV207",
    "budget-exceeds-memory",
    Severity.ERROR,
    "costs",
    "the budget gives the cache {kv} a device, and {left} is left beside the weights",
    label="{memory} on each {device}",
    notes=("{memory} memory - {weights} weights = {left}",),
    helps=("give at most that, less what activations and graphs take; or leave `kv` out",),
)
def budget_exceeds_memory(study: Study) -> Iterator[Fact]:
    """A budget that is given outright lies inside the device's memory.

    What it checks
        `budget { kv = … }` and the weights together are at most the memory of every device.

    Why it matters
        Bytes that a device does not have hold no tokens.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { kv = 100 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        The figure of the engine's start-up log.

        deployment better extends served { budget { kv = 60 GB } }
    """
    given = study.subject.budget.kv
    if given is None:
        return
    for book in study.costs.ledgers:
        left = Fraction(book.memory.value) - Fraction(book.weights.value)
        if given > left:
            yield Fact(
                study.subject.place("budget"),
                {
                    "kv": Quantity(given, BYTES),
                    "left": Quantity(max(left, Fraction(0)), BYTES),
                    "memory": book.memory.quantity,
                    "weights": book.weights.quantity,
                    "device": book.rank.device.title,
                },
            )
            return


RULES: tuple[Rule, ...] = (
    budget_exceeds_memory,
    weights_exceed_memory,
    copies_add_no_room,
    no_reserve,
    one_weight_format,
)
