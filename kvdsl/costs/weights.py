"""Weights: parameters by module, and the bytes of each on a rank.

Comes in: a placement. Goes out: terms, exact. Bytes count values, scales and zero points as a
format stores them; a block that a matrix fills in part counts whole.
"""

from __future__ import annotations

from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import over
from kvdsl.costs.origins import of_layout, of_model
from kvdsl.formulas import Term, deferred, formula, total
from kvdsl.placement.depths import Depths
from kvdsl.placement.placement import Placement, Stage
from kvdsl.placement.shares import Shard, redundancy
from kvdsl.placement.subject import Subject
from kvdsl.placement.tensor import Tensor
from kvdsl.placement.tensors import met
from kvdsl.recall import Recall
from kvdsl.spec.formats import Format
from kvdsl.spec.model import Model
from kvdsl.units import tidy

Exact = int | Fraction


def stored(form: Format, rows: int, columns: int) -> Exact:
    """Bytes of one matrix: rows x columns values, and a scale and zero point for each block."""
    return _STORED.get((form,), (rows, columns), lambda: _stored(form, rows, columns))


_STORED: Recall[Exact] = Recall(4096)


def _stored(form: Format, rows: int, columns: int) -> Exact:
    if form.of is not None:
        return Fraction(stored(form.of, rows, columns)) / (form.ratio or 1)
    values = (form.bits or 0) * rows * columns
    each = (form.scale or 0) + (form.zero or 0)
    if not each:
        return values
    if form.block is None:
        return values + each
    if len(form.block) == 1:
        return values + each * rows * _up(columns, form.block[0])
    return values + each * _up(rows, form.block[0]) * _up(columns, form.block[1])


def _up(value: int, step: int) -> int:
    return -(-value // step)


@formula(
    "bytes stored in the stage x part that each rank holds",
    units.BYTES,
    "Shoeybi et al., Megatron-LM, arXiv 1909.08053",
)
def bytes_on_rank(stored_bytes: Exact, held: Exact) -> Exact:
    return stored_bytes * held


@formula("parameters x bytes a parameter", units.BYTES)
def plain_bytes(parameters: int, bytes_each: Exact) -> Exact:
    return parameters * bytes_each


@formula("parameters x bytes a parameter + bytes of scales and zero points", units.BYTES)
def scaled_bytes(parameters: int, bytes_each: Exact, scales: Exact) -> Exact:
    return parameters * bytes_each + scales


def format_of(subject: Subject, tensor: Tensor) -> Format:
    """The format of a tensor: the narrowest line of the recipe, or that of an engine's copy."""
    if tensor.stored_as is not None:
        return tensor.stored_as
    tower = subject.model.towers.get(tensor.part)
    if tensor.module == "tower" and tower is not None and tower.format is not None:
        found = tower.format.format_of("tower")
    else:
        module, part = ("mtp", "") if tensor.draft else (_named(tensor), tensor.part)
        found = subject.weights.format_of(module, part, None)
    if found is None:
        raise KeyError(tensor.module)
    return found


def _named(tensor: Tensor) -> str:
    """The module whose line of a recipe says the format: a head that is tied is the embedding."""
    return "embedding" if tensor.name == "tokens" else tensor.module


def tensor_bytes(
    subject: Subject, tensor: Tensor, depths: Depths, form: Format | None = None
) -> Exact:
    """Bytes of a tensor in some of its layers; a recipe's line for layers is looked up once for
    those between two of its edges. `form` is its format where that is known."""
    form = form or format_of(subject, tensor)
    count = tensor.count * redundancy(tensor, subject.degrees)
    recipe = subject.weights
    layered = tensor.place == "layer" and tensor.stored_as is None
    cuts = recipe.layer_cuts if layered else ()
    if not cuts:
        return tidy(stored(form, tensor.rows, tensor.columns)) * count * depths.count
    found: Exact = 0
    for piece in depths.cut(cuts):
        own = recipe.format_of(tensor.module, tensor.part, piece.first)
        each = stored(own or form, tensor.rows, tensor.columns)
        found += each * count * piece.count
    return found


@formula("bytes of attention weights / bytes a token", units.TOKENS, "what a step reads of either")
def break_even(attention: Exact, token: Exact) -> Exact:
    return over(attention, token)


def attention_bytes(placement: Placement) -> Exact:
    """Bytes of all attention weights, one copy."""
    found: Exact = 0
    for stage in placement.stages:
        for shard in stage.shards:
            if shard.tensor.module == "attention":
                found += tensor_bytes(placement.subject, shard.tensor, shard.depths)
    return found


def break_even_terms(placement: Placement, token: Term) -> dict[str, Term]:
    """`kv.break_even`, where tokens are cached at all."""
    if not token.value:
        return {}
    model = placement.subject.model
    size = of_model(model, "bytes of attention weights, one copy", attention_bytes(placement),
                    units.BYTES)  # fmt: skip
    return {
        "kv.break_even": break_even.derive(
            "cached tokens that weigh as much as attention", attention=size, token=token
        )
    }


def module_terms(placement: Placement, stage: Stage) -> dict[str, Term]:
    """For each module, the bytes on a rank of the stage. Draft layers are one module."""
    return _terms(placement, stage.shards)


def read_terms(placement: Placement, stage: Stage) -> dict[str, Term]:
    """For each module, the bytes on a rank that a pass may read: those stored there, with a table
    that is also the head counted once, as the head."""
    own = [s for s in stage.shards if not (stage.read and s.tensor.name == "tokens")]
    return _terms(placement, (*own, *stage.read))


def _terms(placement: Placement, shards: tuple[Shard, ...]) -> dict[str, Term]:
    subject = placement.subject
    groups: dict[str, _Shares] = {}
    for shard in shards:
        tensor = shard.tensor
        form = format_of(subject, tensor)
        key = (shard.parts, form.title, tensor.made)
        module = "mtp" if tensor.draft else tensor.module
        size = tensor_bytes(subject, tensor, shard.depths, form)
        groups.setdefault(module, {}).setdefault(key, []).append((shard, size))
    return {module: _module(subject, module, shares) for module, shares in groups.items()}


_Shares = dict[tuple[int, str, str], list[tuple[Shard, Exact]]]
"""Shards with their bytes, by the pieces that they are in, their format and who makes them."""


def _module(subject: Subject, module: str, shares: _Shares) -> Term:
    """Its value is added up at once; what it is made of is derived when asked."""
    plain = module.replace("_", " ")
    value: Exact = 0
    parts: list[tuple[str, str, Exact, list[Shard]]] = []
    for (pieces, title, made), sized in shares.items():
        word = f"{made} of {plain}" if made else plain
        size = sum([each for _, each in sized])
        value += Fraction(size) / pieces
        parts.append((word, title, size, [shard for shard, _ in sized]))
    label = f"{parts[0][0] if len(parts) == 1 else plain} on a rank"
    return deferred(
        label, tidy(value), units.BYTES, lambda: _module_derived(subject, plain, parts), ()
    )


def _module_derived(
    subject: Subject, plain: str, parts: list[tuple[str, str, Exact, list[Shard]]]
) -> Term:
    terms = []
    for word, title, size, shards in parts:
        numbers = sum(_count(subject, s) for s in shards)
        pieces = shards[0].parts
        store = _stored_term(subject, word, title, numbers, size, shards[0])
        ways = "copied whole" if pieces == 1 else f"1/{pieces}"
        held = shards[0].held
        part = of_layout(subject, "held by each rank", held, f"{ways}, cut over {shards[0].mesh}")
        terms.append(bytes_on_rank.derive(f"{word} on a rank", stored_bytes=store, held=part))
    return terms[0] if len(terms) == 1 else total(f"{plain} on a rank", terms)


def _count(subject: Subject, shard: Shard) -> int:
    copies = redundancy(shard.tensor, subject.degrees)
    return int(shard.tensor.parameters * copies * shard.layers)


def _stored_term(
    subject: Subject, word: str, title: str, numbers: int, size: Exact, shard: Shard
) -> Term:
    form = format_of(subject, shard.tensor)
    parameters = Term(
        f"parameters of {word}",
        numbers,
        basis="catalog" if subject.model.catalog else "spec",
        span=subject.model.at,
        source=subject.model.source,
        note=f"counted from {subject.model.title}",
    )
    bits = form.bits if form.bits is not None else Fraction(size, numbers)
    each = Term(
        "bytes a parameter",
        bits,
        units.BYTES,
        basis="default" if form.at is None else "catalog" if form.catalog else "spec",
        span=form.at,
        source=form.source,
        note=title if form.at is not None else f"{title}, where nothing names activations",
    )
    scales = size - numbers * bits
    if not scales:
        return plain_bytes.derive(f"{word} in the stage", parameters=parameters, bytes_each=each)
    more = Term(
        "bytes of scales", scales, units.BYTES, span=form.at, source=form.source, note=title
    )
    return scaled_bytes.derive(
        f"{word} in the stage", parameters=parameters, bytes_each=each, scales=more
    )


# --- a model alone -----------------------------------------------------------------------------


def parameter_terms(model: Model, logical: tuple[Tensor, ...]) -> dict[str, Term]:
    """`model.parameters`, `.active_parameters` and each module's count."""
    modules: dict[str, int] = {}
    for tensor in logical:
        if tensor.module != "tower":
            group = tensor.counted_in
            modules[group] = modules.get(group, 0) + tensor.in_all
    basis = "catalog" if model.catalog else "spec"
    terms = {
        module: Term(
            module.replace("_", " "),
            count,
            basis=basis,
            span=model.at,
            source=model.source,
            note=f"counted from {model.title}",
        )
        for module, count in modules.items()
    }
    everything = list(terms.values())
    found = {f"model.parameters.{module}": term for module, term in terms.items()}
    found["model.parameters"] = total("parameters of the model", everything)
    found["model.active_parameters"] = Term(
        "parameters that a token meets",
        met(model, logical),
        basis=basis,
        span=model.at,
        source=model.source,
        note=f"counted from {model.title}: routed experts by the share that a token visits; an "
        "embedding row is looked up, not met",
    )
    return found
