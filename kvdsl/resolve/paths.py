"""Paths of changes: which blocks a dotted path goes through, and what was meant by one that ends.

Comes in: a deployment's raw block and the names of a path. Goes out: the keys of its entries, or
why there are none, with whole paths to write instead. Not its job: the value (changes), or names
in blocks whose names are free, such as a recipe's (building).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from kvdsl.resolve.blocks import PLURAL_KEYS, SORTS, Body, Entry, Raw
from kvdsl.resolve.declarations import Declarations
from kvdsl.resolve.foreign_names import own_name
from kvdsl.resolve.inheritance import flat
from kvdsl.resolve.naming_messages import a_kind, likely, listed
from kvdsl.resolve.pools import POOL_KEYS, pool_raw
from kvdsl.resolve.schema import KINDS, Attribute, schema_of
from kvdsl.spec.declaration import Block
from kvdsl.spec.deployment import Deployment, Pool
from kvdsl.spec.formats import Recipe
from kvdsl.spec.model import FORMS, Model
from kvdsl.spec.slots import Nested, Referred, Table

CHANGEABLE = (*POOL_KEYS, *schema_of(Deployment).names)

GROUPS: Mapping[str, str] = MappingProxyType(
    {"tiers": "tier", **{k: sort for k, sort in PLURAL_KEYS.items() if k not in (*SORTS, "sweeps")}}
)
"""Blocks that have names: how a path calls all of them, and what one is."""


@dataclass(frozen=True, slots=True)
class NoPath:
    """A path that leads nowhere: why, whole paths that lead somewhere, or a hint; where there is
    neither, what there is."""

    reason: str
    near: tuple[str, ...] = ()
    hint: str | None = None
    has: str | None = None


@dataclass(frozen=True, slots=True)
class _Level:
    """A block that a path goes through. `model` is None where its names are free, or where it is
    a value and no block; `raw` where nobody can tell what stands in it; `path` leads here, with the
    dot behind it; so many `free` names may follow."""

    model: type[Block] | None
    raw: Raw | None
    owner: str
    path: str = ""
    free: int = 0


def keys_of(
    context: Declarations, kind: str, raw: Raw, names: Sequence[str], before: str = ""
) -> tuple[str, ...] | NoPath:
    """The keys under which a path is written over the block of a deployment or fleet:
    `pools.decode.layout` is `pool decode` and `layout`. `before` is what leads to the block."""
    level = _Level(KINDS[kind], raw, a_kind(kind), before)
    keys: list[str] = []
    rest = list(names)
    while rest:
        found = _step(context, level, rest)
        if isinstance(found, NoPath):
            return found
        step, level, count = found
        keys += step
        rest = rest[count:]
    return tuple(keys)


def _step(
    context: Declarations, level: _Level, names: Sequence[str]
) -> tuple[tuple[str, ...], _Level, int] | NoPath:
    """The keys of the next block or attribute, what is below it, and how many names it took."""
    first = names[0]
    path = f"{level.path}{first}."
    if level.model is None:
        return (first,), replace(level, path=path), 1
    if first in _plain(level.model):
        below = _below(context, level, first) if names[1:] else _VALUE
        return (first,), replace(below, path=path), 1
    group = _group(level.model, first)
    if group is None:
        return _unknown(context, level, names)
    known = _members(context, level, group)
    if known is None:
        return tuple(names), _VALUE, len(names)
    if first in SORTS:
        known = {n: (keys, entry) for n, (keys, entry) in known.items() if entry.sort == first}
    if len(names) > 2 and names[1] in known:
        keys, entry = known[names[1]]
        below = _of_member(context, level, group, names[1], entry)
        return keys, replace(below, path=f"{path}{names[1]}."), 2
    return _no_member(context, level, names, group, known)


_VALUE = _Level(None, None, "")
_TABLE = replace(_VALUE, free=1)

Members = Mapping[str, tuple[tuple[str, ...], Entry]]
"""The keys and the entry of each block of a group, by its name."""


def _plain(model: type[Block] | None) -> tuple[str, ...]:
    if model is None:
        return ()
    return CHANGEABLE if model is Deployment else schema_of(model).names


def _group(model: type[Block], name: str) -> str | None:
    """The group of blocks that a name is of, by the attribute that holds it."""
    if model is Model and name in SORTS:
        return "parts"
    attribute = schema_of(model).attributes.get(name)
    return name if attribute is not None and name in GROUPS else None


# --- what is below -----------------------------------------------------------------------------


def _below(context: Declarations, level: _Level, name: str) -> _Level:
    assert level.model is not None
    schemas = [schema_of(m) for m in (level.model, Pool) if m is level.model or _shares(level)]
    attribute = next(s.attributes[name] for s in schemas if name in s.attributes)
    block = attribute.block
    if block is Recipe or any(isinstance(slot, Table) for slot in attribute.slots):
        return _TABLE
    if block is None or not any(isinstance(slot, Nested | Referred) for slot in attribute.slots):
        return _VALUE
    entry = level.raw.entries.get(name) if level.raw is not None else None
    raw = _block_of(context, attribute, entry)
    if entry is None and level.raw is not None and not _of_pools(context, level, name):
        raw = Raw(level.raw.at)  # nothing is written there: no block of it has a name
    return _Level(block, raw, f"this `{name}`")


def _of_pools(context: Declarations, level: _Level, name: str) -> bool:
    """Whether a pool says what the deployment does not."""
    if level.model is not Deployment or level.raw is None or name not in POOL_KEYS:
        return False
    pools = [entry for key, entry in level.raw.entries.items() if key.startswith("pool ")]
    nothing = Raw(level.raw.at)

    def said() -> bool:
        return any(name in pool_raw(context, entry, nothing).entries for entry in pools)

    return bool(context.collected(said).result)


def _shares(level: _Level) -> bool:
    return level.model is Deployment


def _block_of(context: Declarations, attribute: Attribute, entry: Entry | None) -> Raw | None:
    """What stands in an attribute's block, also in one that it refers to."""
    if entry is None:
        return None
    over = Entry(entry.key, entry.name, Body(Raw(entry.span), "inherit"), entry.scope, entry.span)
    whole = over.over(entry)
    referred = next((s for s in attribute.slots if isinstance(s, Referred)), None)
    nested = next((s for s in attribute.slots if isinstance(s, Nested)), None)
    words = nested.words if nested is not None else ()
    kind = referred.kinds[0] if referred is not None and nested is None else ""
    wrap, accepts = (referred.wrap, referred.accepts) if referred is not None else ("", ())
    return context.collected(lambda: flat(context, whole, kind, wrap, accepts, words)).result


# --- blocks with names -------------------------------------------------------------------------


def _members(context: Declarations, level: _Level, group: str) -> Members | None:
    """The blocks of a group, by name: their keys and entries. None where nobody can tell."""
    if level.raw is None:
        return None
    if group == "tiers":
        entry = level.raw.entries.get(group)
        if entry is None:
            return {}
        if not isinstance(entry.value, Body):
            return None
        raw = context.collected(lambda: flat(context, entry, "", "", ())).result
        return None if raw is None else {n: ((group, n), e) for n, e in raw.entries.items()}
    word = f"{GROUPS[group]} "
    named = ((k, e) for k, e in level.raw.entries.items() if k.startswith(word))
    return {key.removeprefix(word): ((key,), entry) for key, entry in named}


def _of_member(context: Declarations, level: _Level, group: str, name: str, entry: Entry) -> _Level:
    """What is below one block of a group. A part's names are those of its form."""
    assert level.model is not None
    assert level.raw is not None
    if not isinstance(entry.value, Body):
        return _VALUE
    if group == "parts":
        form = FORMS.get(entry.sort, {}).get(entry.form.text) if entry.form else None
        return _Level(form, None, f"`{entry.sort} {name}`")
    if group == "pools":
        raw: Raw | None = pool_raw(context, entry, level.raw.only(POOL_KEYS))
        return _Level(Pool, raw, f"`pool {name}`")
    raw = context.collected(lambda: flat(context, entry, "", "", ())).result
    block = schema_of(level.model).attributes[group].block
    return _Level(block, raw, f"the tier `{name}`" if group == "tiers" else f"`{entry.key}`")


def _no_member(
    context: Declarations, level: _Level, names: Sequence[str], group: str, known: Members
) -> NoPath:
    first, sort = names[0], GROUPS[group]
    this = "this deployment" if level.model is Deployment else level.owner
    if not known:
        noun = f"{first} parts" if first in SORTS else group
        return NoPath(f"{this} has no {noun}", has=_has(context, level))
    if len(names) < 2 or names[1] in known:
        name = names[1] if names[1:] else next(iter(known))
        hint = _written(context, level, first, group, (name, known[name]), ())
        whole = f"an attribute of {a_kind(sort)} is written {hint}"
        return NoPath(f"it names no attribute of {a_kind(sort)}", (), whole)
    near = _that_lead(context, level, [(first, n) for n in likely(names[1], known)], names[2:])
    near = near or tuple(
        f"{level.path}{first}.{name}.{'.'.join(names[1:])}"
        for name, (_, entry) in known.items()
        if names[1] in _plain(_of_member(context, level, group, name, entry).model)
    )
    there = f"there {'is' if len(known) == 1 else 'are'} {listed(known)}"
    return NoPath(f"there is no {sort} `{names[1]}`", near, has=there)


def _written(
    context: Declarations,
    level: _Level,
    first: str,
    group: str,
    member: tuple[str, tuple[tuple[str, ...], Entry]],
    rest: Sequence[str],
) -> str:
    """How an attribute of one block of a group is written: that which was meant, or one it has."""
    name, (_, entry) = member
    below = _of_member(context, level, group, name, entry)
    if not rest or isinstance(_walked(context, below, rest), NoPath):
        rest = ("layout", "tp") if group == "pools" else _plain(below.model)[:1]
    return f"`{'.'.join((f'{level.path}{first}', name, *rest))}`"


# --- what was meant ----------------------------------------------------------------------------


def _unknown(context: Declarations, level: _Level, names: Sequence[str]) -> NoPath:
    assert level.model is not None
    first, rest = names[0], names[1:]
    reason = f"{level.owner} has no attribute `{first}`"
    for group in _groups(level.model):
        known = _members(context, level, group)
        if known and first in known:
            written = _written(context, level, group, group, (first, known[first]), rest)
            return NoPath(reason, (), f"`{first}` is {a_kind(GROUPS[group])}: write {written}")
        if known is not None and first == GROUPS[group]:
            if not known:
                return _no_member(context, level, names, group, known)
            name = rest[0] if rest and rest[0] in known else next(iter(known))
            written = _written(context, level, group, group, (name, known[name]), rest[1:])
            whole = f"an attribute of {a_kind(first)} is written {written}"
            return NoPath(f"it names no attribute of {a_kind(first)}", (), whole)
    if first in schema_of(level.model).attributes:
        return NoPath("it has no value of its own", (), f"change `{first}` in the spec")
    own = own_name(first)
    plain = _plain(level.model)
    words = (own,) if own in plain else likely(first, (*plain, *_groups(level.model)))
    near = _that_lead(context, level, [(word,) for word in words], rest)
    return NoPath(reason, near, has=_has(context, level))


def _groups(model: type[Block]) -> tuple[str, ...]:
    return tuple(n for n in schema_of(model).attributes if n in GROUPS)


def _that_lead(
    context: Declarations,
    level: _Level,
    starts: Sequence[tuple[str, ...]],
    rest: Sequence[str],
) -> tuple[str, ...]:
    """Paths from one of the starts that lead somewhere, with what stands behind it or with what was
    likely meant by that."""
    found: list[str] = []
    for start in starts:
        made = _walked(context, level, (*start, *rest))
        found += made.near if made is not None else (f"{level.path}{'.'.join((*start, *rest))}",)
    return tuple(dict.fromkeys(found))


def _walked(context: Declarations, level: _Level, names: Sequence[str]) -> NoPath | None:
    """Why a path leads nowhere, or None."""
    rest = list(names)
    while rest:
        if level.model is None:
            return None if len(rest) <= level.free else NoPath("it is a value")
        found = _step(context, level, rest)
        if isinstance(found, NoPath):
            return found
        _, level, count = found
        rest = rest[count:]
    return None


def _has(context: Declarations, level: _Level) -> str:
    assert level.model is not None
    here = [g for g in _groups(level.model) if _members(context, level, g)]
    whose = "a deployment" if level.model is Deployment else "it"
    return f"{whose} has {listed((*_plain(level.model), *here))}"
