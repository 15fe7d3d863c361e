"""Findings of a plan as they are told: with the words of their rule, once for what pools share.

Comes in: findings of each pool. Goes out: `Told`, those of one cause joined. Not its job: finding
anything (checks), or waiving it (deploy).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from kvdsl.checks.findings import advice
from kvdsl.checks.study import Fact
from kvdsl.costs.estimate import Estimate
from kvdsl.diagnostics import Diagnostic, Severity
from kvdsl.plan import Agreed
from kvdsl.rules import Rule
from kvdsl.spec.deployment import Requirement


@dataclass(frozen=True, slots=True)
class Told:
    """A finding of the deployment: the rule, its words, the fact, and the reason that waives it."""

    rule: Rule
    diagnostic: Diagnostic
    fact: Fact
    severity: Severity
    estimate: Estimate | None
    waived: str | None = None
    agreed: Agreed | None = None


def by_cause(found: Sequence[tuple[str, Told]]) -> Iterator[Told]:
    """Findings with the names of their pools: of one cause, one for all pools that have it."""
    causes: dict[tuple[object, ...], list[tuple[str, Told]]] = {}
    for pool, told in found:
        words = (told.diagnostic.headline, told.diagnostic.primary, told.diagnostic.labels)
        causes.setdefault((told.rule.code, told.severity, words), []).append((pool, told))
    for every in causes.values():
        pool, first = every[0]
        if len(every) > 1:
            yield _joined(every)
        elif pool:
            yield _headed(first, _pools([pool]))
        else:
            yield first


def whose(told: Told, requirement: Requirement, kind: str, name: str) -> Told:
    """What an inherited requirement is told of says whose figure it is: its place does not."""
    return _headed(told, f"{kind} {name}") if requirement.inherited else told


def _headed(told: Told, of: str) -> Told:
    headline = f"{of}: {told.diagnostic.headline}"
    return replace(told, diagnostic=replace(told.diagnostic, headline=headline))


def _pools(names: Sequence[str]) -> str:
    """`pool decode`, `pools prefill and decode`."""
    if len(names) == 1:
        return f"pool {names[0]}"
    return f"pools {', '.join(names[:-1])} and {names[-1]}"


def _joined(every: Sequence[tuple[str, Told]]) -> Told:
    """One finding of several pools; what they do not share says which pool it is about. The
    alternative is shown where it is one for all."""
    _, first = every[0]
    alike = len({advice(told.fact) for _, told in every}) == 1
    fact = replace(
        first.fact,
        quantities=tuple(
            (f"pool {pool}: {label}" if pool else label, quantity)
            for pool, told in every
            for label, quantity in told.fact.quantities
        ),
        suggestion=first.fact.suggestion if alike else None,
    )
    names = list(dict.fromkeys(pool for pool, _ in every))
    of_pools = f"{_pools(names)}: " if names != [""] else ""  # parts of one, where there are none
    diagnostic = replace(
        first.diagnostic,
        headline=of_pools + first.diagnostic.headline,
        notes=_shared([(pool, told.diagnostic.notes) for pool, told in every]),
        helps=_shared([(pool, told.diagnostic.helps) for pool, told in every]),
    )
    return replace(first, diagnostic=diagnostic, fact=fact)


def _shared(by_pool: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    """Texts of all pools in their order, those of some alone behind their pool's name."""
    rows = zip_longest(*(texts for _, texts in by_pool), fillvalue="")
    every = dict.fromkeys(text for row in rows for text in row if text)
    if not any(pool for pool, _ in by_pool):
        return tuple(every)
    having = {text: [pool for pool, texts in by_pool if text in texts] for text in every}
    return tuple(
        text if len(pools) == len(by_pool) else f"{_pools(pools)}: {text}"
        for text, pools in having.items()
    )
