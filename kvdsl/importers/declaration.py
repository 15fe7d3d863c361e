"""A model's parts and layers as spec text.

Comes in: pieces of layers, in order. Goes out: text, with equal pieces named once and runs of
layers written as patterns. Not its job: the canonical layout (syntax) or what a key means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_PATTERN = 24
MOST_INLINE = 3


@dataclass(frozen=True, slots=True)
class Length:
    """Tokens: written with their unit."""

    tokens: int


Value = int | bool | str | Length | tuple[str, ...] | tuple[tuple[str, "int | bool | Length"], ...]
Values = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part before it has its name: `hint` is what it would like to be called."""

    sort: str
    hint: str
    form: str
    values: Values


@dataclass(frozen=True, slots=True)
class LayerPieces:
    pieces: tuple[Piece, ...]
    norms: int | None = None
    extra: int = 0


@dataclass(frozen=True, slots=True)
class Declaration:
    name: str
    doc: tuple[str, ...]
    values: Values
    layers: tuple[LayerPieces, ...]
    drafts: tuple[LayerPieces, ...] = ()
    recipe: tuple[tuple[str, str], ...] = ()
    """Formats of a quantized checkpoint, by module."""


def text_of(made: Declaration) -> str:
    """The text of a file with this one model."""
    names = _names((*made.layers, *made.drafts))
    lines = ["kvspec 1", ""]
    lines += [f"## {line}" for line in made.doc]
    lines += [f"model {made.name} {{"]
    lines += [f"  {key} = {_value(value)}" for key, value in made.values]
    for piece, name in sorted(names.items(), key=lambda item: item[0].sort):
        lines += ["", *_part(piece, name)]
    for word, layers in (("stack", made.layers), ("mtp", made.drafts)):
        if layers:
            lines += ["", f"  {word} {{"]
            lines += [f"    {line}" for line in _runs(list(layers), names)]
            lines += ["  }"]
    lines += ["}", ""]
    if made.recipe:
        lines += ["", "## The formats of its checkpoint.", f"recipe {made.name}_weights {{"]
        lines += [f"  {module} = {form}" for module, form in made.recipe]
        lines += ["}", ""]
    return "\n".join(lines)


def _names(layers: Sequence[LayerPieces]) -> dict[Piece, str]:
    """Each piece's name: its hint, or where several share it, with what tells them apart."""
    pieces = list(dict.fromkeys(piece for layer in layers for piece in layer.pieces))
    names: dict[Piece, str] = {}
    taken: set[str] = set()
    for piece in pieces:
        name, count = piece.hint, 1
        while name in taken:
            count += 1
            name = f"{piece.hint}_{count}"
        taken.add(name)
        names[piece] = name
    return names


def _part(piece: Piece, name: str) -> list[str]:
    head = f"  {piece.sort} {name} = {piece.form} {{"
    nested = any(isinstance(v, tuple) and v and isinstance(v[0], tuple) for _, v in piece.values)
    if len(piece.values) <= MOST_INLINE and not nested:
        return [f"{head} {'; '.join(_assigned(k, v) for k, v in piece.values)} }}"]
    return [head, *(f"    {_assigned(key, value)}" for key, value in piece.values), "  }"]


def _assigned(key: str, value: Value) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        inner = "; ".join(f"{pair[0]} = {_value(pair[1])}" for pair in value)
        return f"{key} {{ {inner} }}"
    return f"{key} = {_value(value)}"


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _number(value)
    if isinstance(value, Length):
        return f"{_number(value.tokens)} tok"
    if isinstance(value, tuple):
        return f"[{', '.join(str(item) for item in value)}]"
    return value


def _number(value: int) -> str:
    return f"{value:_}" if value >= 10_000 else str(value)


# --- the stack ---------------------------------------------------------------------------------


def _runs(layers: list[LayerPieces], names: dict[Piece, str]) -> list[str]:
    """Runs of equal layers, and patterns where a few layers repeat."""
    lines: list[str] = []
    start = 0
    while start < len(layers):
        length, times = _longest(layers, start)
        body = layers[start : start + length]
        if length == 1:
            lines.append(f"{times} x layer {_layer(body[0], names)}")
        else:
            inner = "; ".join(_equal(body, names))
            lines.append(f"{times} x pattern {{ {inner} }}")
        start += length * times
    return lines


def _longest(layers: list[LayerPieces], start: int) -> tuple[int, int]:
    """The pattern from here that covers most layers: (its length, how often). The shortest wins."""
    best = (1, 1)
    for length in range(1, min(LONGEST_PATTERN, (len(layers) - start) // 2) + 1):
        times = 1
        body = layers[start : start + length]
        while layers[start + times * length : start + (times + 1) * length] == body:
            times += 1
        if times > 1 and length * times > best[0] * best[1]:
            best = (length, times)
    run = 1
    while start + run < len(layers) and layers[start + run] == layers[start]:
        run += 1
    return best if best[1] > 1 else (1, run)


def _equal(body: list[LayerPieces], names: dict[Piece, str]) -> list[str]:
    found: list[str] = []
    start = 0
    while start < len(body):
        run = 1
        while start + run < len(body) and body[start + run] == body[start]:
            run += 1
        many = f"{run} x " if run > 1 else ""
        found.append(f"{many}layer {_layer(body[start], names)}")
        start += run
    return found


def _layer(layer: LayerPieces, names: dict[Piece, str]) -> str:
    words = [names[piece] for piece in layer.pieces]
    if layer.norms is not None:
        words.append(f"norms = {layer.norms}")
    if layer.extra:
        words.append(f"extra = {_number(layer.extra)}")
    return f"{{ {'; '.join(words)} }}"
