"""What a user is told: diagnostics as data, gathered in a report.

Comes in: facts from any stage. Goes out: frozen diagnostics that every renderer can draw. Not its
job: drawing them, or deciding what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum
from typing import ClassVar

from kvdsl.source import Span
from kvdsl.units import Numeral, grouped


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return ("error", "warning", "info").index(self.value)


@dataclass(frozen=True, slots=True)
class Label:
    """A place and what is to be seen there; it may lie in another file than the diagnostic."""

    span: Span
    text: str = ""


@dataclass(frozen=True, slots=True)
class Fix:
    """A replacement that a tool may apply: the text that takes the place of a span."""

    title: str
    span: Span
    replacement: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing to tell: a stable code, its place, one sentence, the arithmetic, a way out."""

    code: str
    severity: Severity
    headline: str
    primary: Label
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    fix: Fix | None = None

    @property
    def span(self) -> Span:
        return self.primary.span

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        return (self.span.file.name, self.span.start, self.severity.rank, self.code, self.headline)


class Message:
    """Base of a catalogue of messages: a subclass is a frozen dataclass of facts.

    The class attributes are templates, filled from the instance's own fields. A note or help whose
    fields are None is left out, so that the place which finds a fault passes facts and no prose.
    """

    code: ClassVar[str]
    severity: ClassVar[Severity] = Severity.ERROR
    headline: ClassVar[str]
    label: ClassVar[str] = ""
    notes: ClassVar[tuple[str, ...]] = ()
    helps: ClassVar[tuple[str, ...]] = ()
    span: Span

    def diagnostic(self, *labels: Label, fix: Fix | None = None) -> Diagnostic:
        facts = {
            f.name: _printed(getattr(self, f.name))
            for f in fields(self)  # type: ignore[arg-type]
        }
        return Diagnostic(
            code=self.code,
            severity=self.severity,
            headline=self.headline.format_map(facts),
            primary=Label(self.span, self.label.format_map(facts)),
            labels=labels,
            notes=_filled(self.notes, facts),
            helps=_filled(self.helps, facts),
            fix=fix,
        )


def _printed(fact: object) -> object:
    """A count as a template prints it: its digits grouped, its noun behind it where one is
    written."""
    return Numeral(grouped(fact)) if type(fact) is int else fact


class _Facts(dict[str, object]):
    """Remembers whether a template asked for a fact that is None."""

    asked_for_nothing = False

    def __getitem__(self, key: str) -> object:
        value = super().__getitem__(key)
        if value is None or value == "":
            self.asked_for_nothing = True
        return value


def _filled(templates: Iterable[str], facts: dict[str, object]) -> tuple[str, ...]:
    texts = []
    for template in templates:
        known = _Facts(facts)
        text = template.format_map(known)
        if not known.asked_for_nothing:
            texts.append(text)
    return tuple(texts)


@dataclass(frozen=True, slots=True)
class Report:
    """Diagnostics of one run, in the order of their places, each told once."""

    diagnostics: tuple[Diagnostic, ...] = ()

    @staticmethod
    def of(diagnostics: Iterable[Diagnostic]) -> Report:
        unique = dict.fromkeys(diagnostics)
        return Report(tuple(sorted(unique, key=lambda d: d.sort_key)))

    def __add__(self, other: Report) -> Report:
        return Report.of((*self.diagnostics, *other.diagnostics))

    def count(self, severity: Severity) -> int:
        return sum(d.severity is severity for d in self.diagnostics)

    @property
    def failed(self) -> bool:
        return self.count(Severity.ERROR) > 0
