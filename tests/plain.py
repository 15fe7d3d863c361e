"""Diagnostics as plain lines, for golden files: every fact that a user may see, and no drawing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvdsl.diagnostics import Diagnostic, Label


def told(problem: Diagnostic) -> Iterator[str]:
    span = problem.span
    yield f"{problem.severity.value} {problem.code} {_place(problem.primary)} {problem.headline}"
    seen = span.text.encode("unicode_escape").decode()
    yield f"  at: {seen}" + (f"  {problem.primary.text}" if problem.primary.text else "")
    yield from (f"  {_place(label)}: {label.text}" for label in problem.labels)
    yield from (f"  note: {note}" for note in problem.notes)
    yield from (f"  help: {line}" for line in problem.helps)


def _place(label: Label) -> str:
    span = label.span
    return f"{span.file.name}:{span.line}:{span.column}"


def plain(problems: Iterable[Diagnostic]) -> str:
    return "".join(f"{line}\n" for problem in problems for line in told(problem))
