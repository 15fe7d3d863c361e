"""From a raw block to a spec model: every entry read through its attribute's slot.

Comes in: a `Raw` and the model that it should become. Goes out: the model, or None where a
diagnostic was told. Not its job: blocks with statements of their own (models, recipes,
deployments).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

from kvdsl.resolve.attributes import read_value
from kvdsl.resolve.blocks import Body, Choices, Entry, Raw, Verbatim
from kvdsl.resolve.context import BLOCK, Context
from kvdsl.resolve.inheritance import flat
from kvdsl.resolve.naming_messages import (
    Misplaced,
    MissingAttribute,
    a_kind,
    listed,
)
from kvdsl.resolve.schema import KINDS, Attribute, make, schema_of
from kvdsl.resolve.suggestions import instead_of_text, wanting
from kvdsl.resolve.unknown_attributes import meant_by, unknown
from kvdsl.resolve.value_messages import WrongKind, WrongType, example_of
from kvdsl.resolve.values import Many, Quotation, Reference, Series, described
from kvdsl.source import Span
from kvdsl.spec.declaration import Block, Declaration, Origin
from kvdsl.spec.deployment import Deployment, Fleet, Policy
from kvdsl.spec.formats import Format, Recipe, RecipeLine
from kvdsl.spec.slots import (
    Count,
    Flag,
    Listed,
    Measured,
    Nested,
    PerScope,
    Quoted,
    Ratio,
    Referred,
    Selected,
    Table,
)
from kvdsl.spelling import in_a_row
from kvdsl.syntax.nodes import Truth

EXAMPLES = {
    "method": "method = mtp",
    "hidden": "hidden = 4096",
    "vocab": "vocab = 128_256",
    "query_heads": "query_heads = 32",
    "head_dim": "head_dim = 128",
    "intermediate": "intermediate = 14_336",
    "stack": "stack { 32 x layer { … } }",
    "devices": "devices = 8 x devices.h100_sxm",
    "nodes": "nodes = 2 x nodes.hgx_h100",
    "deployments": "deployments = [prod]",
    "default": "default = formats.bf16",
}
"""How to write what is no plain value, or has a usual size."""

B = TypeVar("B", bound=Block)

MOST_EXAMPLES = 3
"""Lines that are shown of what is missing."""

FRAME_KEYS = ("source", "abstract")
"""What every declaration may say of itself."""


@dataclass(slots=True)
class Gathered:
    """Attributes read so far; `sound` is False once one of them told a diagnostic."""

    at: Span
    values: dict[str, object]
    origins: dict[str, Origin]
    sound: bool = True


def build_block(context: Context, model: type[B], raw: Raw, owner: str) -> B | None:
    """A block that has attributes only."""
    return finished(model, gathered(context, model, raw, owner))


def finished(model: type[B], parts: Gathered) -> B | None:
    if not parts.sound:
        return None
    return make(model, parts.at, **parts.values, origins=parts.origins)


def gathered(
    context: Context, model: type[Block], raw: Raw, owner: str, elsewhere: Collection[str] = ()
) -> Gathered:
    """Every attribute of a block but those that are read `elsewhere`."""
    parts = Gathered(raw.at, {}, {}, not raw.faulty)
    _check_clauses(context, model, raw)
    if not context.deeper(BLOCK, raw.at):
        parts.sound = False
        return parts
    for key, entry in raw.entries.items():
        if key not in elsewhere:
            _gather(context, model, entry, owner, parts)
    context.shallower(BLOCK)
    meant = {near for key in raw.entries if key not in elsewhere for near in meant_by(model, key)}
    missing = [
        attribute
        for name, attribute in schema_of(model).attributes.items()
        if attribute.required and name not in {*raw.entries, *elsewhere, *meant}
    ]
    if missing and not context.lenient:
        parts.sound = False
        names = listed(attribute.name for attribute in missing)
        examples = [text for each in missing[:MOST_EXAMPLES] if (text := _example(each))]
        context.tell(MissingAttribute(raw.at, owner, names, in_a_row(examples, "and") or None))
    return parts


def _check_clauses(context: Context, model: type[Block], raw: Raw) -> None:
    """Requirements and waivers stand where somebody answers them."""
    if raw.requirements and model not in (Deployment, Fleet, Policy):
        node = raw.requirements[0].node
        where = "a deployment, fleet or policy"
        context.tell(Misplaced(node.span, f"`{node.keyword.text}`", where))
    if raw.waivers and model is not Deployment:
        hint = "no `allow` waives a policy" if model is Policy else None
        context.tell(Misplaced(raw.waivers[0].node.span, "`allow`", "a deployment", hint))


def _gather(
    context: Context, model: type[Block], entry: Entry, owner: str, parts: Gathered
) -> None:
    framed = entry.key in FRAME_KEYS and issubclass(model, Declaration)
    attribute = schema_of(model).attributes.get(entry.key)
    parts.origins[entry.key] = origin_of(entry)
    if framed:
        value = _frame_value(context, entry)
        if entry.key == "source" and value is not None:
            parts.values["source"] = value
        parts.sound &= value is not None
    elif attribute is None or attribute.special:
        unknown(context, model, entry, owner)
        parts.sound = False
    else:
        value = read(context, attribute, entry)
        parts.sound &= value is not None
        parts.values[entry.key] = value


def origin_of(entry: Entry) -> Origin:
    return Origin(entry.span, entry.source, entry.overridden)


def _frame_value(context: Context, entry: Entry) -> object | None:
    if isinstance(entry.value, Body | Verbatim | Choices):
        context.tell(WrongType(entry.span, f"`{entry.key}`", _FRAME_WANTS[entry.key], "a block"))
        return None
    value = context.evaluate(entry.value, entry.scope)
    match entry.key, value:
        case "source", Quotation(text=text):
            return text
        case "abstract", bool():
            return value
        case _, None:
            return None
        case _:
            wanted = _FRAME_WANTS[entry.key]
            context.tell(WrongType(entry.span, f"`{entry.key}`", wanted, described(value)))
            return None


_FRAME_WANTS = {"source": "a text", "abstract": "true or false"}


def abstract(raw: Raw) -> bool:
    """Whether a block says `abstract = true`."""
    entry = raw.entries.get("abstract")
    return entry is not None and isinstance(entry.value, Truth) and entry.value.value


def _example(attribute: Attribute) -> str | None:
    """One line that would fill a missing attribute."""
    name = attribute.name
    if name in EXAMPLES:
        return f"`{EXAMPLES[name]}`"
    for slot in attribute.slots:
        match slot:
            case Measured(dimension=dimension):
                return f"`{name} = {example_of(name, dimension)}`"
            case Count(least=least):
                return f"`{name} = {max(least, 8)}`"
            case Ratio():
                return f"`{name} = 90 %`"
            case Flag():
                return f"`{name} = true`"
            case Quoted():
                return f'`{name} = "…"`'
            case PerScope(dimension=dimension, scopes=scopes):
                return f"`{name} = {example_of(name, dimension)} per {scopes[0]}`"
            case Referred(kinds=kinds) if f"{kinds[0]}s" in (
                "links",
                "devices",
                "formats",
                "tiers",
            ):
                return f"`{name} = {kinds[0]}s.NAME`"
            case Listed() | Referred() | _:
                return f"`{name} = …`"
    return None


# --- one attribute -----------------------------------------------------------------------------


def read(context: Context, attribute: Attribute, entry: Entry) -> object | None:
    """An attribute's value in its python type; None where a diagnostic was told."""
    if isinstance(entry.value, Verbatim | Choices):
        unknown_form = "`{ … }` with statements of its own"
        context.tell(WrongType(entry.span, f"`{entry.key}`", "a value", unknown_form))
        return None
    if isinstance(entry.value, Body):
        return _from_block(context, attribute, entry)
    referred = next((s for s in attribute.slots if isinstance(s, Referred)), None)
    if referred is not None:
        return _from_reference(context, attribute, referred, entry)
    return read_value(context, attribute, entry)


def _from_block(context: Context, attribute: Attribute, entry: Entry) -> object | None:
    for slot in attribute.slots:
        match slot:
            case Referred(kinds=kinds, wrap=wrap):
                raw = flat(context, entry, kinds[0], wrap, slot.accepts)
                if raw is None:
                    return None
                if attribute.block in KINDS.values():
                    return context.build(kinds[0], raw, f"this `{entry.key}`")
            case Nested(words=words):
                wrapping = next((s for s in attribute.slots if isinstance(s, Referred)), None)
                wrap, accepts = (wrapping.wrap, wrapping.accepts) if wrapping else ("", ())
                raw = flat(context, entry, "", wrap, accepts, words)
                if raw is None or attribute.block is None:
                    return None
                return build_block(context, attribute.block, raw, f"this `{entry.key}`")
            case Table():
                raw = flat(context, entry, "", "", ())
                return None if raw is None else _table(context, slot, raw)
            case _:
                pass
    way = f"write `{entry.key} = …`"
    if isinstance(attribute.slots[0], Selected):
        way = f"declare it as a cluster, and name it: `{entry.key} = two_hgx`"
    context.tell(WrongType(entry.span, f"`{entry.key}`", "a value", "a block", way))
    return None


def _table(context: Context, slot: Table, raw: Raw) -> dict[str, object] | None:
    """A block whose names are free: `compute { bf16 = … }`."""
    values: dict[str, object] = {}
    sound = True
    for key, entry in raw.entries.items():
        item = Attribute(key, (slot.item,), required=False, block=None)
        value = read(context, item, entry)
        sound = sound and value is not None
        values[key] = value
    return values if sound else None


def _from_reference(
    context: Context, attribute: Attribute, slot: Referred, entry: Entry
) -> object | None:
    assert not isinstance(entry.value, Body | Verbatim | Choices)
    with wanting(context, (*slot.kinds, *slot.accepts)):
        value = context.evaluate(entry.value, entry.scope)
    if value is None:
        return None
    if isinstance(value, Quotation):
        kinds = dict.fromkeys((*slot.kinds, *slot.accepts))
        way = instead_of_text(context, entry.scope, value.text, tuple(kinds))
        way = way or f"name one, or write it here as a block: `{entry.key} {{ … }}`"
        wanted = " or ".join(map(a_kind, kinds))
        context.tell(WrongType(entry.span, f"`{entry.key}`", wanted, "a text", way))
        return None
    reference = reference_of(context, value, slot, f"`{entry.key}`", entry.span)
    if reference is None:
        return None
    spec = context.spec(reference, entry.span)
    if spec is None or (reference.kind in slot.kinds and slot.wrap != "link"):
        return spec
    return _wrapped(attribute, slot, spec, entry)


def reference_of(
    context: Context, value: object, slot: Referred, place: str, span: Span
) -> Reference | None:
    """A reference of a kind that the slot takes."""
    wanted = slot.kinds + tuple(k for k in slot.accepts if k not in slot.kinds)
    nouns = " or ".join(a_kind(kind) for kind in wanted)
    if not isinstance(value, Reference):
        way = "leave out the number before it" if isinstance(value, Many) else None
        if isinstance(value, Series):
            way = f"one holds; a sweep goes through several: `sweep {{ {place.strip('`')} = … }}`"
            if "layout" in wanted:
                way = "one holds; `compare` sets others beside it: `compare tp8, tp16`"
        way = way or f"name one, or write it here as a block: `{place.strip('`')} {{ … }}`"
        context.tell(WrongType(span, place, nouns, described(value), way))  # type: ignore[arg-type]
        return None
    if value.kind in wanted:
        return value
    if value.declared is None or value.kind:  # a broken declaration's kind may be unknown
        context.tell(WrongKind(span, place, nouns, value.title, a_kind(value.kind)))
    return None


def _wrapped(
    attribute: Attribute, slot: Referred, spec: Declaration, entry: Entry
) -> object | None:
    """A bare value of another kind as the block that it fills: a format as a recipe's default."""
    origin = origin_of(entry)
    if isinstance(spec, Format):
        line = make(RecipeLine, None, format=spec, origins={"format": origin})
        return make(Recipe, entry.span, lines=(line,), origins={"default": origin})
    assert attribute.block is not None
    return make(attribute.block, entry.span, **{slot.wrap: spec}, origins={slot.wrap: origin})
