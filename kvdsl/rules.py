"""Rules: what a check is called, how severe it is, what it says, and its documentation.

Comes in: a decorated function in a family of `checks`. Goes out: a frozen `Rule`. A registry is a
tuple at the end of each family; nothing registers itself. Not its job: running rules (checks).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Literal

from kvdsl.diagnostics import Severity

Stage = Literal["text", "subject", "placement", "costs", "service", "plan"]
SECTIONS = ("What it checks", "Why it matters", "Example", "Instead")
_DECLARATION = re.compile(r"^([a-z]+ \w+ (extends \S+ )?\{|import \")", re.MULTILINE)
"""Where the spec of a section starts, after its prose."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`headline`, `label`, `notes` and `helps` are templates, filled from the facts that the
    rule's function yields. A rule that fires silences others, or softens them to information.
    `also` are the severities that single facts have in place of the rule's own."""

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
    also: tuple[Severity, ...] = ()
    function: Callable[..., Any] | None = None

    @property
    def severities(self) -> tuple[Severity, ...]:
        """All that a finding of the rule can have, its own first."""
        return (self.severity, *self.also)

    @property
    def summary(self) -> str:
        """The first sentence of the documentation."""
        return self.doc.strip().partition("\n")[0]

    def section(self, title: str) -> str:
        return section(self.doc, title)

    def parts(self, title: str) -> tuple[str, str]:
        return parts(self.doc, title)


def section(doc: str, title: str) -> str:
    """The text of one section of a documentation; empty where there is none."""
    lines = doc.splitlines()
    heads = {line.strip(): number for number, line in enumerate(lines)}
    if title not in heads:
        return ""
    start = heads[title] + 1
    ends = [heads[t] for t in SECTIONS if t in heads and heads[t] >= start]
    return inspect.cleandoc("\n".join(lines[start : min(ends, default=len(lines))]))


def parts(doc: str, title: str) -> tuple[str, str]:
    """A section's prose, and the spec that ends it."""
    text = section(doc, title)
    found = _DECLARATION.search(text)
    start = found.start() if found else len(text)
    return text[:start].strip(), text[start:].strip()


def paged(summary: str, checks: str, why: str, example: str, instead: str, better: str) -> str:
    """A documentation in its sections, of their texts and specs."""
    texts = zip(SECTIONS, (checks, why, example, f"{instead}\n\n{better}"), strict=True)
    return "\n\n".join((summary, *(f"{t}\n{indent(text, '    ')}" for t, text in texts)))


@dataclass(frozen=True, slots=True)
class Page:
    """What is told of a code: of those of texts, names and values that speak for themselves one
    sentence, else a documentation in sections."""

    code: str
    name: str
    severity: Severity
    summary: str
    doc: str
    rule: Rule | None = None

    @property
    def severities(self) -> tuple[Severity, ...]:
        return (self.severity,) if self.rule is None else self.rule.severities

    @property
    def sections(self) -> tuple[tuple[str, str, str], ...]:
        """Title, prose and spec of each section that there is."""
        every = ((title, *parts(self.doc, title)) for title in SECTIONS)
        return tuple((title, prose, spec) for title, prose, spec in every if prose or spec)


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
    also: tuple[Severity, ...] = (),
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
            also,
            function,
        )

    return made
