"""Values of a model alone, in bf16: parameters by module, cache and state."""

from __future__ import annotations

from kvdsl import units
from kvdsl.costs import cache, parameters, weights
from kvdsl.costs.origins import fixed
from kvdsl.formulas import Term
from kvdsl.placement.cache import CachePart, cache_parts
from kvdsl.placement.tensors import draft_tensors, tensors
from kvdsl.planning.subjects import DEFAULT_ACTIVATIONS
from kvdsl.spec.formats import Recipe, RecipeLine
from kvdsl.spec.model import Model
from kvdsl.units import BYTES_PER_TOKEN

DEFAULT_LENGTH = 4096
"""Tokens of a request where a model is asked without a workload and no length is given."""


def model_values(model: Model, length: int | None = None) -> dict[str, Term]:
    """`parameters` in all and by module, `active_parameters`, `kv` and `state` values."""
    logical = tensors(model)
    active = weights.parameter_terms(model, logical)["model.active_parameters"]
    found = {**parameters.parameter_terms(model, logical), "active_parameters": active}
    drafts = draft_tensors(model)
    if drafts:
        found["parameters.mtp"] = parameters.draft_term(model, drafts)
    recipe = Recipe(lines=(RecipeLine(format=DEFAULT_ACTIVATIONS),))
    tokens = length if length is not None else DEFAULT_LENGTH
    note = "the length asked" if length is not None else "a length where none is asked"
    asked = fixed("length of a request", tokens, note, units.TOKENS)
    parts = cache_parts(model, recipe)
    growing = [part for part in parts if part.growth != "request"]
    endless = [part for part in growing if part.even]
    kept = [part for part in parts if not part.state]
    states = [part for part in parts if part.state]
    for name, chosen in (
        ("kv.bytes_per_token", growing),
        ("kv.bytes_per_token_unbounded", endless),
    ):
        terms = [cache.part_terms(model, part) for part in chosen]
        found[name] = cache.summed(model, f"{name} in bf16", terms, BYTES_PER_TOKEN)

    def of_request(part: CachePart) -> Term:
        return cache.request_term(model, part, tokens, asked)

    for name, chosen, said in (
        ("kv.bytes_per_request", kept, "in bf16"),
        ("state.bytes_per_request", states, "states in fp32, convolutions in bf16"),
    ):
        terms = [of_request(part) for part in chosen]
        found[name] = cache.summed(model, f"{name}, {said}", terms)
    return found
