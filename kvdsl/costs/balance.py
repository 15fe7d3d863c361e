"""Balance: how busy the pools are, and how many devices of each would make them as busy.

Comes in: the estimates of the pools. Goes out: arrivals a second, how busy prefill and decode are
against all that they could do, and the ratio of their devices: as it is, and as it would have to be
for both to be as busy. Source: Zhong et al., DistServe, arXiv 2401.09670, which places each phase
by the rate that it alone can serve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import over, real
from kvdsl.costs.admission import RUNNING
from kvdsl.costs.estimate import Estimate, estimate, reloaded
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import of_workload
from kvdsl.formulas import Term, formula, total
from kvdsl.spec.workload import Workload
from kvdsl.units import NONE, REQUEST_RATE, tidy


@formula("in flight / (time to the first token + output x time of a token)", REQUEST_RATE,
         "Little's law")  # fmt: skip
def arrivals_of(in_flight: float, ttft: float, output: float, tpot: float) -> float:
    return real(in_flight) / (real(ttft) + real(output) * real(tpot))


@formula("arrivals x time of a prompt in the slowest stage / prompts at once", NONE)
def prefill_busy(arrivals: float, stage: float, servers: int) -> float:
    return real(arrivals) * real(stage) / real(servers)


@formula("arrivals x output x time of a token at a full cache / requests that fit", NONE,
         "Little's law, with as many in flight as the cache holds")  # fmt: skip
def decode_busy(arrivals: float, output: float, tpot: float, sequences: int) -> float:
    return real(arrivals) * real(output) * real(tpot) / real(sequences)


@formula("devices that prefill / devices that decode", NONE)
def device_ratio(prefill: int, decode: int) -> Fraction | int:
    return over(prefill, decode)


@formula("ratio x how busy prefill is / how busy decode is", NONE, "both as busy")
def even_ratio(ratio: float, prefill: float, decode: float) -> float:
    return real(ratio) * real(prefill) / real(decode)


@dataclass(frozen=True, slots=True)
class Balance:
    prefill: Term
    decode: Term
    ratio: Term
    even: Term

    @property
    def terms(self) -> dict[str, Term]:
        return {
            "balance.prefill": self.prefill,
            "balance.decode": self.decode,
            "balance.ratio": self.ratio,
            "balance.even": self.even,
        }


def mean_output(workload: Workload) -> Fraction | int | None:
    """Tokens of output a request, the mean over classes; None where none are told."""
    if not workload.classes:
        return workload.output
    outputs = [(Fraction(kind.share), kind.output) for kind in workload.classes.values()]
    if any(output is None for _, output in outputs):
        return None
    return tidy(sum((share * (output or 0) for share, output in outputs), start=Fraction(0)))


def arrivals(workload: Workload, values: Mapping[str, Term]) -> Term | None:
    """Requests a second: as the workload says, or as its requests in flight come and go. None for
    a steady context, whose requests never end."""
    if workload.rate is not None:
        return leaf(workload, "rate", "arrivals", workload.rate, REQUEST_RATE)
    output = mean_output(workload)
    asked = ("prefill.ttft", "decode.tpot")
    if not output or workload.concurrency is None or any(name not in values for name in asked):
        return None
    return arrivals_of.derive(
        "arrivals",
        in_flight=leaf(workload, "concurrency", "in flight", workload.concurrency, units.REQUESTS),
        ttft=values["prefill.ttft"],
        output=Term("output", output, units.TOKENS, basis="spec", span=workload.at),
        tpot=values["decode.tpot"],
    )


def _share(pool: Estimate, rate: Term) -> Term:
    share = pool.subject.pool.share
    if share is None or share == 1:
        return rate
    return Term("arrivals in the pool", real(rate.value) * float(share), REQUEST_RATE,
                inputs=(rate,), note="the pool's share")  # fmt: skip


def busy_prefill(pool: Estimate, rate: Term) -> Term | None:
    if pool.prefill is None:
        return None
    servers = Term("prompts at once", pool.subject.degrees.holders, basis="spec",
                   span=pool.subject.place("layout"))  # fmt: skip
    return prefill_busy.derive(
        "how busy prefill is", arrivals=_share(pool, rate), stage=pool.prefill.stage,
        servers=servers,
    )  # fmt: skip


def busy_decode(pool: Estimate, rate: Term) -> Term | None:
    """Against a full cache: as many in flight as fit, each step as slow as that makes it."""
    output = mean_output(pool.subject.workload)
    fit = pool.values[RUNNING]
    if pool.decode is None or not output or int(fit.value) < 1:
        return None
    full = _at_a_full_cache(pool, int(fit.value))
    if "decode.tpot" not in full.values:
        return None
    return decode_busy.derive(
        "how busy decode is",
        arrivals=_share(pool, rate),
        output=of_workload(pool.subject, "output", output, units.TOKENS),
        tpot=full.values["decode.tpot"],
        sequences=fit,
    )


def _at_a_full_cache(pool: Estimate, fit: int) -> Estimate:
    """The pool with as many requests in flight as fit, through the same function as the plan."""
    share = pool.subject.pool.share or 1
    asked = {"concurrency": max(1, int(fit / Fraction(share))), "rate": None}
    workload = pool.subject.workload.model_copy(update=asked)
    placement = reloaded(pool, workload)
    return estimate(placement.subject, placement)


def balance(
    senders: Sequence[Estimate], receivers: Sequence[Estimate], rate: Term
) -> Balance | None:
    """Of pools that only prefill and pools that only decode; the busiest of each speaks for all."""
    first = [term for pool in senders if (term := busy_prefill(pool, rate)) is not None]
    second = [term for pool in receivers if (term := busy_decode(pool, rate)) is not None]
    if not first or not second or not all(real(term.value) for term in (*first, *second)):
        return None
    busy = max(first, key=lambda term: float(term.value))
    other = max(second, key=lambda term: float(term.value))
    ratio = device_ratio.derive(
        "devices that prefill for one that decodes",
        prefill=total("devices that prefill", [p.values["gpus"] for p in senders]),
        decode=total("devices that decode", [p.values["gpus"] for p in receivers]),
    )
    even = even_ratio.derive("the ratio at which both are as busy", ratio=ratio, prefill=busy,
                             decode=other)  # fmt: skip
    return Balance(busy, other, ratio, even)
