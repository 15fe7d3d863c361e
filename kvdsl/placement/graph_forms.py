"""The placement graph as text: dot, mermaid, JSON. Same graph, same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from networkx import MultiDiGraph

FORMAT = 1
_SHAPES = {
    "cluster": "folder", "rack": "folder", "node": "box3d", "device": "box", "rank": "ellipse",
    "shard": "note", "communicator": "hexagon",
}  # fmt: skip


def _caption(attributes: Mapping[str, Any]) -> str:
    count = attributes.get("count", 1)
    many = f" x {count:,}" if isinstance(count, int) and count > 1 else ""
    number = f" {attributes['number']}" if "number" in attributes else ""
    size = f" of {attributes['size']}" if "size" in attributes else ""
    return f"{attributes['label']}{number}{size}{many}"


def dot(made: MultiDiGraph[str]) -> str:
    lines = ["digraph placement {", "  rankdir=LR;"]
    for name, attributes in made.nodes(data=True):
        shape = _SHAPES.get(attributes["kind"], "box")
        lines.append(f"  {_quoted(name)} [label={_quoted(_caption(attributes))}, shape={shape}];")
    for start, end, attributes in made.edges(data=True):
        lines.append(f"  {_quoted(start)} -> {_quoted(end)} [label={_quoted(attributes['kind'])}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + _printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def mermaid(made: MultiDiGraph[str]) -> str:
    numbers = {name: f"n{i}" for i, name in enumerate(made.nodes)}
    lines = ["flowchart LR"]
    for name, attributes in made.nodes(data=True):
        text = _printable(_caption(attributes)).replace("#", "#35;").replace('"', "#quot;")
        lines.append(f'  {numbers[name]}["{text}"]')
    for start, end, attributes in made.edges(data=True):
        lines.append(f"  {numbers[start]} -- {attributes['kind']} --> {numbers[end]}")
    return "\n".join(lines) + "\n"


def as_json(made: MultiDiGraph[str]) -> str:
    nodes = [{"id": name, **_plain(a)} for name, a in made.nodes(data=True)]
    edges = [{"from": s, "to": e, **_plain(a)} for s, e, a in made.edges(data=True)]
    return json.dumps({"format": FORMAT, "nodes": nodes, "edges": edges}, indent=1) + "\n"


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in attributes.items()}


def _value(value: Any) -> Any:
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, tuple):
        return [_value(v) for v in value]
    return value


FORMS: Mapping[str, Callable[[MultiDiGraph[str]], str]] = MappingProxyType(
    {"dot": dot, "mermaid": mermaid, "json": as_json}
)
