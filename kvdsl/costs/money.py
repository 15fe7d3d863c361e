"""Money and power of what holds a rank.

Comes in: the placements of one or several pools. Goes out: a `Bill`: what is paid an hour, or the
watts, and where nothing says so of a part, which part that is: half a bill is no bill. A price per
node or rack is paid for each that is touched, once, whatever number of pools stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from kvdsl.arithmetic import rate
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import of_layout
from kvdsl.formulas import Term, formula, total
from kvdsl.placement.joins import Unit
from kvdsl.placement.placement import Placement
from kvdsl.placement.sites import Site, sites
from kvdsl.spec.deployment import Deployment, Fleet
from kvdsl.units import MONEY, MONEY_PER_TOKEN, MONEY_RATE, POWER, TIME

Number = int | Fraction | float

YEAR = Term("hours of a year", 365 * 24 * 3600, TIME, basis="definition")
"""Of 365 days, without a leap day: 8,760 hours."""


@formula("units paid x price of one", MONEY_RATE, "language: price")
def price_of_units(count: int, price: Number) -> Number:
    return count * price


@formula("price an hour / output tokens an hour", MONEY_PER_TOKEN, "definition")
def price_of_token(price: Number, throughput: float) -> float:
    return rate(price, throughput, otherwise=inf)


@formula("price an hour x the hours of a year", MONEY, "definition: a year of 365 days")
def price_of_year(price: Number, year: Number) -> Number:
    return price * year


@formula("units x watts of one", POWER, "language: power")
def power_of_units(count: int, watts: Number) -> Number:
    return count * watts


_DATED = re.compile(r"\((\d{4}-\d{2}(?:-\d{2})?)\)")


def default_price(cost: Term) -> str:
    """`catalog price of 2026-08-06` of a cost that stands on a price which nobody wrote in the
    spec, the oldest of several; empty where all were written."""
    given = [t for t in cost.leaves() if t.basis == "catalog" and t.dimension == MONEY_RATE]
    dates = sorted(found[1] for t in given if (found := _DATED.search(t.source or "")))
    return f"catalog price{f' of {dates[0]}' if dates else ''}" if given else ""


@dataclass(frozen=True, slots=True)
class Bill:
    """`whole` is None where a part is `missing`: the titles of devices that say nothing, of which
    some that do are `known`; `scope` is what a price is per and nothing stands in."""

    whole: Term | None
    missing: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    scope: str = ""


def paid(
    placements: Sequence[Placement], by: Deployment | Fleet, values: Mapping[str, Term]
) -> dict[str, Term]:
    """Price and power of what the pools stand on, and of a token of their output; what is not
    known of all of it is not there."""
    found = {
        "power": power_bill(placements).whole,
        "cost.per_hour": price_bill(placements, by).whole,
    }
    price, output = found["cost.per_hour"], values.get("decode.throughput")
    if price is not None and output is not None:
        found["cost.per_mtok"] = price_of_token.derive(
            "price of an output token", price=price, throughput=output
        )
    return {name: term for name, term in found.items() if term is not None}


def yearly(price: Term, label: str) -> Term:
    """What a price an hour comes to where it is paid all year."""
    return price_of_year.derive(label, price=price, year=YEAR)


def price_bill(placements: Sequence[Placement], by: Deployment | Fleet) -> Bill:
    """By the price that a deployment or fleet gives, else by what the hardware says."""
    there, given = _sites(placements), by.price
    if given is None:
        return _bill(placements, there, "price")
    count = sum(site.touched(given.scope) for site in there)
    if not count:
        return Bill(None, scope=given.scope)
    each = leaf(by, "price", f"price per {given.scope}", given.value, MONEY_RATE)
    paid = of_layout(placements[0].subject, f"{given.scope}s paid", count)
    return Bill(price_of_units.derive("price", count=paid, price=each))


def power_bill(placements: Sequence[Placement]) -> Bill:
    return _bill(placements, _sites(placements), "power")


def _sites(placements: Sequence[Placement]) -> tuple[Site, ...]:
    return sites([(p.subject.pool.on, p.subject.topology, p.used) for p in placements])


def _bill(placements: Sequence[Placement], there: Sequence[Site], word: str) -> Bill:
    """What units say of themselves, from the largest down; of those that say nothing their parts'
    sum."""
    found: dict[str, tuple[Unit, int]] = {}
    for site in there:
        for unit, count in site.units(lambda unit: _said(unit, word) is not None).items():
            _, before = found.get(unit.title, (unit, 0))
            found[unit.title] = (unit, before + count)
    silent = tuple(title for title, (unit, _) in found.items() if _said(unit, word) is None)
    if silent:
        return Bill(None, silent, tuple(title for title in found if title not in silent))
    return Bill(total(word, list(_terms(placements[0], found, word))))


def _terms(first: Placement, found: dict[str, tuple[Unit, int]], word: str) -> Iterator[Term]:
    for title, (unit, count) in found.items():
        many = of_layout(first.subject, f"{unit.kind}s", count)
        dimension = MONEY_RATE if word == "price" else POWER
        each = leaf(unit.of, word, f"{word} of {title}", _said(unit, word) or 0, dimension)  # type: ignore[arg-type]
        if word == "price":
            yield price_of_units.derive(title, count=many, price=each)
        else:
            yield power_of_units.derive(title, count=many, watts=each)


def _said(unit: Unit, word: str) -> int | Fraction | None:
    return getattr(unit.of, word) if unit.of is not None else None
