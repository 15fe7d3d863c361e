"""Rules on money: prices that some devices have and others lack, or that nothing is paid by."""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.checks.study import Fact
from kvdsl.costs.money import price_bill
from kvdsl.costs.service import Service
from kvdsl.diagnostics import Severity
from kvdsl.rules import Rule, rule
from kvdsl.source import Span
from kvdsl.spelling import in_a_row


@rule(
    "KV216",
    "part-without-price",
    Severity.INFO,
    "service",
    "no cost is told: nothing says what {missing} costs, beside {known} with a price",
    label="{missing} here",
    helps=(
        "give it one: {way}",
        "or one to all that hold a rank: `price = 2 USD/h per device` in the deployment",
    ),
)
def part_without_price(made: Service) -> Iterator[Fact]:
    """Devices without a price beside some that have one.

    What it checks
        Where the hardware says what some of the devices cost, it says so of all that hold a rank.

    Why it matters
        A sum over a part is no cost: `cost.per_hour` and `cost.per_mtok` are of all pools or of
        none.

    Example
        device bare extends devices.h100_sxm { drop price }
        node box {
          devices  = [4 x devices.h100_sxm, 4 x bare]
          scale_up { link = links.nvlink4 }
        }

        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x box
          layout   { tp = 4; replicas = 2 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        Nothing: this is information. `price = 2 USD/h per device` in the deployment prices all.
    """
    found = price_bill([pool.placement for pool in made.pools.values()], made.deployment)
    if not found.missing or not found.known:
        return
    first = found.missing[0]
    # A title with a dot is an entry of the catalog, which is changed by a child.
    own = f"`price = 2 USD/h` in `{first}`"
    fills = {
        "missing": in_a_row(found.missing, "and"),
        "known": in_a_row(found.known, "and"),
        "way": f"`device mine extends {first} {{ price = 2 USD/h }}`" if "." in first else own,
    }
    yield Fact(_place(made, found.missing), fills)


def _place(made: Service, titles: tuple[str, ...]) -> Span:
    """Where the first pool that stands on one of them was put there."""
    for pool in made.pools.values():
        held = price_bill([pool.placement], made.deployment)
        if set(held.missing) & set(titles):
            return pool.subject.place("on")
    return next(iter(made.pools.values())).subject.place("deployment")


@rule(
    "KV217",
    "price-of-no-unit",
    Severity.WARNING,
    "service",
    "the price is per {scope}, and no device of the deployment stands in a {scope}: no cost is "
    "told",
    label="nothing is paid by it",
    helps=("write it `per {there}`, or stand on hardware with a {scope}",),
)
def price_of_no_unit(made: Service) -> Iterator[Fact]:
    """A price for each of what is not there.

    What it checks
        Some device, node, rack or cluster, as `price` says, holds a rank.

    Why it matters
        A deployment would cost nothing an hour.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          price    = 100 USD/h per rack
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        A price for each of what it stands on.

        deployment better extends served { price = 30 USD/h per node }
    """
    placements = [pool.placement for pool in made.pools.values()]
    scope = price_bill(placements, made.deployment).scope
    if not scope:
        return
    origin = made.deployment.origin("price")
    place = origin.span if origin else placements[0].subject.place("deployment")
    kinds = {placement.subject.topology.root.kind for placement in placements}
    there = "device" if kinds & {"device", "set"} else "node"
    yield Fact(place, {"scope": scope, "there": there})


RULES: tuple[Rule, ...] = (part_without_price, price_of_no_unit)
