"""Storage: tensors as an engine keeps them, padded and with copies of its own.

Comes in: logical tensors and the engine's policy. Goes out: the tensors that ranks hold. Without an
engine they are the logical ones. Parameters are counted from the logical ones alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.placement.degrees import Degrees
from kvdsl.placement.subject import Subject
from kvdsl.placement.tensor import Tensor
from kvdsl.spec.engine import Engine
from kvdsl.spec.formats import Format
from kvdsl.spec.model import Gqa, Mla


def stored(subject: Subject, tensor: Tensor) -> Tensor:
    """The tensor as its engine pads it."""
    engine = subject.engine
    if engine is None:
        return tensor
    if tensor.cut == "vocabulary" and engine.vocab_pad > 1:
        return _padded_vocabulary(tensor, engine.vocab_pad)
    if tensor.cut == "experts" and _in_runs(_format(subject, tensor)):
        return _padded_expert(tensor, engine, subject.degrees)
    return tensor


def absorbed(subject: Subject, logical: tuple[Tensor, ...]) -> Iterator[Tensor]:
    """The copies of a latent's up-projection that an engine keeps for absorbed attention.

    They are one row to the arithmetic: the product is that of the up-projection itself."""
    engine = subject.engine
    if engine is None or not engine.absorbed_copies:
        return
    for tensor in logical:
        part = subject.model.parts.get(tensor.part)
        if tensor.name != "kv_up" or not isinstance(part, Mla):
            continue
        width = part.nope_dim + (part.value_dim if engine.absorbed_values else 0)
        form = subject.activations if engine.absorbed_as == "activations" else None
        values = part.query_heads * width * part.kv_rank
        yield replace(tensor, name="kv_up absorbed", rows=1, columns=values, stored_as=form,
                      made="absorbed copies")  # fmt: skip


def position_tables(subject: Subject) -> Iterator[Tensor]:
    """The angles that rotary embeddings look up: a row for each position, one table a width."""
    engine, model = subject.engine, subject.model
    if engine is None or not engine.position_table or model.max_context is None:
        return
    parts = [p for p in model.parts.values() if isinstance(p, Gqa | Mla)]
    widths = {p.rope_dim if isinstance(p, Mla) else p.head_dim for p in parts}
    for width in sorted(widths - {0}):
        values = model.max_context * width
        yield Tensor("norms", "", f"positions {width}", 1, values, "copies", 1,
                     place="each", stored_as=subject.activations,
                     made="position table")  # fmt: skip


def padded_rows(rows: int, engine: Engine | None) -> int:
    """Vocabulary rows as an engine stores them."""
    return _up(rows, engine.vocab_pad if engine else 1)


def _padded_vocabulary(tensor: Tensor, step: int) -> Tensor:
    if tensor.rows == tensor.atoms:
        rows = _up(tensor.rows, step)
        return replace(tensor, rows=rows, atoms=rows)
    columns = _up(tensor.columns, step)
    return replace(tensor, columns=columns, atoms=columns)


def _padded_expert(tensor: Tensor, engine: Engine, degrees: Degrees) -> Tensor:
    """Each rank's part of an expert's width fills whole multiples, and so does what it reads."""

    def width(size: int) -> int:
        return degrees.experts.tp * _up(-(-size // degrees.experts.tp), engine.expert_pad)

    def hidden(size: int) -> int:
        return _up(size, engine.expert_hidden_pad)

    match tensor.name:
        case "up":
            return replace(tensor, rows=width(tensor.rows), columns=hidden(tensor.columns))
        case "down":
            return replace(tensor, rows=hidden(tensor.rows), columns=width(tensor.columns))
        case "up_bias":
            return replace(tensor, columns=width(tensor.columns))
        case "down_bias":
            return replace(tensor, columns=hidden(tensor.columns))
        case _:
            return tensor


def _format(subject: Subject, tensor: Tensor) -> Format | None:
    return subject.weights.format_of(tensor.module, tensor.part)


def _in_runs(form: Format | None) -> bool:
    """Whether a scale stands for a run of values in a row: kernels want whole tiles of those."""
    inner = form.of if form is not None and form.of is not None else form
    return inner is not None and inner.block is not None and len(inner.block) == 1


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
