"""Names that conditions ask of a plan: who answers them, and what was meant by others.

Comes in: a path, and whom a requirement is about. Goes out: its dimension, or a diagnostic with
names that are answered. Not its job: the conditions themselves (conditions), or values (planning).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from kvdsl.resolve.context import Context
from kvdsl.resolve.foreign_names import answered_name
from kvdsl.resolve.names import Bound, Scope
from kvdsl.resolve.naming_messages import either, like, listed
from kvdsl.resolve.value_messages import Unanswerable
from kvdsl.spec.vocabulary import FLEET, INPUTS, TIER_VALUES, VOCABULARY, asked
from kvdsl.syntax.nodes import Binary, Call, Measure, Number, Path
from kvdsl.units import Dimension

OF_POOLS = ("transfer.", "balance.")
"""What only a deployment with pools answers."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom requirements are about: which pools, tiers and, in a fleet, deployments there are.
    None is 'not known here': a policy holds for deployments of any shape."""

    pools: Collection[str] | None = None
    tiers: Collection[str] | None = None
    deployments: Collection[str] | None = None

    def asked(self, name: str) -> Dimension | None:
        """The dimension of a name that such a subject may be asked; None if it is no such name."""
        if self.deployments is None:
            return asked(name)
        first, _, rest = name.partition(".")
        if first == "deployments":
            return asked(rest.partition(".")[2])
        return FLEET[name].dimension if name in FLEET else None

    @property
    def names(self) -> Iterator[str]:
        """All that it answers."""
        if self.deployments is not None:
            yield from FLEET
            for each in self.deployments:
                yield from (f"deployments.{each}.{name}" for name in (*VOCABULARY, *INPUTS))
            return
        own = [*VOCABULARY, *INPUTS]
        if self.pools is not None and not self.pools:
            own = [name for name in own if not name.startswith(OF_POOLS)]
        yield from own
        for pool in self.pools or ():
            yield from (f"pools.{pool}.{name}" for name in own if not name.startswith(OF_POOLS))
        for tier in self.tiers or ():
            yield from (f"tier.{tier}.{word}" for word in TIER_VALUES)


def exists(context: Context, subject: Subject, path: Path) -> bool:
    """Whether the pool, tier or deployment that a name goes through is there; says so if not."""
    groups = {
        "pools": ("pool", subject.pools),
        "tier": ("tier", subject.tiers),
        "deployments": ("deployment", subject.deployments),
    }
    for index, name in enumerate(path.names[:-1]):
        noun, known = groups.get(name.text, ("", None))
        follower = path.names[index + 1]
        if known is None or follower.text in known:
            continue
        hint = f"there is no {noun} `{follower.text}`"
        if known:
            hint += f"; there is {listed(known)}"
        near = like(follower.text, known)
        context.tell(Unanswerable(follower.span, path.dotted, near, hint))
        return False
    return True


def unanswerable(context: Context, subject: Subject, scope: Scope, path: Path) -> None:
    """Tells of a name that nothing answers, and what was likely meant."""
    name, hint = path.dotted, None
    known = (*subject.names, *_figures(scope))
    near = either([term for term in known if term.endswith(f".{name}")][:3]) or None
    meant, rank = answered_name(name)
    if near is None and meant in known:
        near = f"`{meant}`"
        if rank:
            band = f"{meant}_high"
            hint = f"no percentile is reckoned: `{meant}` is the mean over requests"
            if band in VOCABULARY:
                hint += f", and nine of ten measurements lie below `{band}`"
    near = near or like(name, known)
    if near is None:
        hint = _answers(subject, path.names[0].text)
    context.tell(Unanswerable(path.span, name, near, hint))


def _answers(subject: Subject, first: str) -> str:
    if subject.deployments is not None:
        return f"of a fleet ask {listed(FLEET)}, or `deployments.NAME.VALUE`"
    family = [term for term in VOCABULARY if term.startswith(f"{first}.")]
    if family:
        return f"`{first}` has {listed(family[:6])}"
    groups = dict.fromkeys(term.partition(".")[0] for term in VOCABULARY)
    return f"it answers {listed(groups)}: `kvdsl get SPEC DEPLOYMENT` lists all values"


def _figures(scope: Scope) -> Iterator[str]:
    """The `let`s that stand for a figure, as far as that is seen without computing them."""
    for name, named in (*scope.lets.items(), *scope.names.items()):
        if isinstance(named, Bound) and isinstance(named.value, Number | Measure | Binary | Call):
            yield name
