"""Decode: the step of the busiest ranks, a token's way through all stages.

Comes in: a placement, its ledgers and its load. Goes out: TPOT with its parts and the throughput.
Each stage is as slow as its slowest rank; collectives are not overlapped (`time = ideal`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import over, rate, real
from kvdsl.costs import collectives, overlap, passes
from kvdsl.costs.carried import cache_bytes, decode_carried, request_reads
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.load import Load
from kvdsl.costs.memory import Ledger
from kvdsl.costs.origins import fixed
from kvdsl.costs.passes import RankTime
from kvdsl.costs.roofline import bandwidth_of, read_time
from kvdsl.costs.turns import Turns
from kvdsl.formulas import Term, formula, greatest, total
from kvdsl.placement.placement import Placement
from kvdsl.spec.hardware import Device
from kvdsl.units import TIME, TOKEN_RATE

Number = int | Fraction | float


@formula("requests in flight / time of a token", TOKEN_RATE, "each yields one token a step")
def token_throughput(requests: Number, tpot: float) -> float:
    return rate(requests, tpot)


@dataclass(frozen=True, slots=True)
class Decode:
    """`beside`: what a step takes besides its passes and collectives, in seconds by name. A step
    yields `yielded` tokens of a request: so many times `decode.tpot` is all of it."""

    times: tuple[RankTime, ...]
    exchanges: tuple[CollectiveCost, ...]
    terms: dict[str, Term]
    beside: tuple[tuple[str, float], ...] = ()
    yielded: float = 1.0
    turn: Term | None = None
    """For how long a request keeps its place, by its tokens (`time = ideal`)."""
    together: Term | None = None
    """Prompt tokens a second in the passes that so many requests share (`time = ideal`)."""


def decode(
    placement: Placement, books: tuple[Ledger, ...], load: Load, turns: Turns | None = None
) -> Decode:
    """The step of a load; with `turns` prompts are computed on the same devices."""
    carried = decode_carried(placement, load.batch, load.context)
    times = passes.rank_times(placement, books, carried)
    exchanged = collectives.costs(
        placement, carried.tokens, carried.sampled, "decode step", pairs=carried.pairs
    )
    slow = passes.setters(times)
    exchanged = overlap.exposed(exchanged, passes.attentions(slow))
    stages = [slow[stage.number] for stage in placement.stages]
    sent = [cost.all for cost in exchanged]
    collective = (
        total("collectives", sent)
        if sent
        else fixed("collectives", 0.0, "no group has two ranks", TIME)
    )
    tpot = total("time of a token", [*(s.time for s in stages), collective])
    shared: dict[str, Term] = {}
    beside: tuple[tuple[str, float], ...] = ()
    turn, together = tpot, None
    if turns is not None:
        step = tpot.named("time of a step")
        found = turns.shared(load, step)
        tpot = turns.token(step, found.prompts)
        turn = turns.turn(tpot)
        shared, together = {"decode.prompts": found.prompts}, found.throughput
        beside = (("prompts of others", real(found.prompts.value)),)
    terms = {
        "decode.tpot": tpot,
        "decode.kv_read": over_stages(placement, times, "cache read", lambda t: t.cache_read),
        "decode.kv_read_mean": _mean_read(placement, books, load),
        "decode.weight_read": over_stages(
            placement, times, "weights read", lambda t: t.weight_read
        ),
        "decode.collectives": collective,
        "decode.throughput": token_throughput.derive(
            "decode throughput", requests=load.served, tpot=turn
        ),
        **shared,
        **kinds_read(placement, times),
    }
    return Decode(times, exchanged, terms, beside, turn=turn, together=together)


def kinds_read(placement: Placement, times: tuple[RankTime, ...]) -> dict[str, Term]:
    """`decode.weight_read.MODULE` of each module."""
    return {
        f"decode.weight_read.{module}": over_stages(
            placement,
            times,
            f"{module.replace('_', ' ')} read",
            lambda t, m=module: dict(t.reads).get(m, fixed(m, 0.0, "not in this stage", TIME)),  # type: ignore[misc]
        )
        for module in _modules(times)
    }


def _modules(times: tuple[RankTime, ...]) -> list[str]:
    return list(dict.fromkeys(module for t in times for module, _ in t.reads))


def over_stages(
    placement: Placement,
    times: tuple[RankTime, ...],
    label: str,
    pick: Callable[[RankTime], Term],
) -> Term:
    """The sum over stages of the slowest rank's."""
    here: dict[int, list[Term]] = {}
    for each in times:
        here.setdefault(each.ledger.rank.stage, []).append(pick(each))
    stages = [
        greatest(f"{label} in stage {stage.number}", here[stage.number])
        for stage in placement.stages
    ]
    return stages[0].named(label) if len(stages) == 1 else total(label, stages)


def _mean_read(placement: Placement, books: tuple[Ledger, ...], load: Load) -> Term:
    """The mean over ranks: the mean number of requests, and of tokens on a cp rank."""
    reads = request_reads(placement, load.context)
    kinds: dict[int, list[Device]] = {}
    for book in books:
        kinds.setdefault(book.rank.stage, []).append(book.rank.device)
    stages = []
    for stage in placement.stages:
        each = reads[stage.number]
        requests = Term(
            "requests in a micro-batch, mean",
            over(load.mean.value, load.micro_batches.value),
            units.REQUESTS,
            inputs=(load.mean, load.micro_batches),
        )
        read = cache_bytes.derive("cache read", requests=requests, each=each)
        here = [
            read_time.derive(
                f"mean cache read in stage {stage.number}",
                size=read,
                bandwidth=bandwidth_of(device),
            )
            for device in kinds[stage.number]
        ]
        stages.append(greatest(f"mean cache read in stage {stage.number}", here))
    return total("cache read, mean over ranks", stages)
