"""Money and power of the devices that hold a rank.

Comes in: a placement. Goes out: price an hour and watts, or nothing where neither the deployment
nor the catalog says. A price per node or rack is paid for each that is touched.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf

from kvdsl.arithmetic import rate
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import of_layout
from kvdsl.formulas import Term, formula, total
from kvdsl.placement.placement import Placement
from kvdsl.units import MONEY_PER_TOKEN, MONEY_RATE, POWER

Number = int | Fraction | float


@formula("units paid x price of one", MONEY_RATE, "language: price")
def price_of_units(count: int, price: Number) -> Number:
    return count * price


@formula("price an hour / output tokens an hour", MONEY_PER_TOKEN, "definition")
def price_of_token(price: Number, throughput: float) -> float:
    return rate(price, throughput, otherwise=inf)


@formula("devices x watts", POWER)
def device_power(count: int, watts: Number) -> Number:
    return count * watts


def price_term(placement: Placement) -> Term | None:
    """The price of all devices that hold a rank; None where something is not priced."""
    given, topology = placement.subject.deployment.price, placement.subject.topology
    if given is not None:
        each = leaf(
            placement.subject.deployment, "price", f"price per {given.scope}", given.value,
            MONEY_RATE,
        )  # fmt: skip
        touched = of_layout(
            placement.subject, f"{given.scope}s paid", topology.touched(given.scope, placement.used)
        )
        return price_of_units.derive("price", count=touched, price=each)
    terms = []
    for rank in placement.classes:
        device = rank.device
        if device.price is None:
            return None
        each = leaf(device, "price", f"price of {device.title}", device.price, MONEY_RATE)
        terms.append(
            price_of_units.derive(
                device.title, count=of_layout(placement.subject, "devices", rank.count), price=each
            )
        )
    return total("price", terms)


def power_term(placement: Placement) -> Term | None:
    terms = []
    for rank in placement.classes:
        device = rank.device
        if device.power is None:
            return None
        each = leaf(device, "power", f"power of {device.title}", device.power, POWER)
        terms.append(
            device_power.derive(
                device.title, count=of_layout(placement.subject, "devices", rank.count), watts=each
            )
        )
    return total("power", terms)
