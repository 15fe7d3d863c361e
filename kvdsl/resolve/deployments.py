"""Deployments: pools over what the deployment says for all, tiers, requirements, sweeps.

Comes in: a raw block. Goes out: a `Deployment` with at least one complete pool, or None where a
diagnostic was told. Not its job: whether a model fits (placement and on).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction

from kvdsl.diagnostics import Label
from kvdsl.resolve.asked_names import Subject
from kvdsl.resolve.blocks import Body, Choices, Entry, Kept, Raw, merged
from kvdsl.resolve.building import (
    Gathered,
    finished,
    gathered,
    origin_of,
    reference_of,
)
from kvdsl.resolve.combination_messages import (
    BadCode,
    IncompleteDeployment,
    IncompleteDraft,
    ListedTwice,
    ReplicasTwice,
    RolesNotWhole,
)
from kvdsl.resolve.conditions import read_requirement
from kvdsl.resolve.context import Context
from kvdsl.resolve.hardware import kinds_of
from kvdsl.resolve.inheritance import flat, layered
from kvdsl.resolve.libraries import own_library
from kvdsl.resolve.naming_messages import listed
from kvdsl.resolve.recipes import lines_known
from kvdsl.resolve.schema import make, schema_of
from kvdsl.resolve.suggestions import wanting
from kvdsl.resolve.sweeps import read_search, read_sweep
from kvdsl.resolve.unknown_attributes import meant_by
from kvdsl.resolve.value_messages import WrongType
from kvdsl.resolve.values import Quotation, Reference, described
from kvdsl.resolve.workloads import shares_whole
from kvdsl.spec.deployment import (
    Deployment,
    Fleet,
    Policy,
    Pool,
    Requirement,
    Search,
    Sweep,
    TierUse,
    Waiver,
)
from kvdsl.spec.layout import Layout
from kvdsl.spec.slots import Referred
from kvdsl.syntax.nodes import Allow, Items

POOL_KEYS = tuple(n for n in schema_of(Pool).attributes if n not in ("role", "share"))
"""What a deployment says for all its pools."""

NEEDED = ("model", "layout", "workload", "on", "weights", "kv")
_EXAMPLES = {
    "model": "model = models.llama_3_1_405b",
    "layout": "layout { tp = 8 }",
    "workload": "workload { context = 8 ktok; concurrency = 128 req }",
    "on": "on = 1 x nodes.hgx_h100",
    "weights": "weights = formats.bf16",
    "kv": "kv = formats.bf16",
}
_CODE = re.compile(r"KV\d{3}")


def build_deployment(context: Context, raw: Raw, owner: str) -> Deployment | None:
    apart = {k: e for k, e in raw.entries.items() if _is_apart(k)}
    pool_entries = {k: e for k, e in apart.items() if k.startswith("pool ")}
    parts = gathered(context, Deployment, raw, owner, apart)
    parts.origins |= {key: origin_of(entry) for key, entry in apart.items()}

    pools = _pools(context, raw, owner, pool_entries)
    parts.sound &= pools is not None
    parts.values["pools"] = pools
    tiers = _tiers(context, raw.entries.get("tiers"))
    parts.sound &= tiers is not None
    parts.values["tiers"] = tiers
    pool_names = [key.removeprefix("pool ") for key in pool_entries]
    _clauses(context, raw, parts, Subject(pool_names, _tier_names(raw)))
    _compared(context, raw, parts)
    _tried(context, raw, parts)
    return _with_libraries(context, finished(Deployment, parts))


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


def _is_apart(key: str) -> bool:
    if key in POOL_KEYS or key in ("tiers", "compare", "search", "sweep"):
        return True
    return key.startswith(("pool ", "sweep "))


# --- pools -------------------------------------------------------------------------------------


def _pools(
    context: Context, raw: Raw, owner: str, entries: Mapping[str, Entry]
) -> dict[str, Pool] | None:
    shared = raw.only(POOL_KEYS)
    raws = {"": shared}
    if entries:
        _check_shared(context, shared)
        raws = {
            key.removeprefix("pool "): pool_raw(context, entry, shared)
            for key, entry in entries.items()
        }
    searched = "search" in raw.entries
    complete = context.lenient or _all_needed(context, raw, owner, raws, searched=searched)
    pools = {name: _pool(context, name, own, owner) for name, own in raws.items()}
    built = {name: pool for name, pool in pools.items() if pool is not None}
    if len(built) < len(pools) or not complete:
        return None
    sound = all(_goes_together(context, pool, owner) for pool in built.values())
    if entries and not context.lenient:
        sound &= _roles_whole(context, raw, owner, list(built.values()))
        built = _shared_out(built)
    return built if sound else None


def _check_shared(context: Context, shared: Raw) -> None:
    """What a deployment says is checked even where every pool says otherwise."""
    gathered(context, Pool, shared, "this deployment")


def pool_raw(context: Context, entry: Entry, shared: Raw) -> Raw:
    """A pool over the pool that it inherits, over what the deployment says."""
    raw = replace(shared, at=entry.span)
    if isinstance(entry.value, Body):
        for own in layered(entry)[1]:
            raw = merged(raw, own, context.found)
    return raw


def _pool(context: Context, name: str, raw: Raw, owner: str) -> Pool | None:
    whose = f"`pool {name}`" if name else owner
    parts = gathered(context, Pool, raw, whose)
    parts.values["name"] = name
    if "role" not in raw.entries:
        parts.values["role"] = name if name in ("prefill", "decode", "both") else "both"
    return finished(Pool, parts)


def _all_needed(
    context: Context, raw: Raw, owner: str, raws: Mapping[str, Raw], *, searched: bool
) -> bool:
    """Whether every pool has what a plan needs; what all lack is told once."""
    needed = [name for name in NEEDED if name != "layout" or not searched]
    lacking = {pool: _lacking(raw, own, needed) for pool, own in raws.items()}
    by_all = [name for name in needed if all(name in lacks for lacks in lacking.values())]
    if by_all:
        hint = "here, or in every pool" if "" not in raws else None
        example = listed(_EXAMPLES[name] for name in by_all)
        context.tell(IncompleteDeployment(raw.at, owner, listed(by_all), example, hint))
    for pool, lacks in lacking.items():
        own = [name for name in lacks if name not in by_all]
        if own:
            hint = "or say it for all pools, in the deployment"
            example = listed(_EXAMPLES[name] for name in own)
            whose = f"`pool {pool}`"
            context.tell(IncompleteDeployment(raws[pool].at, whose, listed(own), example, hint))
    return not any(name not in own.entries for name in needed for own in raws.values())


def _lacking(raw: Raw, own: Raw, needed: Sequence[str]) -> list[str]:
    """What a pool needs and nobody says, nor says under a name that is told as unknown."""
    said = [key for key in (*raw.entries, *own.entries) if not _is_apart(key)]
    meant = {near for key in said for near in meant_by(Pool, key)}
    meant.update(raw.mentioned, own.mentioned)
    return [name for name in needed if name not in own.entries and name not in meant]


def _goes_together(context: Context, pool: Pool, owner: str) -> bool:
    sound = True
    whose = f"`pool {pool.name}`" if pool.name else owner
    in_layout = pool.layout.origin("replicas") if pool.layout else None
    in_pool = pool.origin("replicas")
    if in_layout and in_pool:
        place = Label(in_layout.span, "and here in the layout")
        context.tell(ReplicasTwice(in_pool.span, whose), place)
        sound = False
    if pool.model is not None:
        layers = pool.model.layers
        for recipe in (pool.weights, pool.kv, pool.activations):
            if recipe is not None:
                sound &= lines_known(context, recipe, pool.model.parts, layers)
    return sound and _draft_whole(context, pool)


def _draft_whole(context: Context, pool: Pool) -> bool:
    draft = pool.draft
    if draft is None:
        return True
    if draft.method == "model" and draft.model is None:
        needs, example = "`model`", "`model = models.llama_3_2_1b`"
    elif draft.method == "eagle" and draft.layers is None:
        needs, example = "`layers`", "`layers = 1`"
    else:
        return True
    assert draft.at is not None
    context.tell(IncompleteDraft(draft.at, draft.method, needs, example))
    return False


def _roles_whole(context: Context, raw: Raw, owner: str, pools: Sequence[Pool]) -> bool:
    """Someone prefills, someone decodes; where two do the same, their shares are 100 %."""
    sound = True
    for phase in ("prefill", "decode"):
        serving = [pool for pool in pools if pool.role in (phase, "both")]
        if not serving:
            context.tell(RolesNotWhole(raw.at, owner, phase))
            sound = False
            continue
        shares = [(p.name, p.share, p.at) for p in serving if p.share is not None]
        sound &= shares_whole(context, f"pools that {phase}", shares)
    return sound


def _shared_out(pools: dict[str, Pool]) -> dict[str, Pool]:
    """Pools that do the same, without shares, have equal ones: requests go to one of them each."""
    parts = {}
    for name, pool in pools.items():
        phases = ("prefill", "decode") if pool.role == "both" else (pool.role,)
        beside = [[p for p in pools.values() if p.role in (phase, "both")] for phase in phases]
        equal = len({len(found) for found in beside}) == 1
        silent = all(other.share is None for found in beside for other in found)
        if equal and silent and len(beside[0]) > 1:
            parts[name] = pool.model_copy(update={"share": Fraction(1, len(beside[0]))})
    return {**pools, **parts}


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


def _tried(context: Context, raw: Raw, parts: Gathered) -> None:
    sweeps: list[Sweep | None] = []
    search: Search | None = None
    for key, entry in raw.entries.items():
        if key == "sweep" or key.startswith("sweep "):
            sweeps.append(read_sweep(context, entry))
        elif key == "search":
            search = read_search(context, entry)
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
    read = (read_requirement(context, kept, subject) for kept in raw.requirements)
    return tuple(requirement for requirement in read if requirement is not None)


def _waiver(context: Context, kept: Kept[Allow]) -> Waiver | None:
    node = kept.node
    if not _CODE.fullmatch(node.code.text):
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
