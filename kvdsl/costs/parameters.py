"""Parameters of a model, module by module, down to the shapes that they are counted from.

Comes in: a model. Goes out: terms under the names that a model answers. Not its job: what a plan
needs of them (weights), which counts without a derivation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kvdsl.costs.mixers import MIXERS, Mixer, layer_parameters
from kvdsl.costs.origins import of_model
from kvdsl.formulas import Term, formula, total
from kvdsl.placement.tensor import Tensor
from kvdsl.spec.model import Model
from kvdsl.units import NONE


@formula("rows x columns x matrices a layer x layers", NONE)
def matrix_parameters(rows: int, columns: int, matrices: int, layers: int) -> int:
    return rows * columns * matrices * layers


@formula("parameters of one x layers", NONE)
def mixer_parameters(one: int, layers: int) -> int:
    return one * layers


def parameter_terms(model: Model, logical: Sequence[Tensor]) -> dict[str, Term]:
    """`parameters` and `parameters.MODULE`, each with the matrices that it sums."""
    groups: dict[str, list[Tensor]] = {}
    for tensor in logical:
        if tensor.module != "tower":
            groups.setdefault(tensor.counted_in, []).append(tensor)
    modules = {
        group: total(group.replace("_", " "), list(_terms(model, group, found)))
        for group, found in groups.items()
    }
    return {
        **{f"parameters.{group}": term for group, term in modules.items()},
        "parameters": total("parameters of the model", list(modules.values())),
    }


def draft_term(model: Model, drafts: Sequence[Tensor]) -> Term:
    """`parameters.mtp`: those of the draft layers, which `parameters` does not count."""
    return total("parameters of the draft layers", list(_terms(model, "mtp", drafts)))


def _terms(model: Model, group: str, found: Iterable[Tensor]) -> Iterator[Term]:
    """A term for each matrix of a part, its layers together; one for a mixer that has a formula."""
    alike: dict[tuple[str, str, int, int, int], list[Tensor]] = {}
    for tensor in found:
        key = (tensor.part, tensor.name, tensor.rows, tensor.columns, tensor.count)
        alike.setdefault(key, []).append(tensor)
    told: set[str] = set()
    for (name, what, *_), tensors in alike.items():
        part = model.parts.get(name)
        layers = sum(tensor.layers for tensor in tensors)
        if group == "state_mixer" and isinstance(part, MIXERS) and what != "extra":
            if name not in told:
                told.add(name)
                yield _mixer(model, part, layers)
            continue
        yield _matrix(model, tensors[0], layers)


def _mixer(model: Model, part: Mixer, layers: int) -> Term:
    return mixer_parameters.derive(
        f"{part.name} in all its layers",
        one=layer_parameters(model, part),
        layers=of_model(model, f"layers with {part.name}", layers),
    )


def _matrix(model: Model, tensor: Tensor, layers: int) -> Term:
    word = tensor.name.replace("_", " ")
    return matrix_parameters.derive(
        f"{word} of {tensor.part}" if tensor.part else word,
        rows=of_model(model, "rows", tensor.rows),
        columns=of_model(model, "columns", tensor.columns),
        matrices=of_model(model, "matrices a layer", tensor.count),
        layers=of_model(model, "layers", layers),
    )
