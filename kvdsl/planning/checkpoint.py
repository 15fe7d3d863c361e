"""A model beside its checkpoint: what headers declare against what the declaration counts.

Comes in: a model, the recipe of its weights, and the tensors that a checkpoint declares. Goes out:
a line a module that differs, in parameters and in bytes. Not its job: reading headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from kvdsl.costs.weights import stored
from kvdsl.importers.tensor_names import Named, named
from kvdsl.placement.tensor import Tensor
from kvdsl.placement.tensors import draft_tensors, tensors
from kvdsl.planning.subjects import DEFAULT_ACTIVATIONS
from kvdsl.project.loader import load_text
from kvdsl.project.safetensors import Checkpoint, Declared, checkpoint
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.formats import Format, Recipe, RecipeLine
from kvdsl.spec.model import (
    GatedDelta,
    Kda,
    Mamba1,
    Mamba2,
    Model,
    SharedCache,
    ShortConv,
    Softmax,
)

PACKED_BITS = 4
"""Of packed values, where no line of the recipe says."""
STATES = (GatedDelta, Kda, Mamba1, Mamba2, ShortConv)
MOST_NAMED = 4


@dataclass(slots=True)
class Sums:
    """By module: values and bytes, those of scales included."""

    values: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, Fraction] = field(default_factory=dict)

    def add(self, module: str, values: int, size: int | Fraction) -> None:
        self.values[module] = self.values.get(module, 0) + values
        self.bytes[module] = self.bytes.get(module, Fraction(0)) + size


@dataclass(frozen=True, slots=True)
class Compared:
    """`mismatches` are of parameters, and mean that the declaration is not this checkpoint's;
    `notes` tell what else differs."""

    mismatches: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def beside(text: str, name: str, folder: Path) -> Compared | None:
    """An imported declaration beside the checkpoint in a folder; None where there is none."""
    found = checkpoint(folder)
    if found is None:
        return None
    if found.faults:
        return Compared(found.faults)
    resolver = Resolver(load_text(text, "<import>"))
    model, _ = resolver.declaration(name)
    recipe = Recipe(lines=(RecipeLine(format=DEFAULT_ACTIVATIONS),))
    if f"{name}_weights" in resolver.declared("recipe"):
        own, _ = resolver.declaration(f"{name}_weights")
        recipe = own if isinstance(own, Recipe) else recipe
    return compared(model, recipe, found) if isinstance(model, Model) else None


def compared(model: Model, recipe: Recipe, found: Checkpoint) -> Compared:
    counted = _counted(model, recipe)
    if found.missing or not found.tensors:
        return _by_index(model, counted, found, recipe)
    declared, unknown = _declared(model, recipe, found.tensors)
    notes = []
    copies = declared.values.pop("draft copy", 0)
    declared.bytes.pop("draft copy", None)
    if copies:
        notes.append(f"{copies:,} parameters of the draft layers are copies of embedding and head")
    towers = declared.values.pop("tower", 0)
    declared.bytes.pop("tower", None)
    if towers:
        notes.append(f"{towers:,} parameters belong to towers, which are counted apart")
    head = declared.values.get("head", 0)
    if model.tied_embeddings and head and head == model.vocab * model.hidden:
        del declared.values["head"], declared.bytes["head"]
        notes.append(f"the head is stored ({head:,} parameters), though it is the embedding")
    if counted.values.get("mtp") and not declared.values.get("mtp"):
        del counted.values["mtp"], counted.bytes["mtp"]
        notes.append("the checkpoint has no draft layers")
    if unknown:
        shown = ", ".join(f"`{name[:60]}`" for name in unknown[:MOST_NAMED])
        more = f" and {len(unknown) - MOST_NAMED:,} more" if len(unknown) > MOST_NAMED else ""
        notes.append(f"counted as extra, since no rule knows the name: {shown}{more}")
    differ = list(_differing(counted.values, declared.values, "parameters"))
    if sum(counted.values.values()) == sum(declared.values.values()):
        notes += [f"filed elsewhere: {line}" for line in differ]
        differ = []
    notes += [f"bytes: {line}" for line in _differing(counted.bytes, declared.bytes, "B")]
    size = sum((d.bits for d in found.tensors), 0) // 8
    if found.total is not None and found.total != size:
        notes.append(f"the index says {found.total:,} B, the headers have {size:,} B")
    return Compared(tuple(differ), tuple(notes))


def _differing(
    counted: dict[str, int] | dict[str, Fraction],
    declared: dict[str, int] | dict[str, Fraction],
    unit: str,
) -> Iterator[str]:
    for module in dict.fromkeys((*counted, *declared)):
        mine, theirs = counted.get(module, 0), declared.get(module, 0)
        if mine != theirs:
            word = module.replace("_", " ")
            yield (
                f"{word}: {int(theirs):,} {unit} in the checkpoint, {int(mine):,} counted "
                f"({int(theirs - mine):+,})"
            )


def _by_index(model: Model, counted: Sums, found: Checkpoint, recipe: Recipe) -> Compared:
    """Without all headers, only the bytes of all tensors can be compared."""
    notes = []
    if found.missing:
        notes.append(f"{len(found.missing):,} of its files are not here, so shapes are not checked")
    if found.total is None:
        return Compared((), (*notes, "the index says no `total_size`"))
    kinds = [named(name, "", model.layers).module for name in found.names]
    if not any(kind in ("mtp", "draft copy") for kind in kinds):
        counted.bytes.pop("mtp", None)
    else:
        copies = sum(kind == "draft copy" for kind in kinds)
        counted.bytes["draft copy"] = Fraction(2 * model.vocab * model.hidden * copies)
    if any(kind == "tower" for kind in kinds):
        return Compared((), (*notes, "it holds towers, so its bytes are not compared"))
    if model.tied_embeddings and "head" in kinds:
        counted.bytes["head"] = Fraction(2 * model.vocab * model.hidden)
    mine = int(sum(counted.bytes.values(), Fraction(0)))
    if mine == found.total:
        return Compared((), tuple(notes))
    line = f"{found.total:,} B in the index, {mine:,} B counted ({found.total - mine:+,})"
    plain = recipe.uniform is not None
    return Compared((line,), tuple(notes)) if plain else Compared((), (*notes, f"bytes: {line}"))


# --- both sides ----------------------------------------------------------------------------------


def _counted(model: Model, recipe: Recipe) -> Sums:
    sums = Sums()
    for tensor in (*tensors(model), *draft_tensors(model)):
        if tensor.module != "tower":
            sums.add(tensor.counted_in, tensor.in_all, _size(recipe, tensor))
    return sums


def _size(recipe: Recipe, tensor: Tensor) -> int | Fraction:
    own_line = any(line.name == tensor.counted_in for line in recipe.lines)
    module = tensor.counted_in if own_line and tensor.counted_in == "mtp" else tensor.module
    form = recipe.format_of(module, tensor.part)
    if form is None:
        raise KeyError(module)
    each: int | Fraction = 0
    apart = tensor.place != "layer" or tensor.counted_in == "mtp"
    for layer in (first + k for first, count in tensor.depths.runs for k in range(count)):
        place = None if apart else layer
        own = recipe.format_of(module, tensor.part, place) if recipe.layer_cuts else form
        each += stored(own or form, tensor.rows, tensor.columns) * tensor.count
    return each


def _declared(
    model: Model, recipe: Recipe, found: tuple[Declared, ...]
) -> tuple[Sums, tuple[str, ...]]:
    states = _states(model)
    names = {tensor.name for tensor in found}
    sums, unknown = Sums(), []
    for tensor in found:
        what = named(tensor.name, tensor.kind, model.layers)
        if tensor.name.endswith(".scale") and tensor.name[:-5] + "weight" not in names:
            what = replace(what, what="values")  # a parameter of that name
        if what.what == "none":
            continue
        module = what.module
        if module == "attention" and what.layer in states:
            module = "state_mixer"
        if not module:
            unknown.append(tensor.name)
            module = "extra"
        sums.add(module, _values(recipe, tensor, what), Fraction(tensor.bits, 8))
    return sums, tuple(unknown)


def _values(recipe: Recipe, tensor: Declared, what: Named) -> int:
    if what.what == "scales":
        return 0
    if what.what == "values":
        return tensor.values
    form: Format | None = recipe.format_of(what.module) if what.module else None
    bits = form.bits * 8 if form is not None and form.bits is not None else PACKED_BITS
    return int(tensor.bits / (bits if bits < 16 else PACKED_BITS))


def _states(model: Model) -> frozenset[int]:
    """Layers whose mixer keeps a state, and that have no attention beside it."""
    found: set[int] = set()
    first = 0
    for count, layer in model.sequence():
        parts = [model.parts[name] for name in layer.parts]
        softmax = any(isinstance(part, Softmax | SharedCache) for part in parts)
        if not softmax and any(isinstance(part, STATES) for part in parts):
            found.update(range(first, first + count))
        first += count
    return frozenset(found)
