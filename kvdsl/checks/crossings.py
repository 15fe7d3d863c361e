"""Rules on groups that leave their fast domain, and on layouts that would keep them in it.

A fast domain is the topology's: a node with `scale_up` or `bridge`, or a rack with `scale_up`.
An alternative is looked for by cutting the group narrower, until it lies inside a domain, and is
run like the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kvdsl.checks.study import Fact, Study, Suggestion
from kvdsl.costs.algorithms import bytes_sent
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.estimate import Estimate
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import AttentionAxes, Degrees, ExpertAxes, WidthAxes
from kvdsl.placement.exchanges import Group
from kvdsl.placement.topology import Topology
from kvdsl.rules import Rule, rule
from kvdsl.spec.model import Moe
from kvdsl.units import BYTES, TIME, Quantity, shown

LAYER_MODULES = frozenset({"attention", "ffn", "routed_experts", "shared_experts"})
REDUCTIONS = frozenset({"all_reduce", "reduce_scatter", "all_gather"})


LIMITED_ROUTER = "a router that is limited to few groups of experts (`groups`, `top_groups`)"


def leaves_domain(group: Group) -> bool:
    """Whether a group leaves a fast domain: it spans nodes that no such domain joins, or several
    domains of one node. Cards on one bus have none to leave."""
    reach = group.reach
    if reach.fast or reach.domains < 2:
        return False
    return reach.nodes > 1 or any(level.join.fast for level in reach.levels)


def _reductions(found: Estimate) -> list[CollectiveCost]:
    """The tensor-parallel collectives of a decode step's layers that leave the fast domain."""
    return [
        cost
        for cost in (found.decode.exchanges if found.decode is not None else ())
        if cost.exchange.kind in REDUCTIONS
        and cost.exchange.module in LAYER_MODULES
        and not _of_experts(cost)
        and leaves_domain(cost.group)
    ]


def _of_experts(cost: CollectiveCost) -> bool:
    """Whether an exchange brings tokens to experts and back: dispatch and combine, or gathers over
    the DP ranks that stand for them."""
    axis = cost.exchange.axis.rpartition(".")[2]
    return cost.exchange.module == "routed_experts" and axis in ("ep", "dp")


def _expert_exchanges(found: Estimate) -> list[CollectiveCost]:
    """The exchanges of tokens between expert-parallel ranks that leave the fast domain."""
    return [
        cost
        for cost in (found.decode.exchanges if found.decode is not None else ())
        if _of_experts(cost) and leaves_domain(cost.group)
    ]


@rule(
    "KV104",
    "tp-crosses-node",
    Severity.WARNING,
    "costs",
    "{count} {what} of every decode step must leave the fast domain",
    label="a group of {size:ranks} spans {spread}",
    notes=(
        "each carries {payload} a sequence over {link}; at this batch one takes {once}, "
        "all of them {whole} a step",
        "small payloads are bound by latency: {latency} x 2 ({size} - 1) steps x {count}",
    ),
    helps=("{size:ranks} fit in one domain of {domain}; `on = {pick}` gives each group its own",),
    flips="a scale-up domain that holds the whole group (an NVL72 rack)",
)
def tp_crosses_node(study: Study) -> Iterator[Fact]:
    """A tensor-parallel group that leaves its fast domain puts every reduction on the slow link.

    What it checks
        The reductions of attention and feed-forward stay inside one scale-up domain. The domain
        is the topology's: a node, or a rack with `scale_up`. Cards that only share a host's bus
        have no such domain to leave.

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
    crossing = _reductions(study.costs)
    if not crossing:
        return
    first = max(crossing, key=lambda c: c.group.size)
    count = sum(cost.exchange.count for cost in crossing)
    whole = Quantity(sum(float(cost.all.value) for cost in crossing), TIME)
    join = first.group.reach.join
    reduced = all(cost.exchange.kind == "all_reduce" for cost in crossing)
    # Steps of a ring are what an ideal plan counts; a library's algorithms take others.
    stepped = reduced and all(cost.basis == "ideal" for cost in crossing)
    latency = join.link.latency if join is not None else None
    domain = domain_size(study.subject.topology, first.group)
    yield Fact(
        study.subject.place("layout"),
        {
            "count": count,
            "what": "all-reduces" if reduced else "collectives",
            "size": first.group.size,
            "spread": _spread(first.group),
            "payload": _per_sequence(study, first),
            "link": join.link.title if join is not None else "",
            "once": first.once.quantity,
            "whole": whole,
            "latency": Quantity(latency, TIME) if latency is not None and stepped else "",
            "domain": domain,
            "pick": aligned_pick(study.subject.topology, study.subject.degrees, domain),
        },
        (
            ("all-reduces across", Quantity(count)),
            ("payload a sequence", _per_sequence(study, first)),
            ("time a step", whole),
        ),
        _inside(study, domain),
    )


def _spread(group: Group) -> str:
    reach = group.reach
    if reach.nodes > 1 and reach.nodes != reach.domains:
        return f"{reach.nodes:,} nodes"
    return f"{reach.domains:,} domains"


def _per_sequence(study: Study, cost: CollectiveCost) -> Quantity:
    load = study.costs.load
    batch = float(load.batch.value) if load is not None else 1.0
    size = float(cost.size.value) / max(batch, 1.0)
    return Quantity(int(size), cost.size.dimension)


def domain_size(topology: Topology, group: Group) -> int:
    """Devices of the largest fast domain in which a group's first rank stands; of its node, where
    that has none."""
    units = [topology.root, *(unit for unit, _ in topology.path(group.places[0]))]
    fast = [unit for unit in units if unit.join is not None and unit.join.fast]
    nodes = [unit for unit in units if unit.kind == "node"]
    return (fast or nodes or units[-1:])[0].devices


def aligned_pick(topology: Topology, degrees: Degrees, domain: int) -> str:
    """The devices to choose so that no stage straddles two domains, where a stage fits in one and
    there are enough; empty where stages do not straddle, or a choice is made already."""
    size, groups = degrees.size, degrees.pp * degrees.replicas
    named = topology.root.kind in ("cluster", "rack") and topology.root.title != "inline"
    if not named or not topology.uniform or size >= domain or domain % size == 0:
        return ""
    each = domain // size
    needed = -(-groups // each)
    if needed * domain > topology.devices or needed < 2:
        return ""
    runs = [(n * domain, min(each, groups - n * each) * size) for n in range(needed)]
    told = [f"{start}..{start + length - 1}" for start, length in runs]
    return f"{topology.root.title}.devices[{', '.join(told)}]" if len(told) <= 8 else ""


def _inside(study: Study, domain: int) -> Suggestion | None:
    """Stages as wide as lie inside one domain, and so many more of them."""
    degrees = study.subject.degrees
    for width in _divisors(degrees.size, min(domain, degrees.size - 1)):
        times = degrees.size // width
        other = narrowed(degrees, times)
        if other is None:
            continue
        other = other.with_stages(degrees.pp * times)
        found = study.under(other)
        if found is not None and found.fits and not _reductions(found):
            wide = f"DP={other.attention.dp}" if other.attention.dp > 1 else f"TP={other.size}"
            shows = ("kv.tokens", "decode.collectives", "decode.tpot")
            return Suggestion(f"{wide} x PP={other.pp}", other.text(), found, shows)
    return None


def _divisors(number: int, most: int) -> Sequence[int]:
    """Those from `most` down; a group of one rank would be no cut at all."""
    return [width for width in range(most, 1, -1) if number % width == 0]


@rule(
    "KV123",
    "ep-crosses-node",
    Severity.WARNING,
    "costs",
    "{count:expert exchanges} of every decode step must leave the fast domain",
    label="EP={ep}: a group of {size:ranks} spans {spread}",
    notes=(
        "for a layer each rank sends {sent}: {layer} a layer at this batch",
        "together they take {whole} of every step, and no token comes faster than that",
    ),
    helps=("{router} keeps a token inside fewer of them",),
    flips="a scale-up domain that holds all expert ranks (an NVL72 rack)",
)  # fmt: skip
def ep_crosses_node(study: Study) -> Iterator[Fact]:
    """An expert-parallel group that leaves its fast domain sends tokens over the slow link.

    What it checks
        Dispatch and combine of the experts, or the gathers that stand for them, stay inside one
        scale-up domain.

    Why it matters
        Each MoE layer sends a token to the ranks of its experts and its sums back, in series, in
        every step. Over a fabric that sets a floor under the time of a token.

    Example
        cluster two { nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }
        layout wide {
          attention { dp = 16 }
          experts { ep = 16 }
          ffn { dp = 16 }
          vocab { dp = 16 }
        }
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = two
          layout   = wide
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 256 req }
        }

    Instead
        EP inside the domain, and stages or replicas across.

        layout narrow {
          replicas = 2
          attention { dp = 8 }
          experts { ep = 8 }
          ffn { dp = 8 }
          vocab { dp = 8 }
        }

        deployment better extends served { layout = narrow }
    """
    crossing = _expert_exchanges(study.costs)
    if not crossing:
        return
    first = max(crossing, key=lambda c: c.group.size)
    count = sum(cost.exchange.count for cost in crossing)
    whole = Quantity(sum(float(cost.all.value) for cost in crossing), TIME)
    kinds = {(c.exchange.kind, c.exchange.elements): c for c in crossing}
    layer = Quantity(sum(float(cost.once.value) for cost in kinds.values()), TIME)
    join, group = first.group.reach.join, first.group
    limited = any(
        isinstance(part, Moe) and part.groups > 1 for part in study.subject.model.parts.values()
    )
    yield Fact(
        study.subject.place("layout"),
        {
            "count": count,
            "ep": study.subject.degrees.experts.ep,
            "size": group.size,
            "spread": _spread(group),
            "sent": _sent(list(kinds.values()), join.link.title if join is not None else ""),
            "layer": layer,
            "whole": whole,
            "router": "" if limited else LIMITED_ROUTER,
        },
        (
            ("exchanges across", Quantity(count)),
            ("time a layer", layer),
            ("time a step", whole),
        ),
        _experts_inside(study, domain_size(study.subject.topology, group)),
    )


def _sent(costs: Sequence[CollectiveCost], link: str) -> str:
    """What a rank sends in all of them: as their times have it, or, in an ideal plan, their bytes,
    which all go at the pace of the slowest link."""
    found = [bytes_sent(cost.once) for cost in costs]
    told = [each for each in found if each is not None]
    if len(told) < len(costs):
        every = Quantity(sum(float(cost.size.value) for cost in costs), BYTES)
        return f"{shown(every)} at the pace of {link}"
    inside, outside = (Quantity(sum(part), BYTES) for part in zip(*told, strict=True))
    return f"{shown(outside)} over {link} and {shown(inside)} inside its domain"


def _experts_inside(study: Study, domain: int) -> Suggestion | None:
    """The same layout as wide as one domain: with so many more stages, or so many more replicas."""
    degrees = study.subject.degrees
    for width in _divisors(degrees.size, min(domain, degrees.size - 1)):
        narrow = narrowed(degrees, degrees.size // width)
        if narrow is None:
            continue
        times = degrees.size // width
        for other, title in (
            (narrow.with_stages(degrees.pp * times), f"EP={narrow.experts.ep} x PP={{}}"),
            (replace(narrow, replicas=degrees.replicas * times), "{} replicas"),
        ):
            found = study.under(other)
            if found is not None and found.fits and not _expert_exchanges(found):
                number = other.pp if "PP" in title else other.replicas
                shows = ("kv.tokens", "decode.collectives", "decode.tpot")
                return Suggestion(title.format(number), other.text(), found, shows)
    return None


def narrowed(degrees: Degrees, times: int) -> Degrees | None:
    """The layout over so many times fewer devices a stage: fewer DP ranks, else ways of context or
    TP; fewer ways of EP, width and vocabulary. None where one of them does not divide."""
    attention, experts = _fewer_ranks(degrees.attention, times), _fewer(degrees.experts, times)
    widths = [_narrow(axes, times) for axes in (degrees.ffn, degrees.shared, degrees.vocab)]
    ffn, shared, vocab = widths
    if attention is None or experts is None or ffn is None or shared is None or vocab is None:
        return None
    return replace(
        degrees,
        size=degrees.size // times,
        attention=attention,
        ffn=ffn,
        shared=shared,
        vocab=vocab,
        experts=experts,
        stage_layers=None,
        name="",
    )


def _fewer_ranks(axes: AttentionAxes, times: int) -> AttentionAxes | None:
    if axes.dp % times == 0:
        return replace(axes, dp=axes.dp // times)
    if axes.cp % times == 0:
        return replace(axes, cp=axes.cp // times)
    return replace(axes, tp=axes.tp // times) if axes.tp % times == 0 else None


def _fewer(axes: ExpertAxes, times: int) -> ExpertAxes | None:
    if axes.ep % times == 0:
        return replace(axes, ep=axes.ep // times)
    return replace(axes, tp=axes.tp // times) if axes.tp % times == 0 else None


def _narrow(axes: WidthAxes, times: int) -> WidthAxes | None:
    if axes.tp % times == 0:
        return WidthAxes(axes.dp, axes.tp // times)
    if axes.dp % times == 0:
        return WidthAxes(axes.dp // times, axes.tp)
    return None


RULES: tuple[Rule, ...] = (tp_crosses_node, ep_crosses_node)
