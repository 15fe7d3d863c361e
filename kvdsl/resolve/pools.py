"""Pools of a deployment: each over what the deployment says for all, complete and whole together.

Comes in: a deployment's raw block. Goes out: a `Pool` for each, at least one, or None where a
diagnostic was told. Not its job: whether a model fits (placement and on).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from kvdsl.diagnostics import Label
from kvdsl.resolve.blocks import Body, Entry, Raw, merged
from kvdsl.resolve.building import (
    finished,
    gathered,
)
from kvdsl.resolve.combination_messages import (
    IncompleteDeployment,
    IncompleteDraft,
    ReplicasTwice,
    RolesNotWhole,
)
from kvdsl.resolve.context import Context
from kvdsl.resolve.inheritance import layered
from kvdsl.resolve.naming_messages import listed
from kvdsl.resolve.recipes import lines_known
from kvdsl.resolve.schema import schema_of
from kvdsl.resolve.unknown_attributes import meant_by
from kvdsl.resolve.workloads import shares_whole
from kvdsl.spec.deployment import (
    Pool,
)

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


def is_apart(key: str) -> bool:
    if key in POOL_KEYS or key in ("tiers", "compare", "search", "sweep"):
        return True
    return key.startswith(("pool ", "sweep "))


def pools_of(
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
    said = [key for key in (*raw.entries, *own.entries) if not is_apart(key)]
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
    # What is abstract may leave anything out.
    return sound and (context.lenient or _draft_whole(context, pool))


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
