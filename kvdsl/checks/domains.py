"""Rules on where ranks stand: fast domains, joins, idle devices."""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.checks.study import Fact, Study, Suggestion
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import uniform
from kvdsl.rules import Rule, rule
from kvdsl.units import TIME, Quantity

LAYER_MODULES = frozenset({"attention", "ffn", "routed_experts", "shared_experts"})


@rule(
    "KV200",
    "too-few-devices",
    Severity.ERROR,
    "subject",
    "the layout needs {needed:devices}, and {title} has {there}",
    label="{arithmetic} = {needed}",
    helps=("take {more} more, or cut less: fewer `replicas`, a smaller `tp` or `pp`",),
)
def too_few_devices(study: Study) -> Iterator[Fact]:
    """The layout fits on the devices that it is given.

    What it checks
        Devices of a stage x stages x replicas are at most the devices of `on`.

    Why it matters
        Every rank needs a device of its own.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8; replicas = 2 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        More devices in `on`, or a smaller layout.

        deployment better extends served { on = 2 x nodes.hgx_h100 }
    """
    degrees, topology = study.subject.degrees, study.subject.topology
    if degrees.devices <= topology.devices:
        return
    sizes = ((degrees.size, "a stage"), (degrees.pp, "stages"), (degrees.replicas, "replicas"))
    arithmetic = " x ".join(f"{n:,} {w}" for n, w in sizes if n > 1 or w == "a stage")
    yield Fact(
        study.subject.place("layout"),
        {
            "needed": degrees.devices,
            "title": topology.root.title,
            "there": topology.devices,
            "arithmetic": arithmetic,
            "more": degrees.devices - topology.devices,
        },
        (("needed", Quantity(degrees.devices)), ("there", Quantity(topology.devices))),
    )


@rule(
    "KV201",
    "idle-devices",
    Severity.WARNING,
    "placement",
    "no rank lies on {idle} of {there:devices}",
    label="{there:devices} here",
    notes=("the layout uses {used}: {arithmetic}",),
    helps=("another replica or a wider cut would use them; or take fewer devices",),
)
def idle_devices(study: Study) -> Iterator[Fact]:
    """Devices that hold no rank are paid for and idle.

    What it checks
        The layout uses every device of `on`.

    Why it matters
        Idle devices cost money and hold nothing; often a replica was forgotten.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 4 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        `replicas`, more `tp` or `pp`, or a smaller `on`.

        deployment better extends served { layout = { tp = 4; replicas = 2 } }
    """
    placed = study.placed
    if not placed.idle:
        return
    degrees = placed.degrees
    sizes = ((degrees.size, "a stage"), (degrees.pp, "stages"), (degrees.replicas, "replicas"))
    yield Fact(
        study.subject.place("on"),
        {
            "idle": placed.idle,
            "there": study.subject.topology.devices,
            "used": placed.used,
            "arithmetic": " x ".join(f"{n:,} {w}" for n, w in sizes if n > 1 or w == "a stage"),
        },
        (("idle", Quantity(placed.idle)), ("used", Quantity(placed.used))),
    )


@rule(
    "KV204",
    "unjoined-group",
    Severity.ERROR,
    "placement",
    "nothing joins the {size:devices} of a group ({axis})",
    label="the group spans {nodes:nodes} of {title}",
    helps=("put them in a `cluster` with a `fabric`, or keep the group inside one node",),
)
def unjoined_group(study: Study) -> Iterator[Fact]:
    """Every group that communicates is joined by a link.

    What it checks
        The smallest piece of hardware that holds a group has a link: a node's `scale_up`, `bridge`
        or `host` link, a rack's `scale_up`, a cluster's `fabric`.

    Why it matters
        `2 x nodes.hgx_h100` are two machines side by side. A group across them cannot talk.

    Example
        deployment served {
          model    = models.llama_2_7b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 2 x nodes.hgx_h100
          layout   { tp = 8; pp = 2 }
          budget   { reserve = 3 GB }
          workload { context = 4 ktok; concurrency = 8 req }
        }

    Instead
        A cluster with a fabric, or no group across the machines.

        deployment better extends served { layout = { tp = 8; replicas = 2 } }
    """
    apart = [g for g in study.placed.groups if g.reach.join is None and g.size > 1]
    if not apart:
        return
    widest = max(apart, key=lambda g: g.size)
    axes = dict.fromkeys(_axis(g.axis) for g in apart if g.size == widest.size)
    yield Fact(
        study.subject.place("on"),
        {
            "size": widest.size,
            "axis": ", ".join(axes),
            "nodes": widest.reach.nodes,
            "title": widest.reach.title,
        },
        (("devices of a group", Quantity(widest.size)),),
    )


def _axis(axis: str) -> str:
    names = {"pp": "pipeline", "stage": "stage"}
    return names.get(axis, axis.replace(".", " ").replace("+", " x "))


@rule(
    "KV104",
    "tp-crosses-node",
    Severity.WARNING,
    "costs",
    "{count:all-reduces} of every decode step must leave the fast domain",
    label="a group of {size:ranks} spans {domains:domains}",
    notes=(
        "each carries {payload} a sequence over {link}; at this batch one takes {once}, "
        "all of them {whole} a step",
        "small payloads are bound by latency: {latency} x 2 ({size} - 1) steps x {count}",
    ),
    flips="a scale-up domain that holds the whole group (an NVL72 rack)",
)
def tp_crosses_node(study: Study) -> Iterator[Fact]:
    """A tensor-parallel group that leaves its fast domain puts every reduction on the slow link.

    What it checks
        The all-reduces of attention and feed-forward stay inside one scale-up domain. The domain
        is the topology's: a node, or a rack with `scale_up`.

    Why it matters
        Two reductions a layer run in series in every step. Over a fabric each pays its latency
        many times.

    Example
        cluster two { nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }
        deployment served {
          model    = models.llama_2_7b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = two
          layout   { tp = 16 }
          budget   { reserve = 3 GB }
          workload { context = 4 ktok; concurrency = 64 req }
        }

    Instead
        TP inside the domain and pipeline stages across: one send a stage boundary.

        deployment better extends served { layout = { tp = 8; pp = 2 } }
    """
    found = study.costs
    if found.decode is None:
        return
    crossing = [
        cost
        for cost in found.decode.exchanges
        if cost.exchange.kind == "all_reduce"
        and cost.exchange.module in LAYER_MODULES
        and not cost.group.reach.fast
        and cost.group.reach.domains > 1
    ]
    if not crossing:
        return
    first = max(crossing, key=lambda c: c.group.size)
    count = sum(cost.exchange.count for cost in crossing)
    whole = Quantity(sum(float(cost.all.value) for cost in crossing), TIME)
    join = first.group.reach.join
    latency = join.link.latency if join is not None else None
    yield Fact(
        study.subject.place("layout"),
        {
            "count": count,
            "size": first.group.size,
            "domains": first.group.reach.domains,
            "payload": _per_sequence(study, first),
            "link": join.link.title if join is not None else "",
            "once": first.once.quantity,
            "whole": whole,
            "latency": Quantity(latency or 0, TIME),
        },
        (
            ("all-reduces across", Quantity(count)),
            ("payload a sequence", _per_sequence(study, first)),
            ("time a step", whole),
        ),
        _inside(study, first),
    )


def _per_sequence(study: Study, cost: CollectiveCost) -> Quantity:
    load = study.costs.load
    batch = float(load.batch.value) if load is not None else 1.0
    size = float(cost.size.value) / max(batch, 1.0)
    return Quantity(int(size), cost.size.dimension)


def _inside(study: Study, cost: CollectiveCost) -> Suggestion | None:
    """TP as wide as one domain, the rest of the group as stages."""
    degrees = study.subject.degrees
    domains = cost.group.reach.domains
    if degrees.size % domains:
        return None
    other = uniform(degrees.size // domains, degrees.pp * domains, degrees.replicas)
    if other.pp > study.subject.model.layers:
        return None
    found = study.under(other)
    if found is None or not found.fits:
        return None
    title = f"TP={other.size} x PP={other.pp}"
    return Suggestion(
        title, other.text(), found, ("kv.tokens", "decode.collectives", "decode.tpot")
    )


RULES: tuple[Rule, ...] = (too_few_devices, idle_devices, unjoined_group, tp_crosses_node)
