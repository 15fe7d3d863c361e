"""Models: their parts, the stack of layers that names them, draft layers and towers.

Comes in: a raw block. Goes out: a `Model`, or None where a diagnostic was told. Not its job:
counting parameters (costs).
"""

from __future__ import annotations

from collections.abc import Mapping

from kvdsl.resolve.blocks import PART, Body, Entry, Raw, Verbatim, path_key, scope_of
from kvdsl.resolve.building import finished, gathered, origin_of, read
from kvdsl.resolve.combination_messages import (
    BadStack,
    InconsistentPart,
    UnknownPart,
)
from kvdsl.resolve.configs import with_config
from kvdsl.resolve.context import BLOCK, Context
from kvdsl.resolve.expressions import MOST_COUNT
from kvdsl.resolve.foreign_names import FORM_NAMES
from kvdsl.resolve.inheritance import flat
from kvdsl.resolve.names import Scope
from kvdsl.resolve.naming_messages import (
    PartForm,
    UnknownAttribute,
    WrittenTwice,
    either,
    like,
    listed,
)
from kvdsl.resolve.schema import is_whole, make, schema_of
from kvdsl.resolve.value_messages import WrongType
from kvdsl.source import Span
from kvdsl.spec.declaration import Block, Origin
from kvdsl.spec.model import FORMS, Gqa, Layer, Model, Moe, Part, Run, SharedCache, Softmax, Tower
from kvdsl.syntax import nodes
from kvdsl.units import counted, grouped

MOST_LAYERS = 1_000
"""Far above any model; a stack beyond it is a slip, and every stage would walk it."""


def build_model(context: Context, raw: Raw, owner: str) -> Model | None:
    whole = with_config(context, raw)
    raw = raw if whole is None else whole
    parts = {key: entry for key, entry in raw.entries.items() if key.startswith(f"{PART} ")}
    towers = {key: entry for key, entry in raw.entries.items() if key.startswith("tower ")}
    stacks = {key: raw.entries[key] for key in ("stack", "mtp") if key in raw.entries}
    elsewhere = (*parts, *towers, *stacks)
    if whole is None:  # told, and what it would have said is not missing
        elsewhere += ("hidden", "vocab", "stack")
    gatherings = gathered(context, Model, raw, owner, elsewhere)
    gatherings.sound &= whole is not None

    names = {key.removeprefix(f"{PART} "): entry.sort for key, entry in parts.items()}
    built: dict[str, Block | tuple[Run, ...] | None] = {}
    built |= {key: _part(context, entry) for key, entry in parts.items()}
    built |= {key: _tower(context, entry) for key, entry in towers.items()}
    built |= {key: _stack(context, entry, names) for key, entry in stacks.items()}
    gatherings.sound &= all(value is not None for value in built.values())
    gatherings.origins |= {key: origin_of(e) for key, e in {**parts, **towers, **stacks}.items()}
    gatherings.values |= {
        "parts": {key.removeprefix(f"{PART} "): built[key] for key in parts},
        "towers": {key.removeprefix("tower "): built[key] for key in towers},
        **{key: built[key] for key in stacks},
    }
    model = finished(Model, gatherings)
    return model if model is not None and _readers_read(context, model) else None


# --- parts -------------------------------------------------------------------------------------


def _part(context: Context, entry: Entry) -> Part | None:
    name = entry.name.text
    below = entry.value.base if isinstance(entry.value, Body) else None
    if isinstance(below, nodes.Path):
        way = f"start from a model that has it: `model NAME extends {below.names[0].text}… {{ … }}`"
        reason = "cannot extend another part"
        context.tell(PartForm(entry.span, entry.sort, name, reason, None, way))
        return None
    if entry.form is None:
        forms = FORMS.get(entry.sort, {})
        way = f"write `{entry.sort} {name} = {next(iter(forms))} {{ … }}`"
        reason = "has no form, and no part of that name is inherited"
        context.tell(PartForm(entry.span, entry.sort, name, reason, None, way))
        return None
    if isinstance(below, Entry) and below.sort != entry.sort:
        way = f"write `{below.sort} {name} {{ … }}`"
        reason = f"is inherited as `{below.sort} {name}`"
        context.tell(PartForm(entry.span, entry.sort, name, reason, None, way))
        return None
    forms = FORMS.get(entry.sort, {})
    form = forms.get(entry.form.text)
    if form is None:
        other, hint = FORM_NAMES.get(entry.form.text.lower(), ("", ""))
        near = None if other in forms else like(entry.form.text, forms)
        reason = f"cannot be `{entry.form.text}`"
        hint = hint if other in forms else f"its form is one of {listed(forms)}"
        context.tell(PartForm(entry.form.span, entry.sort, name, reason, near, hint))
        return None
    raw = flat(context, entry, "", "", ())
    part = None if raw is None else _built_part(context, form, raw, f"`{entry.sort} {name}`", name)
    return part if part is None or not is_whole(part) or _adds_up(context, part) else None


def _built_part(context: Context, form: type[Part], raw: Raw, owner: str, name: str) -> Part | None:
    parts = gathered(context, form, raw, owner)
    parts.values["name"] = name
    return finished(form, parts)


def _adds_up(context: Context, part: Part) -> bool:
    """Whether the figures of one part go together."""
    match part:
        case Gqa() if part.query_heads % part.kv_heads:
            heads = counted(part.query_heads, "query heads")
            reason = f"{heads} cannot share {counted(part.kv_heads, 'KV heads')} evenly"
            way = (
                "each KV head serves as many query heads: `query_heads` is a multiple of `kv_heads`"
            )
            where = _where(part, "kv_heads")
        case Moe() if part.active > part.experts:
            reason = f"a token visits {part.active:,} of {counted(part.experts, 'experts')}"
            way = "`active` is at most `experts`"
            where = _where(part, "active")
        case Moe() if part.top_groups > part.groups:
            reason = (
                f"a token's experts lie in {part.top_groups:,} of {counted(part.groups, 'groups')}"
            )
            way = "`top_groups` is at most `groups`"
            where = _where(part, "top_groups")
        case Moe() if part.experts % part.groups:
            groups = counted(part.groups, "even groups")
            reason = f"{counted(part.experts, 'experts')} cannot form {groups}"
            way = "`experts` is a multiple of `groups`"
            where = _where(part, "groups")
        case _:
            return True
    context.tell(InconsistentPart(where, reason, way))
    return False


def _where(block: Block, attribute: str) -> Span:
    origin = block.origin(attribute)
    if origin is not None:
        return origin.span
    assert block.at is not None
    return block.at


def _readers_read(context: Context, model: Model) -> bool:
    """Whether every `shared` part names an attention part that keeps a cache."""
    sound = True
    for part in model.parts.values():
        if not isinstance(part, SharedCache) or not is_whole(part):
            continue
        other = model.parts.get(part.of)
        if other is not None and isinstance(other, Softmax):
            continue
        known = [p.name for p in model.parts.values() if isinstance(p, Softmax)]
        hint = f"it must be an attention part with a cache: {listed(known)}" if known else None
        context.tell(UnknownPart(_where(part, "of"), part.of, like(part.of, known), hint))
        sound = False
    return sound


def _tower(context: Context, entry: Entry) -> Tower | None:
    raw = flat(context, entry, "", "", ())
    if raw is None:
        return None
    parts = gathered(context, Tower, raw, f"`tower {entry.name.text}`")
    parts.values["name"] = entry.name.text
    return finished(Tower, parts)


# --- the stack ---------------------------------------------------------------------------------


def _stack(context: Context, entry: Entry, parts: Mapping[str, str]) -> tuple[Run, ...] | None:
    if not isinstance(entry.value, Verbatim):
        way = f"write `{entry.key} {{ 32 x layer {{ … }} }}`"
        context.tell(WrongType(entry.span, f"`{entry.key}`", "a block of layers", "a value", way))
        return None
    runs = _runs(context, entry.value.node, entry.scope, parts, entry.span)
    if runs is None:
        return None
    layers = sum(run.layers for run in runs)
    if layers > MOST_LAYERS:
        shown = grouped(layers) if layers < 10**30 else "far too many"
        way = f"a stack has at most {MOST_LAYERS:,}: check the counts"
        context.tell(BadStack(entry.span, f"this stack has {shown} layers", way))
        return None
    return runs


def _runs(
    context: Context, block: nodes.Block, scope: Scope, parts: Mapping[str, str], at: Span
) -> tuple[Run, ...] | None:
    """The runs of a stack or pattern, in order."""
    if not context.deeper(BLOCK, block.span):
        return None
    inner = scope_of(block, scope, context.found)
    found = [
        _run(context, statement, inner, parts)
        for statement in block.statements
        if not isinstance(statement, nodes.Let)
    ]
    context.shallower(BLOCK)
    if not found:
        context.tell(BadStack(at, "there is no layer in it", "write `32 x layer { … }`"))
        return None
    runs = tuple(run for run in found if run is not None)
    return runs if len(runs) == len(found) else None


def _run(
    context: Context, statement: nodes.Statement, scope: Scope, parts: Mapping[str, str]
) -> Run | None:
    match statement:
        case nodes.Repeat(count=number, kind=kind, body=body):
            count = number.value
            if not isinstance(count, int) or not 1 <= count <= MOST_COUNT:
                way = f"write a whole number from 1 to {MOST_LAYERS:,}"
                context.tell(BadStack(number.span, "so many times is no count", way))
                return None
        case nodes.Declare(kind=kind, name=None, extends=None, body=body):
            count = 1
        case nodes.Mention(name=name) if name.text in parts:
            way = f"write `layer {{ {name.text} }}`"
            context.tell(BadStack(name.span, "a part stands in a `layer`", way))
            return None
        case _:
            way = "write `N x layer { … }` or `N x pattern { … }`"
            context.tell(BadStack(statement.span, "a stack holds layers and patterns only", way))
            return None
    if kind.text == "layer":
        layer = _layer(context, body, scope, parts, kind.span)
        if layer is None:
            return None
        return make(Run, statement.span, count=count, layer=layer)
    if kind.text == "pattern":
        runs = _runs(context, body, scope, parts, kind.span)
        if runs is None:
            return None
        return make(Run, statement.span, count=count, pattern=runs)
    way = "write `layer { … }` or `pattern { … }`"
    context.tell(BadStack(kind.span, f"`{kind.text}` cannot stand in a stack", way))
    return None


def _layer(
    context: Context, block: nodes.Block, scope: Scope, parts: Mapping[str, str], at: Span
) -> Layer | None:
    inner = scope_of(block, scope, context.found)
    named: list[str] = []
    values: dict[str, object] = {}
    origins: dict[str, Origin] = {}
    sound = True
    for statement in block.statements:
        match statement:
            case nodes.Mention(name=name) if name.text in parts:
                named.append(name.text)
            case nodes.Mention(name=name):
                hint = f"its parts are {listed(sorted(parts))}" if parts else None
                of_sort = [part for part, sort in parts.items() if sort == name.text]
                near = either(of_sort) or like(name.text, parts)
                context.tell(UnknownPart(name.span, name.text, near, hint))
                sound = False
            case nodes.Assign(path=path):
                entry = _layer_entry(statement, inner)
                sound &= entry is not None and _layer_value(context, entry, values, origins)
                if entry is None:
                    context.tell(
                        UnknownAttribute(path.span, "a layer", path_key(path), None, _LAYER_HAS)
                    )
            case nodes.Let():
                pass
            case _:
                context.tell(BadStack(statement.span, "a layer holds names of parts", _LAYER_HAS))
                sound = False
    if sound and not named:
        context.tell(BadStack(at, "this layer has no part", "write the names of its parts in it"))
        sound = False
    if not sound:
        return None
    return make(Layer, at, parts=tuple(named), **values, origins=origins)


_LAYER_HAS = "beside its parts a layer may say `norms` and `extra`"


def _layer_entry(node: nodes.Assign, scope: Scope) -> Entry | None:
    key = path_key(node.path)
    if key not in ("norms", "extra") or isinstance(node.value, nodes.Block):
        return None
    source = node.source.value if node.source else None
    return Entry(key, nodes.Name(key, node.path.span), node.value, scope, node.value.span, source)


def _layer_value(
    context: Context, entry: Entry, values: dict[str, object], origins: dict[str, Origin]
) -> bool:
    if entry.key in values:
        context.tell(WrittenTwice(entry.name.span, entry.key))
        return False
    values[entry.key] = read(context, schema_of(Layer).attributes[entry.key], entry)
    origins[entry.key] = origin_of(entry)
    return values[entry.key] is not None
