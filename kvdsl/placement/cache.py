"""The cache as a list of parts: what each layer keeps of a token or request, and how it is cut.

Comes in: the typed model and the recipe of its cache. Goes out: parts with their layers, their
components (heads, width, format), how they grow, and the dimension that a layout may split. Plain
GQA and MLA are lists of one part. Not its job: bytes (costs).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from kvdsl.placement.depths import Depths, joined, kinds_of_layer
from kvdsl.recall import Recall
from kvdsl.spec.formats import Format, Recipe
from kvdsl.spec.model import (
    AnyPart,
    GatedDelta,
    Gqa,
    Indexer,
    Kda,
    Lightning,
    Mamba1,
    Mamba2,
    Mla,
    Model,
    ShortConv,
    Softmax,
)

STATE_FORMAT = Format(name="fp32", catalog="formats.fp32", bits=4)
"""language.md, recipe: `state` is fp32 unless it is named."""


@dataclass(frozen=True, slots=True)
class Component:
    """`heads` vectors of `width` values for each token; `atoms` says what a TP axis can split:
    KV heads, or the latent as one atom."""

    name: str
    heads: int
    width: int
    format: Format
    dimension: str

    @property
    def values(self) -> int:
        return self.heads * self.width


@dataclass(frozen=True, slots=True)
class CachePart:
    """`growth` is `token` (one record for `every` tokens), `window` (at most `limit` tokens) or
    `request` (`limit` records once a request)."""

    name: str
    form: str
    components: tuple[Component, ...]
    depths: Depths
    growth: str = "token"
    limit: int = 0
    every: int = 1
    keep: Fraction = Fraction(1)
    """Of the tokens, those that are not evicted."""
    draft: bool = False
    """Of draft layers: kept by the last stage."""
    selected: int = 0
    """Of the entries, those that an indexer selects for a query; 0: it meets them all."""

    @property
    def layers(self) -> int:
        return self.depths.count

    def tokens(self, length: int) -> int:
        """Records that a request of so many tokens keeps in one layer."""
        if self.growth == "request":
            return self.limit
        length = ceil(length * self.keep) if self.keep < 1 else length
        return min(length, self.limit) if self.growth == "window" else length // self.every

    @property
    def even(self) -> bool:
        """Whether each token costs as much as any other, at every length."""
        return self.growth == "token" and self.every == 1 and self.keep == 1

    @property
    def state(self) -> bool:
        """A state of fixed size, no keys and values."""
        return any(c.name in ("state", "conv_state") for c in self.components)


@dataclass(frozen=True, slots=True)
class Keeping:
    """What an engine keeps otherwise than the model's definition has it: keys of layers that share
    an indexer's choice, and columns of a convolution less than its kernel has."""

    index_everywhere: bool = False
    conv_less: int = 0


AS_DEFINED = Keeping()


def cache_parts(
    model: Model, recipe: Recipe, keeping: Keeping = AS_DEFINED
) -> tuple[CachePart, ...]:
    """The parts in the order of the stack; one whose format changes on the way is several."""
    return _PARTS.get((model, recipe), (keeping,), lambda: _cache_parts(model, recipe, keeping))


_PARTS: Recall[tuple[CachePart, ...]] = Recall(64)


def _cache_parts(model: Model, recipe: Recipe, keeping: Keeping) -> tuple[CachePart, ...]:
    chosen = _shared_indexer(model)
    found: dict[tuple[str, int], list[CachePart]] = {}
    for layer, depths in kinds_of_layer(model):
        for piece in depths.cut(recipe.layer_cuts):
            for at, name in enumerate(layer.parts):
                before = layer.parts[:at].count(name)  # a layer may have a part twice
                place = _Place(name, recipe, piece, chosen, keeping)
                for part in _parts(place, model.parts[name]):
                    _join(found.setdefault((part.name, before), []), part)
    return tuple(part for alike in found.values() for part in alike)


def draft_parts(
    model: Model, recipe: Recipe, layers: int | None, keeping: Keeping = AS_DEFINED
) -> tuple[CachePart, ...]:
    """What the model's own draft layers keep; `layers` says how many of them are used."""
    found: dict[str, list[CachePart]] = {}
    chosen = _shared_indexer(model)
    left = layers if layers is not None else sum(count for count, _ in model.drafts())
    for count, layer in model.drafts():
        used = min(count, left)
        left -= used
        for name in layer.parts if used else ():
            depths = Depths.of([(model.layers, used)])
            place = _Place(name, recipe, depths, chosen, keeping)
            for part in _parts(place, model.parts[name]):
                own = replace(part, name=f"draft {part.name}", draft=True)
                _join(found.setdefault(own.name, []), own)
    return tuple(part for alike in found.values() for part in alike)


def _shared_indexer(model: Model) -> Indexer | None:
    """The indexer whose choice others share."""
    owners = (p.indexer for p in model.parts.values() if isinstance(p, Gqa | Mla))
    return next((i for i in owners if isinstance(i, Indexer)), None)


def _parts(place: _Place, part: AnyPart) -> Iterator[CachePart]:
    match part:
        case Gqa() | Mla():
            yield from _softmax(place, part)
        case GatedDelta() | Kda() | Lightning() | Mamba1() | Mamba2() | ShortConv():
            kept = tuple(_state(place, part))
            yield replace(place.part(place.name, part.form, kept), growth="request", limit=1)
        case _:
            return


@dataclass(frozen=True, slots=True)
class _Place:
    """A part in equal layers, with the recipe that formats what it keeps."""

    name: str
    recipe: Recipe
    depths: Depths
    chosen: Indexer | None = None
    """The indexer of layers that have none of their own and share its choice."""
    keeping: Keeping = AS_DEFINED

    def component(self, word: str, heads: int, width: int, dimension: str) -> Component:
        form = self._named(word) if word == "state" else None
        if form is None:
            form = self.recipe.format_of(word, self.name, self.depths.first)
        if form is None:
            raise KeyError(word)
        return Component(word, heads, width, form, dimension)

    def _named(self, word: str) -> Format:
        """A state has the format of a line that names it or its part, else fp32."""
        for wanted in (self.name, word):
            for line in self.recipe.lines:
                if line.name == wanted and not line.layers:
                    return line.format
        return STATE_FORMAT

    def part(self, name: str, form: str, kept: tuple[Component, ...]) -> CachePart:
        return CachePart(name, form, kept, self.depths)


def _softmax(place: _Place, part: Gqa | Mla) -> Iterator[CachePart]:
    if isinstance(part, Gqa):
        kept = [place.component("key", part.kv_heads, part.head_dim, "kv_heads")]
        if part.value != "same":
            kept.append(place.component("value", part.kv_heads, part.value_width, "kv_heads"))
    else:
        kept = [place.component("latent", 1, part.kv_rank, "latent")]
        if part.rope_dim:
            kept.append(place.component("rope_key", 1, part.rope_dim, "rope_key"))
    growth, limit = _growth(part)
    indexer = place.chosen if part.indexer == "shared" else part.indexer
    top = indexer.top if isinstance(indexer, Indexer) else 0
    own = place.part(place.name, part.form, tuple(kept))
    yield replace(own, growth=growth, limit=limit, selected=top if growth == "token" else 0)
    every = 1
    if part.compress is not None:
        every = part.compress.every
        entry = place.component("compressed", 1, part.compress.width, "latent")
        made = place.part(f"{place.name} compressed", "compressed", (entry,))
        yield replace(made, every=every, selected=top)
    kept_here = part.indexer != "shared" or place.keeping.index_everywhere
    if isinstance(indexer, Indexer) and kept_here:
        index = place.component("index_key", 1, indexer.key_dim, "index_key")
        yield replace(place.part(f"{place.name} index", "indexer", (index,)), every=every)


def _growth(part: Softmax) -> tuple[str, int]:
    if part.cross is not None:
        return "request", part.cross
    limit = part.window or part.chunk
    return ("window", limit) if limit is not None else ("token", 0)


def _state(
    place: _Place, part: GatedDelta | Kda | Lightning | Mamba1 | Mamba2 | ShortConv
) -> Iterator[Component]:
    """A convolution keeps as many columns as its kernel has, of each channel that it mixes."""
    channels, heads, width = 0, 0, 0
    match part:
        case GatedDelta():
            channels = 2 * part.key_heads * part.key_dim + part.value_heads * part.value_dim
            heads, width = part.value_heads, part.key_dim * part.value_dim
        case Kda():
            channels = 3 * part.heads * part.head_dim
            heads, width = part.heads, part.head_dim * part.head_dim
        case Lightning():
            heads, width = part.heads, part.head_dim * part.head_dim
        case Mamba1():
            channels, heads, width = part.inner, part.inner, part.state
        case Mamba2():
            channels = part.heads * part.head_dim + 2 * part.groups * part.state
            heads, width = part.heads, part.head_dim * part.state
        case ShortConv():
            channels = part.width
    if not isinstance(part, Lightning):
        columns = max(1, part.conv - place.keeping.conv_less)
        yield place.component("conv_state", channels, columns, "channels")
    if heads:
        yield place.component("state", heads, width, "state_heads")


def _join(known: list[CachePart], part: CachePart) -> None:
    """Equal parts of several layers are one: dense and sparse layers share their attention."""
    for index, one in enumerate(known):
        if replace(part, depths=one.depths) == one:
            known[index] = replace(one, depths=joined(one.depths, part.depths))
            return
    known.append(part)
