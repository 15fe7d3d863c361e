"""Lines of a source file with marks under them, as a compiler shows them.

Comes in: labelled spans of one file. Goes out: painted lines: a gutter of line numbers, the text,
and `^^^` or `---` under each span with its words. Not its job: headlines, notes (diagnostics).

    12 |   layout tp16 { tp = 16 }
       |                 ^^^^^^^ 8 KV heads over 16 ranks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvdsl.render.characters import cells, safe, wrapped
from kvdsl.render.paint import Paint, Style
from kvdsl.source import SourceFile, Span

LEAST_TEXT = 24
"""Columns of source that are shown even where the terminal is narrower than a sensible one."""

BEFORE_MARK = 12
"""Columns of a windowed line that are kept before the mark, to see what it stands in."""

LONGEST_LINE = 1_000
"""Characters around the marks of a line that are looked at, several times what a terminal shows."""

LONGEST_GAP = 1
"""So many lines between two marked ones are shown; a longer gap becomes `...`."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A span of one file, what is said of it, and whether it is the diagnostic's own place."""

    span: Span
    text: str
    main: bool


@dataclass(frozen=True, slots=True)
class _Underline:
    """A mark's part in one line: columns of the text (from 0, end not included)."""

    start: int
    end: int
    text: str
    main: bool


@dataclass(frozen=True, slots=True)
class _Window:
    """What is visible of a line: drawn text, and how drawn columns shift."""

    text: str
    first: int
    lead: str


def gutter_width(spans: Sequence[Span]) -> int:
    """Digits of the largest line number that will be shown."""
    return max((len(str(_last_line(span))) for span in spans), default=1)


def excerpt(
    file: SourceFile, marks: Sequence[Mark], gutter: int, columns: int, paint: Paint, own: Style
) -> Iterator[str]:
    """The marked lines of a file in order. `own` is the style of the main mark."""
    by_line: dict[int, list[_Underline]] = {}
    for mark in marks:
        for number, underline in _underlines(mark):
            by_line.setdefault(number, []).append(underline)
    room = max(LEAST_TEXT, columns - gutter - 3)
    blank = paint(Style.PLACE, " " * gutter + " |")
    previous = 0
    for number in sorted(by_line):
        yield from _between(file, previous, number, gutter, room, paint)
        text, underlines = _near(file.line(number), by_line[number])
        window = _window(text, underlines, room)
        yield _numbered(number, gutter, window.lead + window.text, paint)
        for underline in sorted(underlines, key=lambda u: (not u.main, u.start)):
            for line in _marked(text, underline, window, room):
                yield f"{blank} {paint(own if underline.main else Style.PLACE, line)}"
        previous = number


def _last_line(span: Span) -> int:
    """The last line that a span covers: one that ends with a newline does not reach the next."""
    end = span.end - 1 if span.end > span.start else span.end
    return span.file.position(end)[0]


def _underlines(mark: Mark) -> Iterator[tuple[int, _Underline]]:
    """A mark line by line: of one that is longer than a line, only the first and the last."""
    span, file = mark.span, mark.span.file
    first, start = span.line, span.column - 1
    last = _last_line(span)
    if last == first:
        end = start + (span.end - span.start)
        yield first, _Underline(start, end, mark.text, mark.main)
        return
    yield first, _Underline(start, max(start + 1, len(file.line(first))), "", mark.main)
    text = file.line(last)
    indent = len(text) - len(text.lstrip())
    end = file.position(span.end)[1] - 1 if file.position(span.end)[0] == last else len(text)
    yield last, _Underline(min(indent, max(0, end - 1)), end, mark.text, mark.main)


def _between(
    file: SourceFile, previous: int, number: int, gutter: int, room: int, paint: Paint
) -> Iterator[str]:
    """What is shown between two marked lines."""
    if not previous or number <= previous + 1:
        return
    if number - previous - 1 > LONGEST_GAP:
        yield paint(Style.PLACE, "...")
        return
    for skipped in range(previous + 1, number):
        window = _window(file.line(skipped)[:LONGEST_LINE], (), room)
        yield _numbered(skipped, gutter, window.text, paint)


def _numbered(number: int, gutter: int, text: str, paint: Paint) -> str:
    head = paint(Style.PLACE, f"{number:>{gutter}} |")
    return f"{head} {text}".rstrip() if text else head


def _near(line: str, underlines: Sequence[_Underline]) -> tuple[str, Sequence[_Underline]]:
    """Of a line that no person wrote, what lies around its marks: a file with a hundred faults in
    one line of a megabyte would else be measured a hundred times."""
    if len(line) <= LONGEST_LINE:
        return line, underlines
    first = max(0, min(u.start for u in underlines) - LONGEST_LINE // 2)
    piece = line[first : first + LONGEST_LINE]
    near = [
        replace(u, start=min(u.start - first, len(piece)), end=min(u.end - first, len(piece)))
        for u in underlines
    ]
    return piece, near


def _window(line: str, underlines: Sequence[_Underline], room: int) -> _Window:
    """A long line cut to what is marked: an ellipsis stands where something is missing."""
    drawn = list(cells(line.rstrip()))
    whole = sum(columns for _, columns in drawn)
    if whole <= room:
        return _Window("".join(text for text, _ in drawn), 0, "")
    wanted = min((u.start for u in underlines), default=0)
    first = 0
    if sum(columns for _, columns in drawn[: wanted + 1]) > room - BEFORE_MARK:
        used, first = 0, min(wanted, len(drawn))
        while first > 0 and used + drawn[first - 1][1] <= BEFORE_MARK:
            first -= 1
            used += drawn[first][1]
    lead = "…" if first else ""
    left, shown = room - len(lead), []
    for index in range(first, len(drawn)):
        text, columns = drawn[index]
        last = index == len(drawn) - 1
        if columns + (0 if last else 1) > left:
            shown.append("…")
            break
        shown.append(text)
        left -= columns
    return _Window("".join(shown), first, lead)


def _marked(line: str, underline: _Underline, window: _Window, room: int) -> Iterator[str]:
    """The row of marks with its words behind it, or below it where they do not fit."""
    widths = [columns for _, columns in cells(line)]

    def column(index: int) -> int:
        inside = sum(widths[window.first : max(window.first, index)])
        past = max(0, index - len(widths))
        return len(window.lead) + inside + past

    start = min(column(underline.start), room - 1)
    end = min(max(start + 1, column(underline.end)), room)
    sign = "^" if underline.main else "-"
    marks = " " * start + sign * (end - start)
    if not underline.text:
        yield marks
        return
    words = safe(underline.text)
    if end + 1 + len(words) <= room:
        yield f"{marks} {words}"
        return
    yield marks
    # Words that do not fit behind their mark start below it, or at the left if it stands far out.
    indent = " " * (start if room - start >= LEAST_TEXT else 0)
    yield from wrapped(underline.text, room, indent, indent)
