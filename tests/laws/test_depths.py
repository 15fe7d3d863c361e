"""Layers that are alike are one, whatever stands between them; nothing is lost by it."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kvdsl.placement.cache import cache_parts
from kvdsl.placement.depths import Depths, joined
from kvdsl.placement.tensors import tensors
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.formats import Recipe
from kvdsl.spec.model import Model

LAYERS = st.sets(st.integers(0, 40))
MODEL = """\
kvspec 1
model m {{
  hidden = 64
  vocab  = 128
  attention a = gqa {{ query_heads = 4; kv_heads = 2; head_dim = 16 }}
  attention b = gqa {{ query_heads = 4; kv_heads = 2; head_dim = 16; window = 32 tok }}
  ffn f = gated {{ intermediate = 256 }}
  stack {{
    {stack}
  }}
}}
recipe r {{ default = formats.bf16; layers[1..2] = formats.fp8 }}
"""


def depths(layers: set[int]) -> Depths:
    return Depths.of((layer, 1) for layer in sorted(layers))


def listed(found: Depths) -> list[int]:
    return [layer for first, count in found.runs for layer in range(first, first + count)]


def read(stack: str) -> tuple[Model, Recipe]:
    resolver = Resolver(load_text(MODEL.format(stack=stack)))
    model, _ = resolver.declaration("m")
    recipe, _ = resolver.declaration("r")
    assert isinstance(model, Model)
    assert isinstance(recipe, Recipe)
    return model, recipe


@given(LAYERS, st.integers(0, 40), st.integers(0, 20))
def test_within_keeps_those_layers_and_no_other(layers: set[int], first: int, count: int) -> None:
    inside = depths(layers).within(first, count)
    assert listed(inside) == sorted(layers & set(range(first, first + count)))
    assert inside.count == len(listed(inside))


@given(LAYERS, st.lists(st.integers(0, 45)))
def test_cut_loses_no_layer_and_keeps_each_between_its_edges(
    layers: set[int], edges: list[int]
) -> None:
    pieces = [listed(piece) for piece in depths(layers).cut(sorted(edges))]
    assert [layer for piece in pieces for layer in piece] == sorted(layers)
    assert all(not any(piece[0] < edge <= piece[-1] for edge in edges) for piece in pieces)


@given(LAYERS, LAYERS)
def test_joined_has_the_layers_of_both(one: set[int], other: set[int]) -> None:
    both = joined(depths(one), depths(other - one))
    assert listed(both) == sorted(one | other)
    assert all(sum(left) < right[0] for left, right in zip(both.runs, both.runs[1:], strict=False))


def test_a_pattern_is_as_many_parts_as_it_has_kinds_of_layer() -> None:
    few, recipe = read("2 x pattern { 3 x layer { a; f }; layer { b; f } }")
    many, _ = read("200 x pattern { 3 x layer { a; f }; layer { b; f } }")
    assert len(tensors(few)) == len(tensors(many))
    assert len(cache_parts(few, recipe)) == len(cache_parts(many, recipe)) == 3
    held = {(part.name, part.components[0].format.title): part for part in cache_parts(few, recipe)}
    assert listed(held["a", "formats.fp8"].depths) == [1, 2]
    assert listed(held["a", "formats.bf16"].depths) == [0, 4, 5, 6]
    assert listed(held["b", "formats.bf16"].depths) == [3, 7]


def test_a_layer_may_have_a_part_twice() -> None:
    once, recipe = read("8 x layer { a; f }")
    twice, _ = read("8 x layer { a; a; f; f }")
    assert sum(part.layers for part in cache_parts(twice, recipe)) == 16
    own = {"attention", "ffn", "norms"}

    def count(model: Model) -> int:
        found = (t for t in tensors(model) if t.module in own and t.place == "layer")
        return sum((Fraction(t.in_all) for t in found), Fraction(0)).numerator

    assert count(twice) == 2 * count(once)
