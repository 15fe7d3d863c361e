"""Rules on room for the cache: how it is added up, and how other cuts of the devices use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from kvdsl.checks.bounds import Bound, bounds
from kvdsl.checks.study import Fact, Study, Suggestion, told_apart
from kvdsl.costs.cache import held_tokens
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.memory import fullest
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import Degrees, uniform
from kvdsl.rules import Rule, rule
from kvdsl.units import NONE, REQUESTS, TOKENS, Quantity, shown

CAPACITIES = ("kv.tokens", "kv.sequences")


def _pooled(study: Study) -> dict[str, Quantity]:
    """The capacities as one floor over the bytes of all holders would have them."""
    found = study.costs
    book, holders = fullest(found.ledgers), study.subject.degrees.holders
    token = Fraction(book.token.value)
    if not token or not found.fits:
        return {}
    tokens = Fraction(book.room.value) * holders // token
    return {
        "kv.tokens": Quantity(int(tokens), TOKENS),
        "kv.sequences": Quantity(int(tokens // held_tokens(study.subject)), REQUESTS),
    }


@rule(
    "KV109",
    "pooled-capacity",
    Severity.WARNING,
    "costs",
    "{text} takes the bytes of {holders:ranks} for one pool: {pooled} that way, {value} in each",
    label="{each} a rank or replica, {holders:times}",
    notes=("a request lies in one of them, so that what each has left over is of no use",),
    helps=("require {value} at the most, or make room for the difference",),
)  # fmt: skip
def pooled_capacity(study: Study) -> Iterator[Fact]:
    """A capacity is floored in each rank, then summed.

    What it checks
        A lower bound on `kv.tokens` or `kv.sequences` that fails, and that one floor over the
        bytes of all ranks together would meet.

    Why it matters
        A request cannot straddle two DP ranks or replicas. Dividing a summed byte count by the
        request's size promises requests that no rank has room for.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 1; replicas = 8 }
          budget   { reserve = 3 GB }
          workload { context = 90 ktok; concurrency = 24 req }
          expect kv.sequences >= 35 req as seats
        }

    Instead
        The floor of each rank, times the ranks.

        deployment better extends served { expect kv.sequences >= 32 req as seats }
    """
    holders = study.subject.degrees.holders
    if holders == 1:
        return
    pooled = _pooled(study)
    for bound in bounds(study):
        if bound.name not in CAPACITIES or bound.operator not in (">", ">="):
            continue
        if bound.name not in pooled or bound.holds(study.costs) is not False:
            continue
        most = pooled[bound.name]
        if most.value > bound.value.value or (
            most.value == bound.value.value and bound.operator == ">="
        ):
            value = study.costs.values[bound.name].quantity
            each = Quantity(int(value.value // holders), value.dimension)
            yield Fact(
                bound.span,
                {
                    "text": " ".join(bound.span.text.split()),
                    "holders": holders,
                    "pooled": most,
                    "value": value,
                    "each": each,
                },
                (("in whole requests", value), ("pooled", most)),
            )


def _plain(degrees: Degrees) -> bool:
    """Whether a layout is TP, stages and replicas only."""
    plain = uniform(degrees.size, degrees.pp, degrees.replicas)
    same = replace(plain, name=degrees.name, order=degrees.order)
    return degrees == replace(same, stage_layers=degrees.stage_layers)


def _lacking(study: Study, found: Estimate) -> tuple[Bound, ...] | None:
    """Lower bounds on capacity that an estimate fails; None where nothing lacks room: no bound
    fails, and no request queues."""
    failing = tuple(b for b in bounds(study) if b.name in CAPACITIES and b.holds(found) is False)
    return failing if failing or found.crowded else None


@rule(
    "KV183",
    "separate-replicas",
    Severity.INFO,
    "costs",
    "{replicas:replicas} hold {own} between them; {title} on the same devices holds {best}",
    label="each replica holds its own weights",
    notes=("{count:ways}: {ways}",),
    flips="requests that all fit: replicas then need no exchange between them",
)
def separate_replicas(study: Study) -> Iterator[Fact]:
    """Two replicas as one: wider TP or more stages hold more where room is short.

    What it checks
        A plain layout with an even number of replicas in which requests queue, or a lower bound on
        the capacity fails; and half as many replicas, each cut twice as far, hold more requests.

    Why it matters
        Every replica holds all weights. Two joined hold them once, and the difference is cache.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h200
          layout   { tp = 4; replicas = 2 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 300 req }
        }

    Instead
        Nothing: this is information. Join two replicas, by TP inside a node or by stages across.
    """
    degrees, found = study.subject.degrees, study.costs
    if not _plain(degrees) or not found.fits:
        return
    ways = _joined(study)
    title, best = max(ways, key=lambda way: way[1].values["kv.sequences"].value)
    if best is found:
        return
    tokens = [(name, made.values["kv.tokens"].quantity) for name, made in ways]
    yield Fact(
        study.subject.place("layout"),
        {
            "replicas": degrees.replicas,
            "own": found.values["kv.sequences"].quantity,
            "title": title,
            "best": best.values["kv.sequences"].quantity,
            "count": len(ways),
            "ways": ", ".join(f"{name} {shown(count)}" for name, count in tokens),
        },
        tuple((f"tokens {name}", count) for name, count in tokens),
        Suggestion(title, best.subject.degrees.text(), best,
                   ("kv.tokens", "kv.sequences", "decode.tpot")),
    )  # fmt: skip


def _joined(study: Study) -> list[tuple[str, Estimate]]:
    """The plan as it is, and with half as many replicas by TP and by stages; from the one that
    holds most on to a quarter, as long as room lacks and more is held."""
    best = study.costs
    ways = [("as it is", best)]
    while (at := best.subject.degrees).replicas % 2 == 0 and _lacking(study, best) is not None:
        size, pp, half = at.size, at.pp, at.replicas // 2
        made = [
            (o, study.under(o)) for o in (uniform(2 * size, pp, half), uniform(size, 2 * pp, half))
        ]
        able = [(_cut(o), found) for o, found in made if found is not None and found.fits]
        ways += able
        most = max((e for _, e in able), key=_sequences, default=best)
        if _sequences(most) <= _sequences(best):
            break
        best = most
    return ways


def _sequences(found: Estimate) -> float:
    return found.number("kv.sequences")


def _cut(degrees: Degrees) -> str:
    sizes = (("TP", degrees.size), ("PP", degrees.pp), ("replicas", degrees.replicas))
    return " x ".join(f"{w}={n}" for w, n in sizes if n > 1 or w == "TP")


@rule(
    "KV145",
    "crowded-replica",
    Severity.WARNING,
    "costs",
    "TP={tp} runs full, and TP={wide} makes a token cheaper: {price} becomes {less}",
    label="{fits} fit of {asked}",
    notes=("weights take {weights} of the {usable} that a device has for weights and cache",),
    flips="few enough requests that the smaller cut holds them all",
)
def crowded_replica(study: Study) -> Iterator[Fact]:
    """A replica cut so little that it runs full is dearer a token than one cut further.

    What it checks
        A plain layout whose devices are priced, in which requests queue; and twice the TP (on
        devices that idle, or with half the replicas) gives a lower price of a token.

    Why it matters
        The fewest devices that hold the weights leave little for the cache. Twice as many hold
        far more than twice the requests, for twice the price.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 4; replicas = 2 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 150 req }
          price    = 3.5 USD/h per device
        }

    Instead
        The next degree, or the one after it: as far as a token gets cheaper.

        deployment better extends served { layout = { tp = 8 } }
    """
    degrees, found = study.subject.degrees, study.costs
    if found.load is None or "cost.per_mtok" not in found.values or not _plain(degrees):
        return
    other = _further(study)
    if other is None:
        return
    prices = [each.values["cost.per_mtok"].quantity for each in (found, other)]
    book = fullest(found.ledgers)
    usable = Fraction(book.usable.value) - Fraction(book.reserve.value)
    yield Fact(
        study.subject.place("layout"),
        {
            "tp": degrees.size,
            "wide": other.subject.degrees.size,
            "price": prices[0],
            "less": prices[1],
            "fits": found.values["kv.sequences"].quantity,
            "asked": found.load.asked.quantity,
            "weights": book.weights.quantity,
            "usable": Quantity(usable, book.usable.dimension),
        },
        (("occupied by weights", Quantity(float(book.weights.value) / float(usable), NONE)),),
        Suggestion(_cut(other.subject.degrees), other.subject.degrees.text(), other,
                   ("cost.per_mtok", "kv.sequences", "decode.throughput")),
    )  # fmt: skip


def _further(study: Study) -> Estimate | None:
    """Twice the TP, and twice that, as long as requests queue and a token gets cheaper."""
    best = study.costs
    while best.fits and best.crowded:
        wide = _twice(study, best.subject.degrees)
        if wide is None or not _cheaper(wide, best):
            break
        best = wide
    return best if best is not study.costs else None


def _twice(study: Study, degrees: Degrees) -> Estimate | None:
    """Twice the TP: on devices that idle, else with half the replicas."""
    wide = study.under(uniform(2 * degrees.size, degrees.pp, degrees.replicas))
    if wide is None and degrees.replicas % 2 == 0:
        wide = study.under(uniform(2 * degrees.size, degrees.pp, degrees.replicas // 2))
    return wide if wide is not None and wide.fits else None


def _cheaper(wide: Estimate, best: Estimate) -> bool:
    """Whether a token is, by as much as shows."""
    less, price = wide.values["cost.per_mtok"].quantity, best.values["cost.per_mtok"].quantity
    return float(less.value) < float(price.value) and told_apart(price, less)


RULES: tuple[Rule, ...] = (pooled_capacity, crowded_replica, separate_replicas)
