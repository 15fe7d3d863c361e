"""Rules on experts: how they divide over ranks, what copies of them cost, how tokens reach them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from kvdsl.checks.study import Fact, Study, Suggestion
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.experts import gathered_over_sent, ranks_reached
from kvdsl.diagnostics import Label, Severity
from kvdsl.placement.degrees import STAGE_LIMIT
from kvdsl.rules import Rule, rule
from kvdsl.spec.backends import way_of
from kvdsl.spec.engine import Engine
from kvdsl.spec.model import Moe
from kvdsl.units import BYTES, NONE, TIME, Quantity, grouped


@rule(
    "KV120",
    "uneven-experts",
    Severity.ERROR,
    "subject",
    "{experts:experts} cannot be divided evenly over EP={ep}",
    label="experts are spread over {ep:ranks}",
    notes=("({routed} + {redundant} redundant) / {ep} is not whole",),
    helps=("{redundant_fix:redundant experts} would make it even; or EP of {legal}",),
)
def uneven_experts(study: Study) -> Iterator[Fact]:
    """Experts, redundant ones included, divide over the expert-parallel ranks.

    What it checks
        (experts + redundant) is a multiple of `ep`.

    Why it matters
        A rank holds whole experts, and engines with expert balancing refuse an uneven split.

    Example
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { attention { dp = 6 }; experts { ep = 6 } }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 48 req }
        }

    Instead
        An EP that divides the experts, or redundant experts to fill up.

        deployment better extends served {
          layout = { attention { dp = 8 }; experts { ep = 8 } }
        }
    """
    experts = study.subject.degrees.experts
    for part in study.subject.model.parts.values():
        if not isinstance(part, Moe):
            continue
        whole = part.experts + experts.redundant
        if whole % experts.ep:
            most = min(part.experts, STAGE_LIMIT)  # EP is never wider, however many there are
            legal = [d for d in range(1, most + 1) if part.experts % d == 0]
            near = [d for d in legal if d < experts.ep][-1:] + [d for d in legal if d > experts.ep][
                :1
            ]
            yield Fact(
                study.subject.place("layout"),
                {
                    "experts": whole,
                    "ep": experts.ep,
                    "routed": part.experts,
                    "redundant": experts.redundant,
                    "redundant_fix": experts.redundant + (-whole % experts.ep),
                    "legal": " or ".join(map(str, near)) or "1",
                },
                (("experts", Quantity(whole)), ("EP", Quantity(experts.ep))),
            )
            return


@rule(
    "KV122",
    "gathered-experts",
    Severity.WARNING,
    "costs",
    "`all_to_all = {backend}` sends each token to every rank of EP={ep}, and its experts lie on "
    "{reached:ranks} on average",
    label="EP={ep}",
    notes=("{factor}x the copies that it takes; exchanges are {before} of a step, and "
           "{after} with an all-to-all",),
    helps=("choose a backend that sends tokens to their experts alone, in the engine: {line}",),
    flips="few ranks: at EP={few} a token reaches {few_reached} of them anyway",
)  # fmt: skip
def gathered_experts(study: Study) -> Iterator[Fact]:
    """A backend that gathers all tokens on every rank moves more, the wider EP is.

    What it checks
        Experts lie over ep > 1 ranks beside DP attention, the engine's `all_to_all` gathers, and
        an all-to-all would take less of a step.

    Why it matters
        A gather brings every token to every rank. Drawn without replacement, the experts of a
        token reach ep (1 - C(E - E / ep, k) / C(E, k)) of them: 5.29 of 8 and 7.68 of 64 with 8 of
        256 experts, so that a gather moves 1.51 and 8.34 times as much.

    Example
        engine house {
          family     = vllm
          version    = "0.33.0"
          all_to_all = allgather_reducescatter
        }

        layout wide {
          attention { dp = 64 }
          experts   { ep = 64 }
          ffn       { tp = 64 }
          vocab     { tp = 64 }
        }

        deployment served {
          model    = models.deepseek_v3
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x racks.gb200_nvl72
          layout   = wide
          engine   = house
          time     = ideal
          budget   { reserve = 6 GB }
          workload { context = 8 ktok; concurrency = 4096 req }
          allow KV201 because "64 of 72 divide the experts"
        }

    Instead
        A backend with an all-to-all.

        deployment better extends served {
          engine extends house { all_to_all = deepep_low_latency }
        }
    """
    subject, found = study.subject, study.costs
    engine, ep = subject.engine, subject.degrees.experts.ep
    gathers = engine is not None and way_of(engine.all_to_all) == "gather"
    parts = [p for p in subject.model.parts.values() if isinstance(p, Moe)]
    if engine is None or not gathers or ep == 1 or subject.degrees.attention.dp == 1 or not parts:
        return
    word, other = _sent(study, engine)
    if other is None or _exchanged(other) >= _exchanged(found):
        return
    part = parts[0]
    reached, few = _reached(part, ep), _few(part, ep)
    factor = gathered_over_sent(ranks=ep, reached=reached)
    origin = engine.origin("all_to_all")
    yield Fact(
        subject.place("layout"),
        {
            "backend": engine.all_to_all or "",
            "line": _changed(engine, f"all_to_all = {word or '…'}"),
            "ep": ep,
            "reached": grouped(float(reached)),
            "factor": grouped(float(factor)),
            "few": few,
            "few_reached": grouped(float(_reached(part, few))),
            "before": found.values["decode.collectives"].quantity,
            "after": other.values["decode.collectives"].quantity,
        },
        (
            ("ranks reached", Quantity(float(reached), NONE)),
            ("gathered over sent", Quantity(float(factor), NONE)),
        ),
        Suggestion(f"all_to_all = {word}" if word else "an all-to-all", "", other,
                   ("decode.collectives", "decode.tpot")),
        (Label(origin.span, "the engine's backend"),) if origin is not None else (),
    )  # fmt: skip


NEARLY_ALL = Fraction(9, 10)
"""Where so many of the ranks are reached, a gather sends little more than it takes."""


def _reached(part: Moe, ranks: int) -> Fraction:
    return Fraction(ranks_reached(experts=part.experts, active=part.active, ranks=ranks))


def _few(part: Moe, ep: int) -> int:
    """The most ranks, fewer than there are, of which a token reaches nearly all; one is all."""
    fewer = (n for n in range(ep - 1, 1, -1) if part.experts % n == 0)
    return next((n for n in fewer if _reached(part, n) >= NEARLY_ALL * n), 1)


def _changed(engine: Engine, line: str) -> str:
    """How an engine is written with a line of its own: one with a name is extended."""
    if not engine.name:
        return f"`{line}`"
    return f"`engine mine extends {engine.title} {{ {line} }}`, and `engine = mine`"


def _sent(study: Study, engine: Engine) -> tuple[str | None, Estimate | None]:
    """The plan with a backend that sends tokens to their experts: of those that the libraries
    price the one that takes least, or, where none is priced, one that nobody names."""
    words: list[str | None] = [
        word
        for library in (*engine.libraries, *study.subject.pool.libraries)
        for algorithm in library.algorithms.values()
        if "dispatch" in algorithm.does
        for word in algorithm.backend
        if way_of(word) != "gather"
    ]
    tried = [
        (word, study.other(replace(study.subject, engine=engine.model_copy(
            update={"all_to_all": word}))))
        for word in dict.fromkeys(words or [None])
    ]  # fmt: skip
    able = [(word, other) for word, other in tried if other is not None]
    return min(able, key=lambda made: _exchanged(made[1]), default=(None, None))


def _exchanged(found: Estimate) -> float:
    return found.number("decode.collectives") if found.decode is not None else 0.0


@rule(
    "KV124",
    "redundant-experts",
    Severity.WARNING,
    "costs",
    "{redundant:redundant experts} cost {more} on a GPU: the cache holds {before}, not {after}",
    label="{copies} more in each of {layers:layers}",
    notes=("with them {own} fit, without them {other}, and the workload asks {asked}",),
    helps=("fewer are enough where their load is even; times here take it as even",),
    also=(Severity.INFO,),
)
def redundant_experts(study: Study) -> Iterator[Fact]:
    """Redundant experts are paid in cache.

    What it checks
        More redundant experts than the expert-parallel ranks need to divide evenly. A warning
        where requests queue that would run without them, else information.

    Why it matters
        A copy of an expert lies on some rank in every layer with experts. It evens out the load of
        the ranks, which is taken as even here; what it costs is counted.

    Example
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = nodes.hgx_h100.devices[0..3]
          layout   { attention { dp = 4 }; experts { ep = 4; redundant = 64 } }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 960 req }
        }

    Instead
        None where experts divide without them; or as many as the balancing needs, which this tells
        as information.

        layout even { attention { dp = 4 }; experts { ep = 4 } }

        deployment better extends served { layout = even }
    """
    degrees, found = study.subject.degrees, study.costs
    parts = [p for p in study.subject.model.parts.values() if isinstance(p, Moe)]
    experts = degrees.experts
    fewest = max((-part.experts % experts.ep for part in parts), default=0)
    if not parts or experts.redundant <= fewest or not found.fits:
        return
    other = study.under(replace(degrees, experts=replace(experts, redundant=fewest), name=""))
    if other is None or found.load is None:
        return
    more = other.values["kv.sequences"].value > found.values["kv.sequences"].value
    weights = found.values["memory.weights"].value - other.values["memory.weights"].value
    up = [t for t in study.placed.tensors if (t.module, t.name) == ("routed_experts", "up")]
    yield Fact(
        study.subject.place("layout"),
        {
            "redundant": experts.redundant,
            "more": Quantity(weights, BYTES),
            "before": found.values["kv.tokens"].quantity,
            "after": other.values["kv.tokens"].quantity,
            "copies": experts.redundant - fewest,
            "layers": sum(tensor.layers for tensor in up),
            "own": found.values["kv.sequences"].quantity,
            "other": other.values["kv.sequences"].quantity,
            "asked": found.load.asked.quantity,
        },
        (("weights of redundant experts", Quantity(weights, BYTES)),),
        Suggestion(f"redundant = {fewest}", other.subject.degrees.text(), other,
                   ("kv.tokens", "kv.sequences", "memory.weights")),
        severity=None if found.crowded and more else Severity.INFO,
    )  # fmt: skip


@rule(
    "KV125",
    "unpriced-backend",
    Severity.WARNING,
    "costs",
    "exchanges with experts by {backend} are priced as {algorithm}: no library here has its times",
    label="{backend}",
    notes=("they take {size} of {what}",),
    helps=("{known} are priced by the engine's libraries", "or give the engine a `library` whose "
           "algorithms say `backend = {backend}`"),
    flips="a backend that a library of the engine prices on this hardware",
)  # fmt: skip
def unpriced_backend(study: Study) -> Iterator[Fact]:
    """A backend whose times nobody gives is priced as another one.

    What it checks
        The engine's `all_to_all` is a word that no algorithm of its libraries names, or that none
        takes on these links, where tokens are sent to experts.

    Why it matters
        Kernels made for experts send many small messages at once; a plain all-to-all takes turns.
        The times of one say little of the other's.

    Example
        engine mine extends engines.vllm_0_33 { all_to_all = nixl_ep }

        deployment served {
          model    = models.deepseek_v3
          weights  = recipes.deepseek_v3_fp8
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h200
          engine   = mine
          layout   { attention { dp = 8 }; experts { ep = 8 } }
          budget   { reserve = 4 GB }
          workload { prompt = 4 ktok; output = 500 tok; concurrency = 64 req }
        }

    Instead
        A backend with times, or a library with them.

        deployment better extends served {
          engine extends engines.vllm_0_33 { all_to_all = deepep_low_latency }
        }
    """
    engine, found = study.subject.engine, study.costs
    first = found.decode or found.prefill
    costs = [cost for cost in first.exchanges if cost.stands_in] if first is not None else []
    if engine is None or engine.all_to_all is None or not costs:
        return
    taken = Quantity(sum(float(cost.all.value) for cost in costs), TIME)
    what = "a decode step" if found.decode is not None else "the prefill of a prompt"
    libraries = (*engine.libraries, *study.subject.pool.libraries)
    known = {word for lib in libraries for a in lib.algorithms.values()
             for word in (*a.backend, *a.prefill_of, *a.decode_of)}  # fmt: skip
    origin = engine.origin("all_to_all")
    yield Fact(
        origin.span if origin is not None else study.subject.place("engine"),
        {
            "backend": engine.all_to_all,
            "algorithm": f"{costs[0].algorithm} {costs[0].exchange.kind.replace('_', '-')}",
            "size": taken,
            "what": what,
            "known": ", ".join(f"`{word}`" for word in sorted(known)),
        },
        ((f"their exchanges in {what}", taken),),
    )


RULES: tuple[Rule, ...] = (uneven_experts, redundant_experts, gathered_experts, unpriced_backend)
