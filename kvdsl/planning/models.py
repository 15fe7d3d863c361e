"""Values of a model alone, in bf16: parameters by module, cache and state."""

from __future__ import annotations

from kvdsl import units
from kvdsl.costs import cache, weights
from kvdsl.costs.origins import fixed, of_model
from kvdsl.formulas import Term, total
from kvdsl.placement.cache import cache_parts
from kvdsl.placement.tensors import tensors
from kvdsl.planning.subjects import DEFAULT_ACTIVATIONS
from kvdsl.spec.formats import Recipe, RecipeLine
from kvdsl.spec.model import Model
from kvdsl.units import BYTES, BYTES_PER_TOKEN

DEFAULT_LENGTH = 4096
"""Tokens of a request where a model is asked without a workload and no length is given."""


def model_values(model: Model, length: int | None = None) -> dict[str, Term]:
    """`parameters` in all and by module, `active_parameters`, `kv` and `state` values. Raises
    Uncounted."""
    logical = tensors(model)
    found = {
        name.removeprefix("model."): term
        for name, term in weights.parameter_terms(model, logical).items()
    }
    recipe = Recipe(lines=(RecipeLine(format=DEFAULT_ACTIVATIONS),))
    parts = cache_parts(model, recipe)
    tokens = length if length is not None else DEFAULT_LENGTH
    each, endless, kept = [], [], []
    for part in parts:
        record = Term(f"bytes a token and layer in {part.name}", cache.record_bytes(part),
                      BYTES_PER_TOKEN, basis="spec", span=model.at, source=model.source,
                      note="counted in bf16")  # fmt: skip
        layers = of_model(model, "layers", part.layers)
        one = cache.bytes_per_token.derive(
            f"bytes a token in {part.name}",
            layers=layers,
            heads=fixed("records", 1, "one a token"),
            bytes_a_head=Term(record.label, record.value, BYTES, inputs=(record,)),
        )  # fmt: skip
        if part.growth != "request":
            each.append(one)
        if part.growth == "token":
            endless.append(one)
        kept.append(
            cache.bytes_per_request.derive(
                f"a request in {part.name}", layers=layers, record=record,
                kept=fixed("tokens kept", part.tokens(tokens), "the length asked", units.TOKENS),
            )
        )  # fmt: skip
    for name, terms, dimension in (
        ("kv.bytes_per_token", each, BYTES_PER_TOKEN),
        ("kv.bytes_per_token_unbounded", endless, BYTES_PER_TOKEN),
        ("kv.bytes_per_request", kept, BYTES),
    ):
        label = f"{name} in bf16"
        found[name] = total(label, terms) if terms else of_model(model, label, 0, dimension)
    found["state.bytes_per_request"] = of_model(model, "state.bytes_per_request", 0, BYTES)
    return found
