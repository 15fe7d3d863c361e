"""Leaves that say where they came from: the layout, the model, the hardware, a definition.

Comes in: a subject or model, and a number that follows from it alone. Goes out: a term with the
place of what it was counted from, so that every chain ends at a line of a spec or of the catalog.
"""

from __future__ import annotations

from kvdsl.formulas import Term
from kvdsl.placement.subject import Subject
from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.model import Model, Part
from kvdsl.units import NONE, Dimension, Value


def leaf(block: Block, attribute: str, label: str, value: Value, dimension: Dimension) -> Term:
    """A term for a written attribute, with its place and the source of a catalog figure."""
    origin = block.origin(attribute)
    inherited = block.source if isinstance(block, Declaration) else None
    catalog = isinstance(block, Declaration) and bool(block.catalog)
    return Term(
        label,
        value,
        dimension,
        basis="catalog" if catalog else "spec",
        span=origin.span if origin else block.at,
        source=(origin.source if origin else None) or inherited,
    )


def of_layout(subject: Subject, label: str, value: Value, note: str = "") -> Term:
    """A degree, or a count of ranks."""
    return Term(label, value, basis="spec", span=subject.place("layout"), note=note)


def of_hardware(subject: Subject, label: str, value: Value, note: str = "") -> Term:
    """A count of links or devices."""
    return Term(label, value, basis="spec", span=subject.place("on"), note=note)


def of_workload(subject: Subject, label: str, value: Value, dimension: Dimension) -> Term:
    return Term(label, value, dimension, basis="spec", span=subject.place("workload"))


def of_model(model: Model, label: str, value: Value, dimension: Dimension = NONE) -> Term:
    """A size that is counted from the model's declaration."""
    return Term(
        label,
        value,
        dimension,
        basis="catalog" if model.catalog else "spec",
        span=model.at,
        source=model.source,
        note=f"counted from {model.title}",
    )


def of_attribute(model: Model, part: Part, name: str) -> Term:
    """An attribute of a part, at its own line."""
    origin = part.origin(name)
    return Term(
        name.replace("_", " "),
        getattr(part, name),
        basis="catalog" if model.catalog else "spec",
        span=model.at if origin is None else origin.span,
        source=(origin.source if origin is not None else None) or model.source,
        note=f"of {part.name} in {model.title}",
    )


def fixed(label: str, value: Value, note: str, dimension: Dimension = NONE) -> Term:
    """A constant of a definition, such as the one prompt of a prefill. The note says which."""
    return Term(label, value, dimension, basis="definition", note=note)
