"""Rules on disaggregation itself: whether two pools are worth it, and how many devices in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.checks.handover import written
from kvdsl.checks.study import Fact, Fill, Suggestion, told_apart
from kvdsl.costs.balance import Balance, balance
from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.service import Service
from kvdsl.costs.sharing import Together, alike
from kvdsl.costs.transfer import Handover
from kvdsl.diagnostics import Severity
from kvdsl.placement.topology import topology
from kvdsl.rules import Rule, rule
from kvdsl.units import NONE, Quantity, shown

APART = ("prefill.ttft", "decode.tpot", "kv.tokens")
"""What one pool and two are compared by."""

ROUNDING = 1e-9
"""Of a pool that is busy all the time as a float has it."""


@rule(
    "KV170",
    "needless-disaggregation",
    Severity.WARNING,
    "service",
    "prefill and decode apart take {apart} a request; the same devices in one pool take {one}",
    label="{transfer} of transfer{against}",
    notes=("in one pool the first token takes {ttft} and each further one {tpot}, with what "
           "prompts hold up; apart {apart_ttft} and {apart_tpot}",),
    flips="longer outputs, or more arrivals: prompts then hold up more tokens",
)  # fmt: skip
def needless_disaggregation(made: Service) -> Iterator[Fact]:
    """Two pools where one serves a request sooner.

    What it checks
        A request from its arrival to its last token, in two pools and in one of all their devices
        under the better of both layouts, run through the same function. In one pool prompts hold up
        decode for the part of the time that prefill is busy. Devices of two kinds are not judged.

    Why it matters
        Disaggregation pays with the transfer, and each phase has a part of the devices. It saves
        the time that prompts hold up tokens: little, where outputs are short and batches small.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 8 tok; rate = 1 req/s }
          pool prefill { on = 1 x nodes.hgx_h100 }
          pool decode  { on = 1 x nodes.hgx_h100 }
          transfer { over = links.infiniband_ndr }
        }

    Instead
        One pool, or a workload that needs two.

        deployment better extends served {
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
        }
    """
    yield from _judged(made, pays=False)


@rule(
    "KV174",
    "paying-disaggregation",
    Severity.INFO,
    "service",
    "prefill and decode apart take {apart} a request; the same devices in one pool would "
    "take {one}",
    label="{transfer} of transfer{against}",
    notes=("in one pool the first token would take {ttft} and each further one {tpot}; apart they "
           "take {apart_ttft} and {apart_tpot}",),
    flips="shorter outputs, fewer arrivals or a slower link",
)  # fmt: skip
def paying_disaggregation(made: Service) -> Iterator[Fact]:
    """Two pools that serve a request sooner than one.

    What it checks
        As KV170, the other way round.

    Why it matters
        It says what disaggregation is worth here, and what would turn it.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
          pool prefill { on = 1 x nodes.hgx_h100 }
          pool decode  { on = 1 x nodes.hgx_h100 }
          transfer { over = links.infiniband_ndr }
        }

    Instead
        Nothing: this is information.
    """
    yield from _judged(made, pays=True)


def _judged(made: Service, *, pays: bool) -> Iterator[Fact]:
    one, apart, moved = made.together, made.apart, made.handover
    if one is None or apart is None or moved is None or _queues(moved):
        return
    if (float(apart.value) < float(one.time.value)) is not pays:
        return
    if not told_apart(apart.quantity, one.time.quantity):
        return
    values, there = made.all, one.estimate.values
    degrees = one.estimate.subject.degrees
    fills: dict[str, Fill] = {
        "apart": apart.quantity,
        "one": one.time.quantity,
        "transfer": moved.visible.quantity,
        "against": _held_up(one, pays=pays),
        "ttft": there["prefill.ttft"].quantity,
        "tpot": there["decode.tpot"].quantity,
        "apart_ttft": values["prefill.ttft"].quantity,
        "apart_tpot": values["decode.tpot"].quantity,
    }
    shows: tuple[tuple[str, Quantity], ...] = (
        ("visible transfer", moved.visible.quantity),
        ("a request in two pools", apart.quantity),
        ("a request in one pool", one.time.quantity),
        ("saved interference", one.held_up.quantity),
    )
    better = None
    if not pays:
        better = Suggestion(f"one pool: {degrees.text()}", degrees.text(), one.estimate, APART)
    yield Fact(written(moved, "over"), fills, shows, better)


def _held_up(one: Together, *, pays: bool) -> str:
    """What the transfer is weighed against: nothing where no prompt holds up another's tokens."""
    verb = "saves" if pays else "for"
    if not one.held_up.value:
        return ""
    return f" {verb} {shown(one.held_up.quantity)} that prompts would hold up decode"


@rule(
    "KV175",
    "pools-out-of-balance",
    Severity.INFO,
    "service",
    "{busy} is busy for {most} of what it can do, {idle} for {least}: {moved} of {idle} would do "
    "more in {busy}",
    also=(Severity.WARNING,),
    label="for one device that decodes {ratio} prefill; {even} would be even",
    notes=("with {replicas} of prefill and {others} of decode, prefill is busy for {first} and "
           "decode for {second}",),
)  # fmt: skip
def pools_out_of_balance(made: Service) -> Iterator[Fact]:
    """Devices that would do more in the other pool.

    What it checks
        How busy prefill is against its prompts at once, and decode against a full cache. The fewest
        whole replicas that make one of the other pool are moved, and both pools are run again: the
        busier of the two then is less busy than it was. Devices of two kinds are not judged. A
        pool that cannot serve its arrivals makes it a warning.

    Why it matters
        The busier pool sets the rate that the deployment serves. DistServe chooses the ratio so
        that both give out together.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
          pool prefill { on = 1 x nodes.hgx_h100 }
          pool decode  { on = 3 x nodes.hgx_h100; replicas = 3 }
          transfer { over = links.infiniband_ndr }
        }

    Instead
        Nothing: this is information.
    """
    even, moved = made.balance, made.handover
    if even is None or moved is None or made.arrivals is None:
        return
    found = _moved_over(made, moved, even)
    if found is None:
        return
    sender, receiver, after, count = found
    first, second = float(even.prefill.value), float(even.decode.value)
    names = ("prefill", "decode") if first > second else ("decode", "prefill")
    most, least = max(first, second), min(first, second)
    yield Fact(
        written(moved, "over"),
        {
            "busy": names[0],
            "idle": names[1],
            "most": _percent(most),
            "least": _percent(least),
            "moved": _replicas(count),
            "ratio": Quantity(float(even.ratio.value), NONE),
            "even": Quantity(float(even.even.value), NONE),
            "replicas": _replicas(sender.subject.degrees.replicas),
            "others": f"{receiver.subject.degrees.replicas}",
            "first": _percent(float(after.prefill.value)),
            "second": _percent(float(after.decode.value)),
        },
        (("devices that prefill for one that decodes", even.ratio.quantity),
         ("the same if both were as busy", even.even.quantity)),
        severity=Severity.WARNING if most > 1 - ROUNDING else None,
    )  # fmt: skip


@rule(
    "KV177",
    "held-back-by-prefill",
    Severity.WARNING,
    "service",
    "prefill hands on {rate} at the most: {reach} of {clients} in flight decode, the rest wait for "
    "their first token",
    label="{ttft} until it",
    notes=("a token then takes {tpot}; {output} in all is what prefill lets through",),
    helps=("more devices that prefill, more prefix hits, or fewer in flight",),
)
def held_back_by_prefill(made: Service) -> Iterator[Fact]:
    """More requests in flight than prefill hands on to those that decode.

    What it checks
        With so many requests in flight and no rate, prefill is fast enough that they meet in
        decode. Where it is not, those that decode are as many as take in what prefill hands on, and
        all figures of decode are of them.

    Why it matters
        Output is bounded by the slower pool. A pool that decodes could do more, and nobody would
        see it.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; concurrency = 400 req }
          pool prefill { on = 1 x nodes.hgx_h100 }
          pool decode  { on = 1 x nodes.hgx_h100 }
          transfer { over = links.infiniband_ndr }
          allow KV170 because "tokens are to come evenly"
        }

    Instead
        Fewer in flight, or more prefill.

        deployment better extends served {
          pool prefill { on = 2 x nodes.hgx_h100; replicas = 2 }
        }
    """
    held = made.held
    needed = ("prefill.ttft", "decode.tpot", "decode.throughput")
    if held is None or any(name not in made.all for name in needed):
        return
    first = next(p.subject for p in made.pools.values() if p.subject.pool.role == "prefill")
    reach = [p.load.served for p in made.pools.values() if p.load is not None]
    fewer = Quantity(sum(int(term.value) for term in reach), held.clients.dimension)
    yield Fact(
        first.place("workload"),
        {
            "rate": held.rate.quantity,
            "clients": held.clients.quantity,
            "reach": fewer,
            "ttft": made.all["prefill.ttft"].quantity,
            "tpot": made.all["decode.tpot"].quantity,
            "output": made.all["decode.throughput"].quantity,
        },
        (("decode at once", fewer), ("wait for prefill", _rest(held.clients.quantity, fewer))),
    )


def _rest(clients: Quantity, fewer: Quantity) -> Quantity:
    return Quantity(int(clients.value) - int(fewer.value), clients.dimension)


def _queues(moved: Handover) -> bool:
    """Whether requests wait for room: then no mean time of a request is known."""
    load = moved.receiver.load
    return load is not None and bool(load.queued)


def _replicas(count: int) -> str:
    return f"{count} replica{'s' if count != 1 else ''}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _moved_over(
    made: Service, moved: Handover, even: Balance
) -> tuple[Estimate, Estimate, Balance, int] | None:
    """Both pools after the fewest replicas were moved, where that is better; and how many were."""
    pools = (moved.sender, moved.receiver)
    a, b = (pool.subject for pool in pools)
    one, other = a.pool.on, b.pool.on
    if one is None or other is None or one.of.title != other.of.title or len(made.pools) != 2:
        return None
    if not alike(a, b):
        return None
    devices = [s.degrees.size * s.degrees.pp for s in (a, b)]
    to_prefill = float(even.prefill.value) > float(even.decode.value)
    taker, giver = (0, 1) if to_prefill else (1, 0)
    count = -(-devices[taker] // devices[giver])
    replicas = [a.degrees.replicas, b.degrees.replicas]
    replicas[giver] -= count
    replicas[taker] += count * devices[giver] // devices[taker]
    if replicas[giver] < 1:
        return None
    found = []
    for subject, many in zip((a, b), replicas, strict=True):
        wide = one.model_copy(update={"pick": None, "count": one.count + other.count})
        made_of = replace(subject, degrees=replace(subject.degrees, replicas=many))
        found.append(estimate(made_of.on(topology(wide))))
    rate = made.arrivals
    after = balance(found[:1], found[1:], rate) if rate is not None else None
    if after is None:
        return None
    before = max(float(even.prefill.value), float(even.decode.value))
    if max(float(after.prefill.value), float(after.decode.value)) >= before:
        return None
    return found[0], found[1], after, count


RULES: tuple[Rule, ...] = (
    needless_disaggregation,
    paying_disaggregation,
    pools_out_of_balance,
    held_back_by_prefill,
)
