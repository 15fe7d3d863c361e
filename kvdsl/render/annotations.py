"""Annotations: workflow commands that GitHub shows at the lines of a pull request.

Comes in: diagnostics, or a difference. Goes out: `::error file=…::message` lines, the most severe
first. GitHub shows ten of each level a step and drops the rest without a word, so no more are
written and a last line says how many were not. Not its job: the comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvdsl.diagnostics import Diagnostic, Severity
from kvdsl.difference import Difference
from kvdsl.render.changes import flip_text, headline, summary
from kvdsl.render.visible import visible

MOST_OF_LEVEL = 10
"""GitHub's documented limit: 10 error, 10 warning and 10 notice annotations of a step."""

MOST_MESSAGE = 4_000
"""Characters; GitHub cuts a message at 64 KiB, and nobody reads so far."""

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_FAILED = {
    (True, True): Severity.ERROR,
    (True, False): Severity.WARNING,
    (False, True): Severity.WARNING,
    (False, False): Severity.INFO,
}
"""How grave a failed requirement is: whether it is required, and whether it held before."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """`place` is file, line, column, last line, last column; without a file it is of the run."""

    severity: Severity
    title: str
    message: str
    place: tuple[str, int, int, int, int] | None = None


def annotated(diagnostics: Iterable[Diagnostic]) -> str:
    return _text([_annotation(each) for each in diagnostics])


def difference_annotations(difference: Difference) -> str:
    """What came: broken requirements, new findings, files that cannot be planned; and a notice.
    What failed before and still does is a level milder: it is no doing of this change."""
    if difference.empty:
        return ""
    made = headline(difference)
    whose = f"{made.deployment}: " if made.deployment else ""
    found = [Annotation(Severity.INFO, f"{whose}{made.text}", summary(difference))]
    for trouble in difference.troubles:
        if trouble.stands:
            place = _place_of(trouble.place)
            found.append(Annotation(Severity.ERROR, "cannot be planned", trouble.fault, place))
    for each in difference.deployments:
        for flip in each.flips:
            if flip.broken or flip.stands:
                severity = _FAILED[flip.keyword == "require", flip.broken]
                title = f"{each.name}: {flip.keyword} {flip.text}"
                place = _place_of(flip.place)
                found.append(Annotation(severity, title, flip_text(flip), place))
        found += [_annotation(finding.diagnostic) for finding in each.found("new")]
    found += [
        Annotation(Severity.ERROR, "worse than may be", str(reason))
        for reason in difference.regressions
        if reason.sort == "value"
    ]
    return _text(found)


def _place_of(place: str) -> tuple[str, int, int, int, int] | None:
    file, _, rest = place.partition(":") if place.count(":") == 2 else ("", "", "")
    line, _, column = rest.partition(":")
    if not (file and line.isdigit() and column.isdigit()):
        return None
    return file, int(line), int(column), int(line), int(column)


def _annotation(given: Diagnostic) -> Annotation:
    place = None
    if given.span.file.text:
        line, column = given.span.line, given.span.column
        last, end = given.span.file.position(given.span.end)
        place = (given.span.file.name, line, column, last, end)
    elif given.span.file.name:
        place = (given.span.file.name, 1, 1, 1, 1)
    body = [given.headline, *given.notes, *(f"help: {text}" for text in given.helps)]
    return Annotation(given.severity, given.code, "\n".join(body), place)


def _text(found: list[Annotation]) -> str:
    lines, left = [], 0
    for severity in Severity:
        own = [each for each in found if each.severity is severity]
        lines += [_line(each) for each in own[:MOST_OF_LEVEL]]
        left += max(0, len(own) - MOST_OF_LEVEL)
    if left:
        more = "finding is" if left == 1 else "findings are"
        lines.append(f"{left:,} more {more} not annotated: GitHub shows ten of each level a step")
    return "".join(f"{line}\n" for line in lines)


def _line(annotation: Annotation) -> str:
    properties = dict(_properties(annotation))
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    level = _LEVELS[annotation.severity]
    return f"::{level} {told}::{_message(annotation.message)}"


def _properties(annotation: Annotation) -> Iterator[tuple[str, str]]:
    if annotation.place is not None:
        file, line, column, last, end = annotation.place
        yield from (("file", file), ("line", str(line)), ("endLine", str(last)))
        if last == line:  # GitHub refuses columns of an annotation of several lines
            yield from (("col", str(column)), ("endColumn", str(max(column, end))))
    yield "title", annotation.title[:200]


def _message(text: str) -> str:
    """As the runner reads it back; it stops at a newline, and `%` begins an escape."""
    shown = visible(text)
    if len(shown) > MOST_MESSAGE:
        shown = shown[: MOST_MESSAGE - 1] + "…"
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
