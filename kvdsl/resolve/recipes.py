"""Recipes: a format for each module of the weights or component of the cache.

Comes in: a raw block. Goes out: a `Recipe`, or None where a diagnostic was told. Not its job: which
line holds for a tensor (spec.formats).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvdsl.resolve.blocks import Entry, Raw
from kvdsl.resolve.building import finished, gathered, origin_of, read
from kvdsl.resolve.combination_messages import IncompleteFormat, UnknownModule
from kvdsl.resolve.context import Context
from kvdsl.resolve.naming_messages import MissingAttribute, like, listed
from kvdsl.resolve.schema import Attribute, make
from kvdsl.resolve.value_messages import BadSelection
from kvdsl.spec.formats import COMPONENTS, MODULES, Format, Recipe, RecipeLine
from kvdsl.spec.slots import Referred
from kvdsl.units import counted

_LAYERS = re.compile(r"layers\[(.+)\]")


def build_recipe(context: Context, raw: Raw, owner: str) -> Recipe | None:
    lines = {k: e for k, e in raw.entries.items() if k not in ("source", "abstract")}
    parts = gathered(context, Recipe, raw, owner, lines)
    built = [_line(context, entry) for entry in lines.values()]
    parts.sound &= all(line is not None for line in built)
    parts.values["lines"] = tuple(built)
    parts.origins |= {key: origin_of(entry) for key, entry in lines.items()}
    if "default" not in lines and not context.lenient:
        example = "`default = formats.bf16`"
        context.tell(MissingAttribute(raw.at, owner, "`default`", example))
        parts.sound = False
    return finished(Recipe, parts)


def _line(context: Context, entry: Entry) -> RecipeLine | None:
    runs = _layers(context, entry)
    if runs is None:
        return None
    attribute = Attribute(entry.key, (Referred(("format",)),), required=True, block=Format)
    number_format = read(context, attribute, entry)
    if number_format is None:
        return None
    return make(
        RecipeLine,
        entry.name.span,
        name="default" if runs else entry.key,
        layers=runs,
        format=number_format,
        origins={"format": origin_of(entry)},
    )


def _layers(context: Context, entry: Entry) -> tuple[tuple[int, int], ...] | None:
    """The runs of `layers[0..2, 5]`; none for a module, a component or a part."""
    match = _LAYERS.fullmatch(entry.key)
    if match is None:
        if entry.key.isidentifier() and entry.key != "layers":
            return ()
        hint = "write a module, a component, a part, or `layers[0..2]`"
        context.tell(UnknownModule(entry.name.span, entry.key, "", None, hint))
        return None
    runs = []
    for text in match[1].split(", "):
        first, _, last = text.partition("..")
        runs.append((int(first), int(last or first)))
    for first, last in runs:
        if first > last:
            way = f"write `layers[{last}..{first}]`"
            context.tell(BadSelection(entry.name.span, f"{first}..{last} runs backwards", way))
            return None
    return tuple(runs)


def lines_known(context: Context, recipe: Recipe, parts: Iterable[str], layers: int) -> bool:
    """Whether every line of a recipe means something in a model with these parts and layers."""
    known = {*MODULES, *COMPONENTS, "default", *parts}
    sound = True
    for line in recipe.lines:
        if line.at is None:
            continue
        if line.name not in known:
            near = like(line.name, known)
            hint = f"modules: {listed(MODULES)}; components: {listed(COMPONENTS)}"
            where = ": the model has no such part"
            context.tell(UnknownModule(line.at, line.name, where, near, None if near else hint))
            sound = False
        for _, last in line.layers:
            if last >= layers:
                reason = (
                    f"the model has {counted(layers, 'layers')}, and none has the number {last:,}"
                )
                way = f"they are counted from 0: the last is {layers - 1:,}"
                context.tell(BadSelection(line.at, reason, way))
                sound = False
    return sound


def build_format(context: Context, raw: Raw, owner: str) -> Format | None:
    """A format says its bits, or, as a codec, what it encodes and how well."""
    built = finished(Format, gathered(context, Format, raw, owner))
    if built is None or context.lenient:
        return built
    if built.of is None and built.ratio is None:
        if built.bits is not None:
            return built
        reason, way = "does not say `bits`", "write `bits = 8 bit`"
    elif built.of is None or built.ratio is None:
        have, lack = ("of", "ratio") if built.ratio is None else ("ratio", "of")
        example = "ratio = 1.4" if lack == "ratio" else "of = formats.bf16"
        reason, way = f"says `{have}` without `{lack}`", f"a codec has both: write `{example}`"
    elif built.bits is not None:
        reason = "says `bits` and `of`"
        way = "a codec's size is that of its `of` over `ratio`: leave `bits` out"
    else:
        return built
    context.tell(IncompleteFormat(raw.at, owner, reason, way))
    return None
