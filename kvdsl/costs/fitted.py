"""Decode and prefill at an engine's fitted pace: the values of a plan.

Comes in: a placement, its ledgers, its capacity and the engine's constants. Goes out: load, decode
and prefill in the shapes of `time = ideal`, and the values that are asked. A rate is turned into
requests in flight by Little's law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from kvdsl import units
from kvdsl.arithmetic import (
    at_least,
    over,
    rate,
    real,
    some,
    where,
)
from kvdsl.costs.decode import Decode, kinds_read, over_stages
from kvdsl.costs.draft import Drafting, drafting
from kvdsl.costs.first_token import (
    Arrival,
    First,
    Own,
    arriving,
    client_throughput,
    first,
    prefilled,
)
from kvdsl.costs.load import Load, arrivals_at, load, output_of, yielded
from kvdsl.costs.load import carried as of_workload
from kvdsl.costs.memory import Ledger
from kvdsl.costs.origins import fixed
from kvdsl.costs.pace import Constants
from kvdsl.costs.passes import RankTime
from kvdsl.costs.prefill import Prefill, prompt_terms
from kvdsl.costs.queues import Stay, flying, most_flying, remembered
from kvdsl.costs.setting import Setting, setting
from kvdsl.costs.steady import Lengths, Steady, high_end, low_end, positive, steady
from kvdsl.costs.step import RankPace, StagePace
from kvdsl.costs.times import Times, decode_group
from kvdsl.costs.values import Group
from kvdsl.formulas import Term, formula, total
from kvdsl.placement.placement import Placement
from kvdsl.placement.subject import Subject
from kvdsl.recall import Once
from kvdsl.spec.engine_pace import Band
from kvdsl.units import REQUEST_RATE, TIME, TOKEN_RATE

VECTORS = "hidden_vectors"
"""What a rank reads and writes between its modules, among the times of a pass."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A placement made ready for any load: what a bulk evaluation shares over its rows."""

    setting: Setting
    constants: Constants
    drafting: Drafting

    def at(self, carried: Load, lengths: Lengths, *, closed: bool = True) -> Steady:
        return steady(self.setting, self.constants, carried, lengths, self.drafting, closed=closed)

    def first(self, found: Steady, carried: Load, lengths: Lengths, rate: Term | None) -> First:
        """The time to the first token beside a steady state."""
        own = (
            self.arriving(lengths)
            if rate is not None
            else prefilled(self.setting, self.constants, lengths, found)
        )
        return first(self.constants, lengths, own, self.arrival(found, carried, rate))

    def arriving(self, lengths: Lengths) -> Own:
        return arriving(self.setting, self.constants, lengths)

    def arrival(self, found: Steady, carried: Load, rate: Term | None) -> Arrival:
        replicas = self.setting.replicas
        each = share_of.derive("requests in flight in a replica", whole=carried.served,
                               parts=replicas)  # fmt: skip
        return Arrival(found.stepped, found.tpot, each, carried.asked, carried.served,
                       _arrivals(rate, replicas))  # fmt: skip


def serving(placement: Placement, books: tuple[Ledger, ...], pace: Constants) -> Serving:
    return Serving(setting(placement, books), pace, drafting(placement.subject))


@formula("in all / replicas", units.NONE, "spread evenly")
def share_of(whole: float, parts: int) -> float:
    return real(whole) / real(parts)


@formula("replicas x prompt / time of a prompt in a replica", TOKEN_RATE)
def prefill_rate(replicas: int, new: float, one: float) -> float:
    return rate(real(replicas) * real(new), one)


@formula("replicas x DP ranks x prompt / time of the slowest stage", TOKEN_RATE)
def every_rank_busy(replicas: int, ranks: int, new: float, stage: float) -> float:
    return rate(real(replicas) * real(ranks) * real(new), stage)


def _arrivals(rate: Term | None, replicas: Term) -> Term | None:
    if rate is None:
        return None
    shared = share_of.derive("arrivals at a replica", whole=rate, parts=replicas)
    return replace(shared, dimension=REQUEST_RATE)


def fitted(
    placement: Placement,
    books: tuple[Ledger, ...],
    pace: Constants,
    capacity: Callable[[], Term],
) -> Times:
    """The load, decode and prefill of a pool; `capacity` are the whole requests that fit."""
    subject = placement.subject
    role = subject.pool.role
    lengths, rate = lengths_of(subject), _rate(subject)
    made = Once(lambda: serving(placement, books, pace))

    def prefills(prefill: Callable[[], Prefill]) -> Group:
        of_context = role == "both" and subject.workload.context is not None
        return ("prefill.",), lambda: _prefill_values(made(), prefill(), of_context=of_context)

    if role == "prefill":
        chunk = None if rate is None else pace.chunk
        only = Once(lambda: _prefill(made(), lengths, alone(made(), lengths, rate), chunk))
        return Times(prefill=only, groups=(prefills(only),))
    asked = Once(lambda: _asked(subject, made(), lengths, capacity(), rate))
    carried = Once(lambda: of_workload(subject, capacity(), asked))
    found = Once(lambda: made().at(carried(), lengths, closed=rate is None))
    step = Once(lambda: _decode(placement, made(), found(), carried()))
    decodes = decode_group(subject, step)
    if role == "decode":
        return Times(carried, step, groups=(decodes,))

    first = Once(lambda: made().first(found(), carried(), lengths, rate))
    filled = Once(lambda: found().tokens if rate is None else pace.chunk)
    prefill = Once(lambda: _prefill(made(), lengths, first(), filled()))
    groups = (decodes, prefills(prefill))
    # Clients' output waits for first tokens too; a step alone does not know of these.
    if rate is not None or not positive(lengths.output):
        return Times(carried, step, prefill, groups)

    def flow() -> dict[str, Term]:
        made = client_throughput(carried().served, found().tpot, first(), lengths)
        return {"decode.throughput": yielded(subject, made)}

    return Times(carried, step, prefill, (*groups, (("decode.throughput",), flow)))


def lengths_of(subject: Subject) -> Lengths:
    new, found = prompt_terms(subject)
    return Lengths(new, found, output_of(subject))


def _rate(subject: Subject) -> Term | None:
    """Arrivals at the pool, where the workload is a rate alone."""
    return arrivals_at(subject) if subject.workload.concurrency is None else None


def alone(made: Serving, lengths: Lengths, rate: Term | None = None) -> First:
    """The first token of a pool that prefills: no decode step is waited for, and a concurrency
    says nothing of arrivals, so nothing queues."""
    nothing = fixed("time of a step", 0.0, "nobody decodes here", TIME)
    one = fixed("requests in flight", 1, "nothing says how many prompts arrive", units.REQUESTS)
    met = Arrival(nothing, nothing, one, one, one, _arrivals(rate, made.setting.replicas))
    own = (
        made.arriving(lengths)
        if rate is not None
        else prefilled(made.setting, made.constants, lengths)
    )
    return first(made.constants, lengths, own, met)


# --- a rate as requests in flight ----------------------------------------------------------------


def stays(made: Serving, lengths: Lengths, loaded: Callable[[Any], Load]) -> Stay:
    """How long requests that arrive at a rate stay; `loaded` is the load of so many in flight. What
    they meet does not depend on the rate, and is computed once for each count."""
    own = made.arriving(lengths) if made.setting.role == "both" else None

    def steadily(count: Any) -> tuple[Load, Steady]:
        carried = loaded(count)
        return carried, made.at(carried, lengths, closed=False)

    known = remembered(steadily)

    def among(rate: Term, count: Any) -> Any:
        carried, found = known(count)
        whole = real(lengths.output.value) * real(found.tpot.value)
        if own is None:
            return whole
        met = made.arrival(found, carried, rate)
        return first(made.constants, lengths, own, met).ttft.value + whole

    return lambda rate: lambda count: among(rate, count)


def of_count(subject: Subject, capacity: Term) -> Callable[[Any], Load]:
    """The load of so many requests in flight."""

    def loaded(count: Any) -> Load:
        return load(subject, Term("requests in flight", count, units.REQUESTS), capacity)

    return loaded


def _asked(
    subject: Subject, made: Serving, lengths: Lengths, capacity: Term, rate: Term | None
) -> Term:
    """Requests in flight that a rate means."""
    if rate is None:
        raise ValueError("requests in flight are said: nothing is to be solved")
    stay = stays(made, lengths, of_count(subject, capacity))
    count = flying(most_flying(capacity.value), rate.value, stay(rate))
    return Term("requests in flight", count, units.REQUESTS, inputs=(rate,),
                note="solved from the rate by Little's law")  # fmt: skip


# --- as a plan shows it --------------------------------------------------------------------------


def _rank_time(rank: RankPace) -> RankTime:
    return RankTime(
        rank.inventory.book,
        tuple((m.module, m.read) for m in rank.modules),
        tuple((m.module, m.computed) for m in rank.modules),
        rank.cache_read,
        rank.attention,
        (*((m.module, m.time) for m in rank.modules), (VECTORS, rank.vectors)),
        rank.kv,
        rank.launches,
    )


def _times(stages: tuple[StagePace, ...]) -> tuple[RankTime, ...]:
    return tuple(_rank_time(rank) for stage in stages for rank in stage.ranks)


def _decode(placement: Placement, made: Serving, found: Steady, carried: Load) -> Decode:
    times = _times(found.step)
    terms = {
        "decode.tpot": found.tpot,
        "decode.kv_read": over_stages(placement, times, "cache read", lambda t: t.cache_read),
        "decode.kv_read_mean": _mean_read(placement, times, carried),
        "decode.weight_read": over_stages(
            placement, times, "weights read", lambda t: t.weight_read
        ),
        "decode.collectives": total("collectives", [s.collectives for s in found.step]),
        "decode.vectors": over_stages(
            placement, times, "hidden vectors", lambda t: dict(t.modules)[VECTORS]
        ),
        "decode.launches": over_stages(placement, times, "launches", lambda t: t.launches),
        "decode.prompts": found.prompts,
        "decode.throughput": found.throughput,
        **kinds_read(placement, times),
        **banded("decode.tpot", found.tpot, made.constants.tpot),
    }
    exchanges = tuple(cost for stage in found.step for cost in stage.exchanges)
    yielded = float(made.drafting.yielded.value)
    through, verified, stepped, prompts = (
        real(t.value) for t in (found.through, found.verified, found.stepped, found.prompts)
    )
    beside = (
        ("waiting for the slowest stage", verified - through),
        ("drafting", stepped - verified),
        ("prompts of others", prompts * yielded),
    )
    return Decode(times, exchanges, terms, beside, yielded)


def _mean_read(placement: Placement, times: tuple[RankTime, ...], carried: Load) -> Term:
    """The cache read of a rank that has the mean number of requests."""
    read = over_stages(placement, times, "cache read", lambda t: t.cache_read)
    busiest = carried.busiest.value
    part = where(busiest > 0, over(carried.mean.value, at_least(busiest, 1)), Fraction(1))
    share = Term("mean over busiest", part, inputs=(carried.mean, carried.busiest))
    return scaled.derive("cache read, mean over ranks", time=read, share=share)


@formula("time x requests of the mean rank / of the busiest", TIME)
def scaled(time: float, share: float) -> float:
    return real(time) * real(share)


def _prefill(made: Serving, lengths: Lengths, token: First, chunk: Term | None = None) -> Prefill:
    full = every_rank_busy.derive(
        "prefill throughput, every rank with a prompt", replicas=made.setting.replicas,
        ranks=made.setting.ranks, new=lengths.new, stage=token.busy,
    )  # fmt: skip
    return Prefill(
        _times(token.stages),
        tuple(cost for stage in token.stages for cost in stage.exchanges),
        token.service,
        # What a prompt keeps a server busy for, with its DP ranks as servers.
        kept_busy.derive("prefill in the slowest stage", one=token.one, ranks=made.setting.ranks),
        token.ttft,
        prefill_rate.derive(
            "prefill throughput", replicas=made.setting.replicas, new=lengths.new, one=token.one
        ),
        lengths.new,
        lengths.found,
        made.setting.block(lengths.new),
        token.busy,
        token.held,
        chunk,
        None if chunk is None else full,
    )


@formula("time of a prompt in a replica x DP ranks", TIME)
def kept_busy(one: float, ranks: int) -> float:
    return real(one) * real(ranks)


def _prefill_values(made: Serving, found: Prefill, *, of_context: bool) -> dict[str, Term]:
    values = {"prefill.throughput": found.throughput}
    ttft = found.service.named("time to the first token") if of_context else found.ttft
    if some(ttft.value < float("inf")):
        values["prefill.ttft"] = ttft
        values.update(banded("prefill.ttft", ttft, made.constants.ttft))
    return values


def banded(name: str, term: Term, band: Band | None) -> dict[str, Term]:
    """The ends of the wide band: nine of ten measurements lie between them."""
    if band is None:
        return {}
    origin = band.origin("wide")
    wide = Term(
        "wide band", band.wide, basis="catalog" if origin and origin.source else "spec",
        span=origin.span if origin else None, source=origin.source if origin else None,
    )  # fmt: skip
    return {
        f"{name}_low": low_end.derive(f"{term.label}, low end", time=term, band=wide),
        f"{name}_high": high_end.derive(f"{term.label}, high end", time=term, band=wide),
    }
