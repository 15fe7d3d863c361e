"""Rules on the exchange of tokens with experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.checks.study import Fact, Study, Suggestion
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.experts import gathered_over_sent, ranks_reached
from kvdsl.diagnostics import Label, Severity
from kvdsl.rules import Rule, rule
from kvdsl.spec.backends import way_of
from kvdsl.spec.model import Moe
from kvdsl.units import NONE, TIME, Quantity, grouped

OTHER = "deepep_low_latency"
"""The backend that a finding suggests."""


@rule(
    "KV122",
    "gathered-experts",
    Severity.WARNING,
    "costs",
    "{backend} sends each token to every rank of EP={ep}, and its experts lie on {reached}",
    label="EP={ep}",
    notes=("{factor}x the copies that it takes; exchanges are {before} of a step, and "
           "{after} with an all-to-all",),
    helps=("choose a backend that sends tokens to their experts alone",),
    flips="few ranks: at EP=8 and 8 experts a token nearly all are reached anyway",
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
    sent = engine.model_copy(update={"all_to_all": OTHER})
    other = study.other(replace(subject, engine=sent))
    if other is None or _exchanged(other) >= _exchanged(found):
        return
    part = parts[0]
    reached = ranks_reached(experts=part.experts, active=part.active, ranks=ep)
    factor = gathered_over_sent(ranks=ep, reached=reached)
    origin = engine.origin("all_to_all")
    yield Fact(
        subject.place("layout"),
        {
            "backend": engine.all_to_all or "",
            "ep": ep,
            "reached": grouped(float(reached)),
            "factor": grouped(float(factor)),
            "before": found.values["decode.collectives"].quantity,
            "after": other.values["decode.collectives"].quantity,
        },
        (
            ("ranks reached", Quantity(float(reached), NONE)),
            ("gathered over sent", Quantity(float(factor), NONE)),
        ),
        Suggestion("an all-to-all", f"all_to_all = {OTHER}", other,
                   ("decode.collectives", "decode.tpot")),
        (Label(origin.span, "the engine's backend"),) if origin is not None else (),
    )  # fmt: skip


def _exchanged(found: Estimate) -> float:
    return found.number("decode.collectives") if found.decode is not None else 0.0


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
    known = {word for lib in libraries for a in lib.algorithms.values() for word in a.backend}
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


RULES: tuple[Rule, ...] = (gathered_experts, unpriced_backend)
