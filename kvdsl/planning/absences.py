"""Absences: why a deployment does not answer a value, and what would make it.

Comes in: a deployment, its estimates and the values that it has. Goes out: a sentence by the name
of a value that is missing, where the reason is known. Not its job: the values (pools).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvdsl.costs.estimate import Estimate
from kvdsl.costs.money import Bill, power_bill, price_bill
from kvdsl.formulas import Term
from kvdsl.placement.placement import Placement
from kvdsl.planning.pools import QUEUED
from kvdsl.spec.deployment import Deployment, Fleet
from kvdsl.spelling import in_a_row

GROWING = (
    "requests arrive faster than they are served, so that the wait for a first token has no end"
)
COST = ("cost.per_hour", "cost.per_mtok")


def absences(
    deployment: Deployment, estimates: Mapping[str, Estimate], values: Mapping[str, Term]
) -> dict[str, str]:
    """Reasons for the values that are not there."""
    placements = [found.placement for found in estimates.values()]
    if not values or not placements:
        return {}
    found = paid_absences(placements, deployment)
    if "cost.per_hour" in values:
        found["cost.per_mtok"] = "no token of output is told, so none has a price"
    if any(pool.overrun for pool in estimates.values()):
        found.update(dict.fromkeys(QUEUED, GROWING))
    for name, pool in estimates.items():
        if name and pool.overrun:
            found.update({f"pools.{name}.{word}": GROWING for word in QUEUED})
        own = paid_absences([pool.placement], deployment) if name else {}
        found.update({f"pools.{name}.{word}": said for word, said in own.items()})
    return {name: said for name, said in found.items() if name not in values}


def paid_absences(placements: Sequence[Placement], by: Deployment | Fleet) -> dict[str, str]:
    """Of prices and power."""
    bill, watts = price_bill(placements, by), power_bill(placements)
    found = {}
    if bill.whole is None:
        found.update({name: _unpaid(bill) for name in COST})
    if watts.whole is None:
        found["power"] = (
            f"nothing says what {in_a_row(watts.missing, 'and')} draws: give it a `power`, as in "
            f"`device mine extends {watts.missing[0]} {{ power = 700 W }}`"
        )
    return found


def _unpaid(bill: Bill) -> str:
    if bill.scope:
        return f"the price is per {bill.scope}, and nothing stands in one"
    beside = f", though {in_a_row(bill.known, 'and')} has a price" if bill.known else ""
    return (
        f"nothing says what {in_a_row(bill.missing, 'and')} costs{beside}: give it a `price`, "
        f"or write `price = 2 USD/h per device`"
    )
