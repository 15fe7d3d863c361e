"""Service: what the pools of a deployment make together, and with what lies below their memory.

Comes in: a deployment and the estimate of each pool. Goes out: a `Service`: arrivals, the handovers
between pools, their balance, the tiers, and the same devices as one pool; with the values that
follow. Not its job: the values of a pool alone (estimate), or how values of pools are joined
(planning).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kvdsl.arithmetic import real
from kvdsl.costs.balance import Balance, arrivals, balance
from kvdsl.costs.clients import HeldBack
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.reuse import Reuse, mean_fetch, reuse
from kvdsl.costs.sharing import Together, apart, together
from kvdsl.costs.tiers import tier
from kvdsl.costs.transfer import Handover, handover
from kvdsl.formulas import Term, formula, greatest, least, total
from kvdsl.spec.deployment import Deployment
from kvdsl.units import BYTE_RATE


@formula("arrivals x bytes of a request", BYTE_RATE, "Zhong et al., DistServe, arXiv 2401.09670")
def needed_rate(arrivals: float, size: float) -> float:
    return real(arrivals) * real(size)


@dataclass(frozen=True, slots=True)
class Service:
    """`handover` is the slowest between pools. `values` are those that only the whole has."""

    deployment: Deployment
    pools: Mapping[str, Estimate]
    arrivals: Term | None
    handover: Handover | None
    needed: Term | None
    balance: Balance | None
    reuse: tuple[Reuse, ...]
    together: Together | None
    apart: Term | None
    own: Mapping[str, Term]
    values: Mapping[str, Term]
    held: HeldBack | None = None
    """Where prefill holds requests in flight back."""

    @property
    def all(self) -> dict[str, Term]:
        """Every value: those of the pools and those that only the whole has."""
        return {**self.own, **self.values}

    def again(self, **changes: object) -> Service:
        """The same pools with something else between or below them."""
        deployment = self.deployment.model_copy(update=changes)
        return service(deployment, self.pools, self.own, self.held)

    def shown(self) -> Estimate:
        """All values as one estimate, to compare with another."""
        return replace(next(iter(self.pools.values())), values=self.all)


def service(
    deployment: Deployment,
    pools: Mapping[str, Estimate],
    values: Mapping[str, Term],
    held: HeldBack | None = None,
) -> Service:
    """What the pools make together; `values` are their own, joined."""
    everyone = list(pools.values())
    senders = [p for p in everyone if p.subject.pool.role == "prefill"]
    receivers = [p for p in everyone if p.subject.pool.role == "decode"]
    # Of a pool that prefills: those that decode may have a part of the requests in flight.
    workload = (senders or everyone)[0].subject.workload
    rate = arrivals(workload, values)
    moved = _slowest(deployment, senders, [p for p in everyone if p.subject.pool.role != "prefill"])
    needed = None
    if moved is not None and rate is not None:
        needed = needed_rate.derive("asked of the lanes", arrivals=rate, size=moved.size)
    even = None if rate is None else balance(senders, receivers, rate)
    kept = tuple(
        _kept(deployment, pool, everyone, rate) for pool in _prefilling(deployment, everyone)
    )
    found = _values(moved, needed, even, kept, values)
    one, both = _compared(moved, rate, {**values, **found})
    return Service(
        deployment, pools, rate, moved, needed, even, kept, one, both, values, found, held
    )


def _slowest(
    deployment: Deployment, senders: Sequence[Estimate], receivers: Sequence[Estimate]
) -> Handover | None:
    if deployment.transfer is None:
        return None
    found = [handover(deployment.transfer, a, b) for a in senders for b in receivers]
    return max(found, key=lambda one: float(one.visible.value), default=None)


def _prefilling(deployment: Deployment, pools: Sequence[Estimate]) -> list[Estimate]:
    """The pools that look prefixes up: those that prefill."""
    return [p for p in pools if p.subject.pool.role != "decode"] if deployment.tiers else []


def _kept(
    deployment: Deployment, pool: Estimate, pools: Sequence[Estimate], rate: Term | None
) -> Reuse:
    others = tuple(other for other in pools if other is not pool)
    share = pool.subject.pool.share
    if rate is not None and share is not None and share != 1:
        rate = replace(rate, value=real(rate.value) * float(share), inputs=(rate,), formula=None)
    return reuse(pool, [tier(use, pool, others) for use in deployment.tiers.values()], rate)


def _values(
    moved: Handover | None, needed: Term | None, even: Balance | None, kept: Sequence[Reuse],
    values: Mapping[str, Term],
) -> dict[str, Term]:  # fmt: skip
    found: dict[str, Term] = {}
    waits = []
    if moved is not None:
        found.update(moved.terms)
        waits.append(moved.visible)
    if needed is not None:
        found["transfer.rate"] = needed
    if even is not None:
        found.update(even.terms)
    found.update(_tier_values(kept))
    fetched = [term for one in kept if (term := mean_fetch(one)) is not None]
    if fetched:
        waits.append(greatest("fetched from tiers", fetched))
    if waits and "prefill.ttft" in values:
        for name in ("prefill.ttft", "prefill.ttft_low", "prefill.ttft_high"):
            if name in values:
                found[name] = total(values[name].label, [values[name], *waits])
    return found


_SUMMED = ("tokens", "read_rate", "read_bandwidth", "write_rate", "write_bandwidth")


def _tier_values(kept: Sequence[Reuse]) -> dict[str, Term]:
    """Of several pools that prefill, capacities and rates are summed, times those of the slowest;
    what is shared is there once."""
    lists: dict[str, list[Term]] = {}
    shared = {one.tier.name for each in kept for one in each.kept if one.tier.use.tier.shared}
    for each in kept:
        for one in each.kept:
            for name, term in one.terms.items():
                lists.setdefault(name, []).append(term)
    found = {}
    for name, terms in lists.items():
        _, title, word = name.split(".")
        if len(terms) == 1:
            found[name] = terms[0]
        elif word in _SUMMED and not (title in shared and not word.endswith("rate")):
            found[name] = total(terms[0].label, terms)
        elif word == "share" or title in shared:
            found[name] = least(terms[0].label, terms)
        else:
            found[name] = greatest(terms[0].label, terms)
    return found


def _compared(
    moved: Handover | None, rate: Term | None, values: Mapping[str, Term]
) -> tuple[Together | None, Term | None]:
    """The same devices in one pool, and a request's time in both ways."""
    if moved is None or rate is None:
        return None, None
    if "prefill.ttft" not in values or "decode.tpot" not in values:
        return None, None
    return (
        together(moved.sender, moved.receiver),
        apart(values["prefill.ttft"], values["decode.tpot"], moved.receiver.subject),
    )
