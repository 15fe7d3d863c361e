"""Rules on how a cache goes between two pools: its link, its lanes, the cut of both sides."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from kvdsl.checks.study import Fact, Fill, Suggestion, told_apart
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.service import Service
from kvdsl.costs.transfer import Handover, between, handover
from kvdsl.diagnostics import Severity
from kvdsl.placement.joins import Join
from kvdsl.rules import Rule, rule
from kvdsl.source import Span
from kvdsl.units import BYTE_RATE, BYTES, NONE, Quantity, shown, tidy


def written(moved: Handover, word: str) -> Span:
    """Where the transfer says something, else where it stands."""
    origin = moved.transfer.origin(word) or moved.transfer.origin("over")
    if origin is not None:
        return origin.span
    return moved.sender.subject.place("deployment")


@rule(
    "KV171",
    "link-below-demand",
    Severity.ERROR,
    "service",
    "the requests hand over {needed}, and what joins the pools carries {present}",
    label="{lanes} a request",
    notes=("{rate} of {size} each",),
)
def link_below_demand(made: Service) -> Iterator[Fact]:
    """A link that cannot keep up with the requests.

    What it checks
        Arrivals times the bytes of a request are at most what the lanes of all requests carry.

    Why it matters
        Past it handovers queue without end, whatever a single one takes.

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
          transfer { over = links.roce_100; lanes = 1 }
        }

    Instead
        More lanes, a faster link, or a smaller format.

        deployment better extends served { transfer { lanes = 8 } }
    """
    moved, needed = made.handover, made.needed
    if moved is None or needed is None or made.arrivals is None:
        return
    if float(needed.value) <= float(moved.present.value):
        return
    ratio = float(needed.value) / float(moved.present.value)
    lanes = int(-(-float(moved.lanes.value) * ratio // 1))
    more = made.again(transfer=moved.transfer.model_copy(update={"lanes": lanes}))
    yield Fact(
        written(moved, "over"),
        {
            "needed": needed.quantity,
            "present": moved.present.quantity,
            "lanes": _lanes(moved),
            "rate": made.arrivals.quantity,
            "size": moved.size.quantity,
        },
        (("asked of the link", needed.quantity), ("carried by it", moved.present.quantity)),
        Suggestion(f"lanes = {lanes}", f"lanes = {lanes}", more.shown(),
                   ("transfer.bandwidth", "transfer.time", "prefill.ttft")),
    )  # fmt: skip


def _lanes(moved: Handover) -> str:
    count = float(moved.lanes.value)
    return f"{count:g} lane{'s' if count != 1 else ''}"


@rule(
    "KV172",
    "converted-layout",
    Severity.WARNING,
    "service",
    "prefill holds a request {sender} and decode {receiver}: the cache is converted on its way",
    also=(Severity.INFO,),
    label="{size} a request, {beyond}",
    notes=("each byte is pulled by {copies:devices}", "{uneven}"),
)
def converted_layout(made: Service) -> Iterator[Fact]:
    """Pools that cut the cache in different ways.

    What it checks
        Tensor parallelism of attention, sequence ways and stages agree between the pools. Where
        they do not, each device that decodes pulls its own part: split heads cost no more bytes,
        and the finding is information; a latent, or heads with copies, is sent once a device. Two
        degrees of which neither divides the other cut heads apart.

    Why it matters
        Engines convert on the way or refuse: vLLM's NIXL connector wants one degree to divide the
        other, and each decode rank pulls the whole latent of MLA.

    Example
        deployment served {
          model    = models.gpt_2
          weights  = formats.bf16
          kv       = formats.bf16
          budget   { reserve = 3 GB }
          workload { prompt = 512 tok; output = 256 tok; rate = 100 req/s }
          pool prefill { on = nodes.hgx_h100.devices[0..2]; layout { tp = 3 } }
          pool decode  { on = nodes.hgx_h100.devices[4..5]; layout { tp = 2 } }
          transfer { over = links.nvlink4 }
          allow KV170 because "decode is to be steady"
        }

    Instead
        The same cut of the cache in both pools, or one that halves the other's.

        deployment better extends served {
          pool prefill { on = nodes.hgx_h100.devices[0..1]; layout { tp = 2 } }
        }
    """
    moved = made.handover
    if moved is None:
        return
    a, b = moved.sender.subject.degrees, moved.receiver.subject.degrees
    shapes = [_shape(pool) for pool in (moved.sender, moved.receiver)]
    if shapes[0] == shapes[1] or not moved.parts:
        return
    one, size = Fraction(moved.one.value), Fraction(moved.size.value)
    tp = (a.attention.tp, b.attention.tp)
    uneven = max(tp) % min(tp) != 0
    yield Fact(
        written(moved, "over"),
        {
            "sender": shapes[0],
            "receiver": shapes[1],
            "size": moved.size.quantity,
            "beyond": f"{shown(moved.one.quantity)} of one copy" if size > one else "one copy",
            "copies": Quantity(tidy(size / one), NONE) if size > one else "",
            "uneven": f"neither of {tp[0]} and {tp[1]} divides the other" if uneven else "",
        },
        (("sent beyond one copy", Quantity(tidy(size - one), BYTES)),) if size > one else (),
        severity=Severity.WARNING if size > one or uneven else Severity.INFO,
    )


def _shape(pool: Estimate) -> str:
    degrees = pool.subject.degrees
    axes = (("TP", degrees.attention.tp), ("CP", degrees.attention.cp), ("PP", degrees.pp))
    said = [f"{axis}={size}" for axis, size in axes if size > 1]
    return f"over {' '.join(said)}" if said else "whole on a device"


@rule(
    "KV173",
    "unpaired-stages",
    Severity.WARNING,
    "service",
    "a request waits {visible} for its cache to cross nodes, longer than the {tpot} of a token",
    label="over {link}; inside a node {fast} would carry it",
    notes=("{size} a request",),
    flips="a faster fabric, or layers sent behind the prefill (`overlap = layerwise`)",
)
def unpaired_stages(made: Service) -> Iterator[Fact]:
    """Handovers that cross nodes where both sides would fit into one.

    What it checks
        Pools of one kind of node, whose sets of devices for a request fit into one node together;
        the transfer goes between nodes, and its visible time is longer than that of a token. The
        same transfer over the node's own links is run.

    Why it matters
        DistServe places the stages of prefill and decode that hold the same layers in one node
        where links between nodes are slow.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 4 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
          pool prefill { on = 1 x nodes.hgx_h100; replicas = 2 }
          pool decode  { on = 1 x nodes.hgx_h100; replicas = 2 }
          transfer { over = links.roce_200 }
        }

    Instead
        Both pools in each node.

        deployment better extends served {
          pool prefill { on = nodes.hgx_h100.devices[0..3]; replicas = 1 }
          pool decode  { on = nodes.hgx_h100.devices[4..7]; replicas = 1 }
          transfer     { over = links.nvlink4 }
        }
    """
    moved = made.handover
    tpot = made.all.get("decode.tpot")
    if moved is None or tpot is None or float(moved.visible.value) <= float(tpot.value):
        return
    if not told_apart(moved.visible.quantity, tpot.quantity):
        return
    one, other = moved.sender.subject.pool.on, moved.receiver.subject.pool.on
    if moved.inside or one is None or other is None or one.of.title != other.of.title:
        return
    place = moved.sender.subject.topology
    own = place.devices // max(1, place.nodes)
    if sum(Fraction(side.value) for side in moved.devices) > own or own < 2:
        return
    join = place.reach((0, 1)).join
    if join is None or not join.fast or join.link.bandwidth <= moved.transfer.over.bandwidth:
        return
    changes = {"over": join.link, "lanes": None}
    paired = handover(moved.transfer.model_copy(update=changes), moved.sender, moved.receiver)
    near = made.again(transfer=paired.transfer)
    yield Fact(
        written(moved, "over"),
        {
            "visible": moved.visible.quantity,
            "tpot": tpot.quantity,
            "link": _title(moved.transfer.over.title),
            "fast": _title(join.link.title),
            "size": moved.size.quantity,
        },
        (("visible transfer", moved.visible.quantity),),
        Suggestion("both stages of a request in one node", f"over = {join.link.title}",
                   near.shown(), ("transfer.time", "prefill.ttft")),
    )  # fmt: skip


def _title(title: str) -> str:
    return title.rpartition(".")[2]


@rule(
    "KV178",
    "transfer-beyond-its-link",
    Severity.WARNING,
    "service",
    "the transfer is given {given}, and what joins the pools has {there}",
    label="{time} a request, with that",
    notes=("{join} joins them",),
    helps=("write {way}",),
)
def transfer_beyond_its_link(made: Service) -> Iterator[Fact]:
    """A transfer over more than joins its pools.

    What it checks
        Where both pools stand on one piece of hardware, its description says what joins them: the
        transfer's link is no faster than that, and its lanes are no more than the NICs of the nodes
        that hold a request.

    Why it matters
        A transfer is believed: with a link of another place its time is that of the other place.

    Example
        cluster hall { nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }

        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
          pool prefill { on = hall.nodes[0] }
          pool decode  { on = hall.nodes[1] }
          transfer { over = links.nvlink4 }
          allow KV174 because "decode is to be steady"
        }

    Instead
        The link that is there.

        deployment better extends served {
          transfer { over = links.infiniband_ndr }
        }
    """
    moved = made.handover
    reach = between(moved.sender, moved.receiver) if moved is not None else None
    if moved is None or reach is None or reach.kind == "device":
        return
    join, over, lanes = reach.join, moved.transfer.over, moved.transfer.lanes
    fills: dict[str, Fill] = {"time": moved.visible.quantity}
    most = _nics(moved, join)
    if join is None:
        fills |= {"given": over.title, "there": "none", "join": "", "way": ""}
        yield Fact(written(moved, "over"), fills)
    elif over.bandwidth > join.link.bandwidth:
        rates = [Quantity(link.bandwidth, BYTE_RATE) for link in (over, join.link)]
        fills |= {
            "given": f"a link of {shown(rates[0])}",
            "there": shown(rates[1]),
            "join": join.link.title if join.link.name else "",
            "way": f"`over = {join.link.title}`" if join.link.name else "",
        }
        yield Fact(written(moved, "over"), fills, (("of the link that joins them", rates[1]),))
    elif lanes is not None and most is not None and lanes > most:
        fills |= {
            "given": f"{lanes:,} lanes",
            "there": f"{most:,} NICs in the nodes of a request",
            "join": join.link.title if join.link.name else "",
            "way": f"`lanes = {most}`, or leave it out",
        }
        yield Fact(written(moved, "lanes"), fills, (("NICs", Quantity(most)),))


def _nics(moved: Handover, join: Join | None) -> int | None:
    """NICs of the nodes that the devices of a request stand in, on the side with fewer."""
    if join is None or join.kind != "fabric" or not join.rails:
        return None
    found = []
    for pool, side in zip((moved.sender, moved.receiver), moved.devices, strict=True):
        own = pool.subject.topology.devices / max(1, pool.subject.topology.nodes)
        found.append(join.rails * max(1, ceil(Fraction(side.value) / Fraction(own))))
    return min(found)


@rule(
    "KV179",
    "handover-unsaid",
    Severity.WARNING,
    "service",
    "nothing says how a request's cache goes from {sender} to {receiver}: its time is left out",
    label="no `transfer`",
    helps=("say over what: `transfer {{ over = {over} }}`",),
)
def handover_unsaid(made: Service) -> Iterator[Fact]:
    """Pools apart without a transfer between them.

    What it checks
        A deployment with pools that prefill and pools that decode has a `transfer`.

    Why it matters
        The first token waits for the cache to arrive. Without a link the wait is not known, and
        the times are too good.

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
        }

    Instead
        The link between the pools.

        deployment better extends served {
          transfer { over = links.infiniband_ndr }
        }
    """
    roles = {pool.subject.pool.role: (name, pool) for name, pool in made.pools.items()}
    if made.deployment.transfer is not None or not {"prefill", "decode"} <= roles.keys():
        return
    (sender, first), (receiver, second) = roles["prefill"], roles["decode"]
    reach = between(first, second)
    join = reach.join if reach is not None else None
    over = join.link.title if join is not None and join.link.name else "links.infiniband_ndr"
    fills: dict[str, Fill] = {"sender": sender, "receiver": receiver, "over": over}
    yield Fact(first.subject.place("deployment"), fills)


RULES: tuple[Rule, ...] = (
    link_below_demand,
    converted_layout,
    unpaired_stages,
    transfer_beyond_its_link,
    handover_unsaid,
)
