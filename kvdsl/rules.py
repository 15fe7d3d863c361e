"""Rules: what a check is called, how severe it is, what it says, and its documentation.

Comes in: a decorated function in a family of `checks`. Goes out: a frozen `Rule`. A registry is a
tuple at the end of each family; nothing registers itself. Not its job: running rules (checks).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kvdsl.diagnostics import Severity

Stage = Literal["text", "subject", "placement", "costs", "service", "plan"]
SECTIONS = ("What it checks", "Why it matters", "Example", "Instead")


@dataclass(frozen=True, slots=True)
class Rule:
    """`headline`, `label`, `notes` and `helps` are templates, filled from the facts that the
    rule's function yields. A rule that fires silences others, or softens them to information."""

    code: str
    name: str
    severity: Severity
    stage: Stage
    headline: str
    doc: str
    label: str = ""
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    flips: str = ""
    silences: tuple[str, ...] = ()
    softens: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None

    @property
    def summary(self) -> str:
        """The first sentence of the documentation."""
        return self.doc.strip().partition("\n")[0]

    def section(self, title: str) -> str:
        """The text of one section of the documentation; empty where there is none."""
        lines = self.doc.splitlines()
        heads = {line.strip(): number for number, line in enumerate(lines)}
        if title not in heads:
            return ""
        start = heads[title] + 1
        ends = [heads[t] for t in SECTIONS if t in heads and heads[t] >= start]
        return inspect.cleandoc("\n".join(lines[start : min(ends, default=len(lines))]))


def rule(  # noqa: PLR0913 - each is a part of the rule, and most are named
    code: str,
    name: str,
    severity: Severity,
    stage: Stage,
    headline: str,
    *,
    label: str = "",
    notes: tuple[str, ...] = (),
    helps: tuple[str, ...] = (),
    flips: str = "",
    silences: tuple[str, ...] = (),
    softens: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Rule]:
    """Makes a rule of a function whose docstring is its documentation."""

    def made(function: Callable[..., Any]) -> Rule:
        return Rule(
            code,
            name,
            severity,
            stage,
            headline,
            inspect.cleandoc(function.__doc__ or ""),
            label,
            notes,
            helps,
            flips,
            silences,
            softens,
            function,
        )

    return made
