"""Whom a change from outside is for: a fleet, one deployment of it, or every deployment.

Comes in: changes of a command line. Goes out: those that one fleet or deployment takes, and why one
reaches nobody. Not its job: paths within a deployment (paths), or values (changes).

`deployments.chat.layout.tp` is `layout.tp` of `chat` alone, `price` is a fleet's own where a fleet
is asked, and `layout.tp` is for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kvdsl.resolve.changes import Change
from kvdsl.resolve.naming_messages import NoSuchChange, either, likely, listed
from kvdsl.resolve.paths import CHANGEABLE, NoPath
from kvdsl.resolve.schema import schema_of
from kvdsl.source import Span
from kvdsl.spec.deployment import Fleet

FLEET = schema_of(Fleet).names
MEMBERS = "deployments"


def addressee(change: Change) -> str:
    """The deployment that a path from outside names; empty where it is for all."""
    first, _, rest = change.path.partition(".")
    name, dot, _ = rest.partition(".")
    return name if first == MEMBERS and dot and change.at is None else ""


def within(change: Change) -> Change:
    """The same change as the deployment that it names takes it."""
    before = f"{MEMBERS}.{addressee(change)}."
    return replace(change, path=change.path.removeprefix(before), before=before)


def of_fleet(change: Change) -> bool:
    """Whether a fleet takes it, and none of its deployments."""
    return change.path.partition(".")[0] in FLEET and not _bare(change) and not addressee(change)


def _bare(change: Change) -> str:
    """The name in `deployments.NAME`, which names nothing of the deployment."""
    first, _, name = change.path.partition(".")
    return name if first == MEMBERS and "." not in name and change.at is None else ""


def for_deployment(changes: Iterable[Change], name: str) -> tuple[Change, ...]:
    """What reaches one deployment of a fleet."""
    return tuple(c for c in changes if not of_fleet(c) and addressee(c) in ("", name))


def unreached(change: Change, names: Sequence[str], known: Sequence[str]) -> NoSuchChange | None:
    """Why a change reaches none of the deployments `names`; `known` are all of the file."""
    name = addressee(change)
    if not name or name in names:
        bare = _bare(change)
        return _told(change, _unwritten(bare, known)) if bare else None
    if name in known:
        reason = f"`{name}` is not among what is asked"
        return _told(change, NoPath(reason, (), _there(names)))
    near = tuple(f"{MEMBERS}.{each}.{within(change).path}" for each in likely(name, known))
    there = _there(known)
    return _told(change, NoPath(f"there is no deployment `{name}`", near, None if near else there))


def _there(names: Sequence[str]) -> str:
    return f"there {'is' if len(names) == 1 else 'are'} {listed(names)}"


def _unwritten(name: str, names: Sequence[str]) -> NoPath:
    example = f"`{MEMBERS}.{name if name in names else names[0]}.layout.tp`"
    hint = f"an attribute of a deployment is written {example}"
    return NoPath("it names no attribute of a deployment", (), hint)


def misplaced(change: Change, names: Sequence[str]) -> NoSuchChange | None:
    """What is told of `chat.layout.tp`, which begins with a deployment's bare name."""
    first, _, rest = change.path.partition(".")
    if first in CHANGEABLE or first not in names or change.at is not None:
        return None
    if rest.partition(".")[0] not in CHANGEABLE:
        return None
    hint = f"write `{MEMBERS}.{change.path}`"
    return _told(change, NoPath(f"a deployment has no attribute `{first}`", (), hint))


def _told(change: Change, found: NoPath) -> NoSuchChange:
    near = either(found.near) or None
    return NoSuchChange(_place(change), change.path, found.reason, near, found.hint)


def _place(change: Change) -> Span:
    return change.source.span(0, len(change.path))
