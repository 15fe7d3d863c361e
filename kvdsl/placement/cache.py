"""The cache as a list of parts: what each layer keeps of a token, and how it can be cut.

Comes in: the typed model and the recipe of its cache. Goes out: parts with their layers, their
components (heads, width, format), how they grow, and the dimension that a layout may split. Plain
GQA and MLA are lists of one part. Not its job: bytes (costs).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from kvdsl.spec.formats import Format, Recipe
from kvdsl.spec.model import Gqa, Mla, Model, Softmax


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
    """`growth` is `token` (one record each), `window` (at most `limit` tokens) or `request`
    (`limit` records once a request)."""

    name: str
    form: str
    components: tuple[Component, ...]
    first: int
    layers: int
    growth: str = "token"
    limit: int = 0

    def tokens(self, length: int) -> int:
        """Records that a request of so many tokens keeps in one layer."""
        if self.growth == "request":
            return self.limit
        return min(length, self.limit) if self.growth == "window" else length


def cache_parts(model: Model, recipe: Recipe) -> tuple[CachePart, ...]:
    """The parts in the order of the stack; a format that changes in the middle of a run of equal
    layers cuts the run."""
    found: list[CachePart] = []
    first = 0
    for count, layer in model.sequence():
        edges = [first, *(c for c in recipe.layer_cuts if first < c < first + count), first + count]
        for start, end in pairwise(edges):
            for name in layer.parts:
                part = model.parts[name]
                if isinstance(part, Gqa | Mla):
                    found.extend(_parts(name, part, recipe, start, end - start))
        first += count
    return tuple(_joined(found))


def _parts(
    name: str, part: Gqa | Mla, recipe: Recipe, first: int, layers: int
) -> Iterator[CachePart]:
    def component(word: str, heads: int, width: int, dimension: str) -> Component:
        form = recipe.format_of(word, name, first)
        if form is None:
            raise KeyError(word)
        return Component(word, heads, width, form, dimension)

    if isinstance(part, Gqa):
        kept = [component("key", part.kv_heads, part.head_dim, "kv_heads")]
        if part.value != "same":
            kept.append(component("value", part.kv_heads, part.value_width, "kv_heads"))
    else:
        kept = [component("latent", 1, part.kv_rank, "latent")]
        if part.rope_dim:
            kept.append(component("rope_key", 1, part.rope_dim, "rope_key"))
    growth, limit = _growth(part)
    yield CachePart(name, part.form, tuple(kept), first, layers, growth, limit)
    if part.indexer is not None and part.indexer != "shared":
        index = component("index_key", 1, part.indexer.key_dim, "index_key")
        yield CachePart(f"{name} index", "indexer", (index,), first, layers)


def _growth(part: Softmax) -> tuple[str, int]:
    if part.cross is not None:
        return "request", part.cross
    limit = part.window or part.chunk
    return ("window", limit) if limit is not None else ("token", 0)


def _joined(parts: list[CachePart]) -> Iterator[CachePart]:
    """Neighbouring runs of the same part, as one: dense and sparse layers share their attention."""
    waiting: dict[str, CachePart] = {}
    for part in parts:
        held = waiting.get(part.name)
        same = held is not None and held.components == part.components
        if held is not None and same and held.first + held.layers == part.first:
            waiting[part.name] = CachePart(
                held.name, held.form, held.components, held.first, held.layers + part.layers,
                held.growth, held.limit,
            )  # fmt: skip
            continue
        if held is not None:
            yield held
        waiting[part.name] = part
    yield from waiting.values()
