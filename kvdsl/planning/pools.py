"""The values of a deployment from those of its pools.

With one pool they are its own. With several, `kv` and `decode` are of those that decode, `prefill`
of those that prefill, the rest of all: `memory` of the fullest device of any. `pools.NAME.VALUE`
asks one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kvdsl.costs.clients import HeldBack, held_back
from kvdsl.costs.closed_loops import handed_on, place
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.load import asked_requests, output_of
from kvdsl.costs.money import paid
from kvdsl.costs.pace import constants
from kvdsl.costs.service import Service, service
from kvdsl.formulas import Term, greatest, least, total
from kvdsl.placement.subject import Subject
from kvdsl.spec.deployment import Deployment

QUEUED = frozenset({"prefill.ttft", "prefill.ttft_low", "prefill.ttft_high"})
"""Values that a deployment has none of where a queue in any of its pools grows without end."""

_SUMMED = frozenset(
    {
        "kv.tokens", "kv.sequences", "kv.running", "decode.throughput", "prefill.throughput",
        "gpus",
    }
)  # fmt: skip
_PAID = frozenset({"cost.per_hour", "cost.per_mtok", "power"})
"""Of the hardware that all pools stand on: no sum of theirs, as two may stand in one node."""
_LEAST = frozenset({"kv.tokens_per_rank", "memory.kv", "memory.free"})


def served(
    deployment: Deployment, estimates: Mapping[str, Estimate], held: HeldBack | None = None
) -> tuple[dict[str, Term], Service]:
    """Every value that the deployment answers, and what its pools make together."""
    own = _own(deployment, estimates, held)
    made = service(deployment, estimates, own, held)
    apart = {name: term for name, term in own.items() if name.startswith("pools.")}
    whole = {name: term for name, term in own.items() if name not in apart}
    return {**whole, **made.values, **apart}, made


def _own(
    deployment: Deployment, estimates: Mapping[str, Estimate], held: HeldBack | None
) -> dict[str, Term]:
    """The pools' own values, joined."""
    pools = list(estimates.values())
    if len(pools) == 1:
        return dict(pools[0].values)
    found: dict[str, Term] = {}
    overrun = any(pool.overrun for pool in pools)
    names = dict.fromkeys(name for pool in pools for name in pool.values)
    for name in names:
        terms = [pool.values[name] for pool in _asked(name, pools) if name in pool.values]
        if terms and name not in _PAID and not (name in QUEUED and overrun):
            found[name] = _joined(name, terms)
    found.update(_waited_for(pools, found, held))
    found.update(paid([pool.placement for pool in pools], deployment, found))
    for title, pool in estimates.items():
        for name, term in pool.values.items():
            found[f"pools.{title}.{name}"] = term
    return found


def bound(pools: Mapping[str, Estimate]) -> tuple[HeldBack | None, dict[str, Subject]]:
    """Where prefill holds requests back: how, and the pools that decode with those that reach
    them."""
    names = [name for name, pool in pools.items() if pool.subject.pool.role == "decode"]
    senders = [pool for pool in pools.values() if pool.subject.pool.role == "prefill"]
    if len(names) + len(senders) != len(pools):
        return None, {}
    held = held_back(senders, [pools[name] for name in names])
    return held, {} if held is None else dict(zip(names, held.subjects, strict=True))


def _waited_for(
    pools: Sequence[Estimate], found: Mapping[str, Term], held: HeldBack | None
) -> dict[str, Term]:
    """The first token of pools that prefill for clients that decode in another: a concurrency is
    of both together, and who finds no place there waits."""
    places = list(_places(pools))
    waited = []
    for pool in pools:
        said = pool.subject.workload.concurrency
        if pool.subject.pool.role != "prefill" or said is None or "decode.tpot" not in found:
            continue
        clients, tpot = asked_requests(pool.subject), found["decode.tpot"]
        handed = handed_on(pool.placement, pool.ledgers, clients, tpot, places)
        if not handed and places and "prefill.ttft" in pool.values:
            ttft = [pool.values["prefill.ttft"], greatest("wait for a place", places)]
            handed = {"prefill.ttft": total("time to the first token", ttft)}
        waited.append(handed)
    slowest = max((w for w in waited if w), key=lambda w: w["prefill.ttft"].value, default=None)
    if slowest is None and held is not None and "decode.tpot" in found:
        return {"prefill.ttft": held.ttft(found["decode.tpot"])}
    return slowest or {}


def _places(pools: Sequence[Estimate]) -> Iterator[Term]:
    """What clients wait for a place in each pool that decodes for others and cannot hold them."""
    for pool in pools:
        if pool.subject.pool.role == "decode" and pool.load is not None:
            output, tpot = output_of(pool.subject), pool.values["decode.tpot"]
            wait = place(pool.load, output, tpot, constants(pool.subject), always=False)
            if wait is not None:
                yield wait


def _asked(name: str, pools: Sequence[Estimate]) -> list[Estimate]:
    role = "prefill" if name.startswith("prefill.") else "decode"
    if name.startswith(("kv.", "state.", "decode.", "prefill.", "memory.free")):
        return [p for p in pools if p.subject.pool.role in (role, "both")]
    return list(pools)


def _joined(name: str, terms: list[Term]) -> Term:
    if len(terms) == 1:
        return terms[0]
    join: Callable[[str, Sequence[Term]], Term] = greatest
    if name in _SUMMED:
        join = total
    elif name in _LEAST:
        join = least
    return join(terms[0].label, terms)
