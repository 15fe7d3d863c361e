"""A system of the field: how it is written as a spec, and what of it is checked and shown.

Comes in: written by hand in a table a topic (`techniques_*.py`). Goes out: frozen records for the
page. Not its job: how the page looks (techniques_page).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class System:
    """`written` says how it is put into a spec, `checked` what is costed and which rules look at
    it, `figures` what comes out as published, and what is only quoted because it was measured.
    `example` is a file of specs/examples; `reckoned` and `quoted` name the figures behind that."""

    name: str
    source: str
    written: str
    checked: str
    figures: str
    example: str
    reckoned: tuple[str, ...] = ()
    quoted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    title: str
    introduction: str
    systems: tuple[System, ...]
