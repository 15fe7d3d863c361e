"""Rules on money: prices that some devices have and others lack, that nothing is paid by, or that a
fleet and its deployments do not share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvdsl.checks.study import Fact, Fill
from kvdsl.costs.money import price_bill
from kvdsl.costs.service import Service
from kvdsl.diagnostics import Label, Severity
from kvdsl.placement.placement import Placement
from kvdsl.rules import Rule, rule
from kvdsl.source import Span
from kvdsl.spec.deployment import Deployment, Fleet
from kvdsl.spelling import in_a_row
from kvdsl.units import MONEY_RATE, Quantity, shown


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


@rule(
    "KV219",
    "two-prices",
    Severity.WARNING,
    "plan",
    "`{name}` costs {fleet_cost} in fleet `{fleet}`, and {own_cost} by its own price",
    label="the fleet's price: {fleet_price} per {fleet_scope}",
    helps=(
        "say one price: take `price` out of the fleet, which then adds up what each pays, or out "
        "of `{name}`",
    ),
)
def two_prices() -> Iterator[Fact]:
    """A fleet's price that is not what its deployments pay.

    What it checks
        Where a fleet and a deployment of it both have a `price`, both give the same cost an hour.
        A price that the catalog knows is no price of a deployment: any other replaces it.

    Why it matters
        A fleet's price holds for all of it, so that the deployment is told with one cost in its own
        plan and with another in the fleet's. One of them is on no bill.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          price    = 2 USD/h per device
          workload { context = 8 ktok; concurrency = 8 req }
        }
        fleet all {
          deployments = [served]
          price       = 20 USD/h per node
        }

    Instead
        One price: that of the deployments, or of the fleet.

        fleet better extends all { drop price }
    """
    yield from ()


def two_prices_facts(
    fleet: Fleet, deployment: Deployment, placements: Sequence[Placement]
) -> Iterator[Fact]:
    """Of one deployment of a fleet, where both say a price."""
    given, own = fleet.origin("price"), deployment.origin("price")
    if fleet.price is None or given is None or deployment.price is None or own is None:
        return
    if not placements:  # it cannot be planned
        return
    one, other = (price_bill(placements, by).whole for by in (fleet, deployment))
    if one is None or other is None or one.value == other.value:
        return
    fills: dict[str, Fill] = {
        "name": deployment.name,
        "fleet": fleet.name,
        "fleet_cost": one.quantity,
        "own_cost": other.quantity,
        "fleet_price": Quantity(fleet.price.value, MONEY_RATE),
        "fleet_scope": fleet.price.scope,
    }
    label = f"its own: {shown(Quantity(deployment.price.value, MONEY_RATE))}"
    label += f" per {deployment.price.scope}"
    yield Fact(given.span, fills, labels=(Label(own.span, label),))


RULES: tuple[Rule, ...] = (part_without_price, price_of_no_unit, two_prices)
