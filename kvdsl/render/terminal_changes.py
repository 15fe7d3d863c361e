"""A difference as a terminal shows it, and as annotations of a pull request's lines.

Comes in: a difference and the columns there are. Goes out: text. Not its job: the comment.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.difference import DeploymentChange, Difference
from kvdsl.render.changes import (
    TROUBLED,
    causes,
    delta,
    figure_text,
    finding_text,
    flip_text,
    headline,
    leading,
    reason,
    sides,
    summary,
    telling,
    tree_lines,
)
from kvdsl.render.characters import padded, safe, width, wrapped
from kvdsl.render.paint import PLAIN, SEVERITIES, Paint, Style

_SIGNS = {"+": Style.GOOD, "-": Style.ERROR, "~": Style.WARNING, " ": Style.FAINT}
_WORTH = {"better": Style.GOOD, "worse": Style.ERROR, "neutral": Style.STRONG}


def difference_text(difference: Difference, columns: int, paint: Paint = PLAIN) -> str:
    """Everything that changed; empty where nothing did."""
    if difference.empty:
        return ""
    return "\n".join(_lines(difference, columns, paint)) + "\n"


def _lines(difference: Difference, columns: int, paint: Paint) -> Iterator[str]:
    made = headline(difference)
    whose = f"{made.deployment}: " if made.deployment else ""
    yield from (paint(Style.STRONG, line) for line in wrapped(f"{whose}{made.text}", columns))
    if made.text != summary(difference):
        yield from wrapped(summary(difference), columns)
    for trouble in difference.troubles:
        told = "cannot be planned" if trouble.stands else "could not be planned before"
        again = TROUBLED[trouble.side] if trouble.stands else ""
        text = f"{trouble.place or trouble.file} {told}: {trouble.fault}{again}"
        yield from ["", *wrapped(text, columns, "", "  ")]
    for each in difference.deployments:
        yield ""
        yield from _deployment(each, columns, paint)
    if difference.figures:
        yield from ["", paint(Style.STRONG, "The catalog changed")]
        for figure in difference.figures:
            used = f" ({', '.join(figure.deployments)})" if figure.deployments else ""
            note = "" if figure.replayed else "; not computed back"
            text = f"{figure.entry} {figure_text(figure)}{used}{note}"
            yield from wrapped(text, columns, "  ", "    ")


def _deployment(change: DeploymentChange, columns: int, paint: Paint) -> Iterator[str]:
    state = "" if change.state == "changed" else f" {change.state}"
    was = f" (was {change.was})" if change.was else ""
    was += f" (from {change.was_file})" if change.was_file else ""
    file = f"  {change.file}" if change.file else ""
    yield paint(Style.STRONG, safe(change.name)) + safe(f"{state}{was}{file}")
    for line in tree_lines(change.spec):
        style = _SIGNS.get(line[:1], Style.FAINT)
        hanging = " " * (len(line) - len(line[1:].lstrip()) + 2)
        head = line[: len(hanging) - 2]
        for piece in wrapped(line[len(head) :], columns, head, hanging):
            yield paint(style, piece)
    if change.state in ("changed", "renamed"):
        yield from _values(change, columns, paint)
    else:
        verdict = change.verdict_after or change.verdict_before
        when = "" if change.verdict_after else "before: "
        yield from wrapped(f"{when}{verdict.sentence if verdict else ''}", columns, "  ", "  ")
    for flip in change.flips:
        waived = Style.WARNING if flip.after == "waived" else Style.GOOD
        style = Style.ERROR if flip.broken or flip.stands else waived
        text = f"{flip.keyword} {flip.text}: {flip_text(flip)}"
        yield from (paint(style, line) for line in wrapped(text, columns, "  ", "    "))
    for state_ in ("new", "still", "waived", "gone"):
        for each in change.findings:
            if each.state != state_ or not each.moved:
                continue
            finding = each.finding
            head = f"  {state_:4} {finding.severity.value}[{finding.code}] "
            stands = state_ in ("new", "still")
            style = SEVERITIES[finding.severity] if stands else Style.FAINT
            lines = wrapped(finding_text(each), columns, head, "       ")
            yield from (paint(style, line) for line in lines)
    still = len(change.unmoved)
    if still:
        yield paint(Style.FAINT, f"  {still} finding{'s' if still > 1 else ''} still there")


def _values(change: DeploymentChange, columns: int, paint: Paint) -> Iterator[str]:
    shown = telling(change)
    if not shown:
        return
    rows = [(safe(v.label), *map(safe, sides(v))) for v in shown]
    widths = [max(width(row[i]) for row in rows) for i in range(3)]
    deltas = [safe(delta(v)) for v in shown]
    whole = 4 + sum(widths) + 7 + max(map(width, deltas)) <= columns
    for value, (label, before, after), by in zip(shown, rows, deltas, strict=True):
        cells = (
            padded(label, widths[0]),
            f" {padded(before, widths[1], right=True)}",
            f"-> {padded(after, widths[2], right=True)}",
        )
        # Where a line has no room for both, the per cent says more than the difference.
        told = by if whole else by.rpartition(", ")[2]
        yield f"    {' '.join(cells)}  " + paint(_WORTH[value.worth], told)
    yield from _why(change, columns)
    if change.small:
        yield f"    and {change.small} below the threshold"
    if change.compiler:
        text = "neither the spec nor the catalog changed: kvdsl computes it otherwise"
        yield from wrapped(text, columns, "    ", "    ")


def _why(change: DeploymentChange, columns: int) -> Iterator[str]:
    value = leading(change)
    said = [causes(value), reason(value.movers)] if value else []
    if value and any(said):
        text = f"{value.label}: {'; '.join(text for text in said if text)}"
        yield from wrapped(text, columns, "    because ", "      ")
