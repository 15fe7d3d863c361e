"""What takes time in a pool: its load, its decode steps, its prefills, each computed when asked.

A layout that a finding compares is often known by its memory, or by its decode alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvdsl.costs.decode import Decode
from kvdsl.costs.load import Load, yielded
from kvdsl.costs.prefill import Prefill
from kvdsl.costs.values import Group
from kvdsl.formulas import Term
from kvdsl.placement.subject import Subject


def nothing() -> None:
    """Of a pool without it."""


@dataclass(frozen=True, slots=True)
class Times:
    """`load` and `decode` give None in a pool that only prefills, `prefill` in one that only
    decodes. `groups` are the values that they bring."""

    load: Callable[[], Load | None] = nothing
    decode: Callable[[], Decode | None] = nothing
    prefill: Callable[[], Prefill | None] = nothing
    groups: tuple[Group, ...] = ()


def decode_group(subject: Subject, decode: Callable[[], Decode]) -> Group:
    """The values of a decode step; no more output than arrives."""

    def found() -> dict[str, Term]:
        terms = decode().terms
        flow = terms["decode.throughput"]
        return {**terms, "decode.throughput": yielded(subject, flow)}

    return ("decode.",), found
