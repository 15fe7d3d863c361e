"""Deployments: pools, tiers, requirements, sweeps; fleets and policies.

Comes in: a raw block. Goes out: a `Deployment` with at least one complete pool, or None where a
diagnostic was told. Not its job: a single pool (pools), or whether a model fits (placement and on).
"""

from __future__ import annotations

import re
from datetime import date

from kvdsl.resolve.asked_names import Subject
from kvdsl.resolve.blocks import Body, Choices, Entry, Kept, Raw
from kvdsl.resolve.building import (
    Gathered,
    finished,
    gathered,
    origin_of,
    reference_of,
)
from kvdsl.resolve.combination_messages import (
    BadCode,
    ListedTwice,
)
from kvdsl.resolve.conditions import read_requirement
from kvdsl.resolve.context import Context
from kvdsl.resolve.hardware import boards_of, kinds_of
from kvdsl.resolve.inheritance import flat
from kvdsl.resolve.libraries import own_library
from kvdsl.resolve.pools import is_apart, pools_of
from kvdsl.resolve.schema import make
from kvdsl.resolve.suggestions import wanting
from kvdsl.resolve.sweeps import read_search, read_sweep
from kvdsl.resolve.value_messages import WrongType
from kvdsl.resolve.values import Quotation, Reference, described
from kvdsl.spec.deployment import (
    Deployment,
    Fleet,
    Policy,
    Requirement,
    Search,
    Sweep,
    TierUse,
    Waiver,
)
from kvdsl.spec.hardware import Device
from kvdsl.spec.layout import Layout
from kvdsl.spec.slots import Referred
from kvdsl.syntax.nodes import Allow, Items

_CODE = re.compile(r"KV\d{3}")
_WORD = re.compile(r"(?!KV\d*$)[a-z]\w*", re.IGNORECASE | re.ASCII)
"""Perhaps the name of a rule, which the check of the whole plan knows."""


def build_deployment(context: Context, raw: Raw, owner: str) -> Deployment | None:
    apart = {k: e for k, e in raw.entries.items() if is_apart(k)}
    pool_entries = {k: e for k, e in apart.items() if k.startswith("pool ")}
    parts = gathered(context, Deployment, raw, owner, apart)
    parts.origins |= {key: origin_of(entry) for key, entry in apart.items()}

    pools = pools_of(context, raw, owner, pool_entries)
    parts.sound &= pools is not None
    parts.values["pools"] = pools
    tiers = _tiers(context, raw.entries.get("tiers"))
    parts.sound &= tiers is not None
    parts.values["tiers"] = tiers
    pool_names = [key.removeprefix("pool ") for key in pool_entries]
    subject = Subject(pool_names, _tier_names(raw))
    _clauses(context, raw, parts, subject)
    _compared(context, raw, parts)
    _tried(context, raw, parts, subject)
    return _with_boards(context, _with_libraries(context, finished(Deployment, parts)))


def _with_boards(context: Context, built: Deployment | None) -> Deployment | None:
    """The nodes that could hold loose devices. The catalog is read for it only where a layout says
    more than copies, which nothing has to join."""
    if built is None:
        return built
    pools = {}
    for name, pool in built.pools.items():
        loose = pool.on is not None and isinstance(pool.on.of, Device) and pool.on.count > 1
        if pool.on is not None and loose and _cut(pool.layout):
            found = {"boards": tuple(boards_of(context, pool.on))}
            pools[name] = pool.model_copy(update={"on": pool.on.model_copy(update=found)})
    return built.model_copy(update={"pools": {**built.pools, **pools}}) if pools else built


def _cut(layout: Layout | None) -> bool:
    """Whether a layout says anything but copies of a whole model."""
    if layout is None:
        return False
    parts = (layout.attention, layout.ffn, layout.shared_experts, layout.vocab, layout.experts)
    return (layout.tp or 1) > 1 or layout.pp > 1 or any(part is not None for part in parts)


def _with_libraries(context: Context, built: Deployment | None) -> Deployment | None:
    """What moves bytes where no engine's library does: only fitted times ask for it."""
    if built is None or built.ideal:
        return built
    pools = {}
    for name, pool in built.pools.items():
        devices = [] if pool.on is None else list(kinds_of(pool.on.of))
        found = [own_library(context, device) for device in devices]
        known = {library.name: library for library in found if library is not None}
        pools[name] = pool.model_copy(update={"libraries": tuple(known.values())})
    return built.model_copy(update={"pools": pools})


# --- tiers, comparisons, sweeps ----------------------------------------------------------------


def _tiers(context: Context, entry: Entry | None) -> dict[str, TierUse] | None:
    if entry is None:
        return {}
    if not isinstance(entry.value, Body):
        way = "write `tiers { host { tier = tiers.ddr5; capacity = 1 TB per node } }`"
        context.tell(WrongType(entry.span, "`tiers`", "a block", "a value", way))
        return None
    raw = flat(context, entry, "", "", ())
    if raw is None:
        return None
    found: dict[str, TierUse] = {}
    sound = True
    for key, use in raw.entries.items():
        if not isinstance(use.value, Body):
            way = f"write `{key} {{ tier = tiers.NAME; capacity = 1 TB per node }}`"
            context.tell(WrongType(use.span, f"`{key}`", "a block", "a value", way))
            sound = False
            continue
        own = flat(context, use, "", "", ())
        parts = None if own is None else gathered(context, TierUse, own, f"the tier `{key}`")
        if parts is not None:
            parts.values["name"] = key
        built = None if parts is None else finished(TierUse, parts)
        sound &= built is not None
        if built is not None:
            found[key] = built
    return found if sound else None


def _tier_names(raw: Raw) -> tuple[str, ...] | None:
    """Names of tiers as written; None where they cannot be known."""
    entry = raw.entries.get("tiers")
    names: dict[str, None] = {}
    while entry is not None and isinstance(entry.value, Body):
        names |= dict.fromkeys(entry.value.own.entries)
        below = entry.value.base
        entry = below if isinstance(below, Entry) else None
    return tuple(names)


def _compared(context: Context, raw: Raw, parts: Gathered) -> None:
    entry = raw.entries.get("compare")
    if entry is None:
        return
    if not isinstance(entry.value, Choices):
        way = "write `compare tp8, tp16`"
        context.tell(WrongType(entry.span, "`compare`", "layouts", "something else", way))
        parts.sound = False
        return
    layouts: list[Layout] = []
    slot = Referred(("layout",))
    for item in entry.value.items:
        with wanting(context, slot.kinds):
            value = context.evaluate(item, entry.scope)
        reference = None
        if value is not None and not isinstance(value, Reference):
            inner = item.items if isinstance(item, Items) else ()
            names = ", ".join(each.span.text for each in inner) or "tp8, tp16"
            if isinstance(value, Quotation) and value.text.isidentifier():
                names = value.text
            way = f"write names of layouts: `compare {names}`"
            context.tell(WrongType(item.span, "`compare`", "layouts", described(value), way))
        elif value is not None:
            reference = reference_of(context, value, slot, "`compare`", item.span)
        spec = None if reference is None else context.spec(reference, item.span)
        if isinstance(spec, Layout):
            layouts.append(spec)
    parts.sound &= len(layouts) == len(entry.value.items)
    parts.values["compare"] = tuple(layouts)


def _tried(context: Context, raw: Raw, parts: Gathered, subject: Subject) -> None:
    sweeps: list[Sweep | None] = []
    search: Search | None = None
    for key, entry in raw.entries.items():
        if key == "sweep" or key.startswith("sweep "):
            sweeps.append(read_sweep(context, entry, subject))
        elif key == "search":
            search = read_search(context, entry, subject)
            parts.sound &= search is not None
    parts.sound &= None not in sweeps
    parts.values["sweeps"] = tuple(sweeps)
    parts.values["search"] = search


# --- requirements and waivers ------------------------------------------------------------------


def _clauses(context: Context, raw: Raw, parts: Gathered, subject: Subject) -> None:
    requirements = _requirements(context, raw, subject)
    parts.sound &= len(requirements) == len(raw.requirements)
    parts.values["requirements"] = requirements
    waivers = [_waiver(context, kept) for kept in raw.waivers]
    parts.sound &= None not in waivers
    parts.values["waivers"] = tuple(waivers)


def _requirements(context: Context, raw: Raw, subject: Subject) -> tuple[Requirement, ...]:
    read = (read_requirement(context, kept, subject, raw.at) for kept in raw.requirements)
    return tuple(requirement for requirement in read if requirement is not None)


def _waiver(context: Context, kept: Kept[Allow]) -> Waiver | None:
    node = kept.node
    if not _CODE.fullmatch(node.code.text) and not _WORD.fullmatch(node.code.text):
        upper = node.code.text.upper()
        instead = upper if _CODE.fullmatch(upper) else None
        context.tell(BadCode(node.code.span, node.code.text, instead))
        return None
    if not node.because.value.strip():
        way = 'say why in a few words, as in `because "measured next week"`'
        context.tell(WrongType(node.because.span, "`because`", "a reason", "an empty text", way))
        return None
    until = node.until.value if node.until else None
    if node.until is not None and not _is_date(node.until.value):
        way = 'write year, month and day, as in `until "2027-01-31"`'
        told = f"`{node.until.value}`"
        context.tell(WrongType(node.until.span, "`until`", "a day", told, way))
        return None
    code, because = node.code.text, node.because.value
    return make(Waiver, node.span, code=code, because=because, until=until, span=node.span)


def _is_date(text: str) -> bool:
    """Whether a text is a day of the calendar, as `2027-01-31`."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


# --- fleets and policies -----------------------------------------------------------------------


def build_fleet(context: Context, raw: Raw, owner: str) -> Fleet | None:
    parts = gathered(context, Fleet, raw, owner)
    deployments = parts.values.get("deployments")
    names: list[str] = []
    for deployment in deployments if isinstance(deployments, tuple) else ():
        if deployment.name in names:
            span = raw.entries["deployments"].span
            context.tell(ListedTwice(span, deployment.name, "`deployments`"))
            parts.sound = False
        names.append(deployment.name)
    if deployments == ():
        entry, way = raw.entries["deployments"], "write `deployments = [prod]`"
        context.tell(WrongType(entry.span, "`deployments`", "deployments", "an empty list", way))
        parts.sound = False
    subject = Subject(None, None, names if parts.sound else None)
    if parts.sound:
        requirements = _requirements(context, raw, subject)
        parts.sound &= len(requirements) == len(raw.requirements)
        parts.values["requirements"] = requirements
    return finished(Fleet, parts)


def build_policy(context: Context, raw: Raw, owner: str) -> Policy | None:
    parts = gathered(context, Policy, raw, owner)
    requirements = _requirements(context, raw, Subject())
    parts.sound &= len(requirements) == len(raw.requirements)
    parts.values["requirements"] = requirements
    return finished(Policy, parts)
