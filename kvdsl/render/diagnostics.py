"""Diagnostics as a terminal shows them.

Comes in: diagnostics and the columns there are. Goes out: text.

    error[KV101]: 8 KV heads do not divide over 16 ranks
      --> prod.kvspec:12:15
       |
    12 |   layout tp16 { tp = 16 }
       |                 ^^^^^^^ each head is stored twice
       |
       = note: 16 ranks / 8 KV heads = 2 copies
       = help: write `tp = 8; pp = 2`

Not its job: what goes to which stream, and whether there is colour (cli).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvdsl.diagnostics import Diagnostic, Label, Report, Severity
from kvdsl.render.characters import safe, wrapped
from kvdsl.render.excerpts import Mark, excerpt, gutter_width
from kvdsl.render.paint import PLAIN, SEVERITIES, Paint, Style
from kvdsl.source import SourceFile
from kvdsl.units import counted

COLUMNS = 80
"""Width where nobody knows it: a file, a pipe, a log."""

MOST_DRAWN = 100
"""Nobody reads more than this of a file that is wrong in every line."""

MOST_LABELS = 8
"""Further places than this are counted and not drawn: nobody reads a screen of underlines."""

MOST_LINES_OF_NOTE = 12
"""A note that is longer is cut: its full text is in the JSON."""


def drawn(diagnostic: Diagnostic, columns: int = COLUMNS, paint: Paint = PLAIN) -> str:
    """One diagnostic with its lines of source, ending in a newline."""
    return "\n".join(_lines(diagnostic, columns, paint)) + "\n"


def drawn_report(report: Report, columns: int = COLUMNS, paint: Paint = PLAIN) -> str:
    """A report, an empty line between two; of very many, the gravest, and how many there are."""
    found = report.diagnostics
    if len(found) > MOST_DRAWN:
        gravest = sorted(found, key=lambda each: each.severity.rank)[:MOST_DRAWN]
        found = tuple(sorted(gravest, key=lambda each: each.sort_key))
    texts = [drawn(diagnostic, columns, paint) for diagnostic in found]
    left = len(report.diagnostics) - len(found)
    if left:
        texts.append(f"and {left:,} more; `kvdsl check --output concise` lists all, a line each\n")
    return "\n".join(texts)


def concise(diagnostic: Diagnostic, paint: Paint = PLAIN) -> str:
    """On one line, in the form that editors and terminals turn into a link."""
    severity = diagnostic.severity
    head = paint(SEVERITIES[severity], f"{severity.value}[{diagnostic.code}]")
    words = safe(" ".join(diagnostic.headline.split("\n")))
    return f"{paint(Style.STRONG, place(diagnostic))}: {head} {words}"


def place(diagnostic: Diagnostic) -> str:
    """`prod.kvspec:12:5`; a file without a text has no lines to name."""
    name = safe(diagnostic.span.file.name)
    if not diagnostic.span.file.text:
        return name
    return f"{name}:{diagnostic.span.line}:{diagnostic.span.column}"


def tally(report: Report) -> str:
    """`1 error, 2 warnings`; empty where there is nothing to count."""
    nouns = {Severity.ERROR: "errors", Severity.WARNING: "warnings", Severity.INFO: "remarks"}
    counts = ((report.count(severity), noun) for severity, noun in nouns.items())
    return ", ".join(counted(number, noun) for number, noun in counts if number)


def _lines(diagnostic: Diagnostic, columns: int, paint: Paint) -> Iterator[str]:
    own = SEVERITIES[diagnostic.severity]
    yield from _headline(diagnostic, columns, paint, own)
    labels = diagnostic.labels[:MOST_LABELS]
    gutter = gutter_width([diagnostic.span, *(label.span for label in labels)])
    bar = paint(Style.PLACE, " " * gutter + " |")
    drawn_bar = False
    for index, (file, marks) in enumerate(_by_file(diagnostic.primary, labels)):
        where = str(_first(marks)) if index else place(diagnostic)
        yield from [bar] if drawn_bar else []
        yield f"{' ' * gutter}{paint(Style.PLACE, ':::' if index else '-->')} {safe(where)}"
        if file.text:
            yield bar
            yield from excerpt(file, marks, gutter, columns, paint, own)
        drawn_bar = bool(file.text)
    left = len(diagnostic.labels) - len(labels)
    notes = [*diagnostic.notes, *([f"and {counted(left, 'more places')}"] if left else [])]
    if drawn_bar and (notes or diagnostic.helps):
        yield bar
    yield from _asides("note", notes, gutter, columns, paint)
    yield from _asides("help", diagnostic.helps, gutter, columns, paint)


def _headline(diagnostic: Diagnostic, columns: int, paint: Paint, own: Style) -> Iterator[str]:
    head = f"{diagnostic.severity.value}[{diagnostic.code}]"
    first, *rest = wrapped(f"{head}: {diagnostic.headline}", columns, "", "  ")
    yield paint(own, first[: len(head)]) + paint(Style.STRONG, first[len(head) :])
    yield from (paint(Style.STRONG, line) for line in rest)


def _first(marks: Iterable[Mark]) -> object:
    return min(marks, key=lambda mark: mark.span.start).span


def _by_file(primary: Label, labels: Iterable[Label]) -> Iterator[tuple[SourceFile, list[Mark]]]:
    """The marks of each file, the diagnostic's own first; the others as they are met."""
    groups: dict[int, tuple[SourceFile, list[Mark]]] = {}
    marks = [Mark(primary.span, primary.text, main=True)]
    marks += [Mark(label.span, label.text, main=False) for label in labels]
    for mark in marks:
        file = mark.span.file
        groups.setdefault(id(file), (file, []))[1].append(mark)
    yield from groups.values()


def _asides(
    kind: str, texts: Iterable[str], gutter: int, columns: int, paint: Paint
) -> Iterator[str]:
    for text in texts:
        lead = f"{' ' * gutter} = {kind}: "
        first, *rest = wrapped(text, columns, lead, " " * len(lead))
        yield (
            paint(Style.PLACE, lead[: gutter + 2])
            + paint(Style.STRONG, f" {kind}:")
            + (first[len(lead) - 1 :])
        )
        yield from rest[: MOST_LINES_OF_NOTE - 1]
        if len(rest) > MOST_LINES_OF_NOTE - 1:
            yield " " * len(lead) + "…"
