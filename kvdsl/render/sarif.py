"""SARIF 2.1.0: findings for code scanning, with each rule's help and with fixes.

Comes in: diagnostics and the pages of their rules. Goes out: a JSON form. Columns count UTF-16 code
units, as the format's default says. Not its job: which findings (check).

Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from urllib.parse import quote

from kvdsl.diagnostics import Diagnostic, Fix, Label, Severity
from kvdsl.render.machine import Json
from kvdsl.rules import SECTIONS, Page
from kvdsl.source import Span

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
MOST = 5_000
"""GitHub reads 25,000 results of a run and shows 5,000, the most severe first."""

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif_form(diagnostics: Sequence[Diagnostic], pages: Mapping[str, Page], version: str) -> Json:
    """What `check --output sarif` writes."""
    kept = sorted(diagnostics, key=lambda d: d.severity.rank)[:MOST]
    codes = list(dict.fromkeys(each.code for each in kept))
    order = {code: index for index, code in enumerate(codes)}
    prints = fingerprints(kept)
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "kvdsl",
                        "version": version,
                        "semanticVersion": version,
                        "rules": [_rule(code, pages.get(code)) for code in codes],
                    }
                },
                "columnKind": "utf16CodeUnits",
                "originalUriBaseIds": {
                    "SRCROOT": {"description": {"text": "The root of the repository."}}
                },
                "results": [
                    _result(each, order[each.code], mark)
                    for each, mark in zip(kept, prints, strict=True)
                ],
            }
        ],
    }


def _rule(code: str, page: Page | None) -> Json:
    if page is None:
        return {"id": code}
    return {
        "id": code,
        "name": "".join(part.title() for part in page.name.split("-")),
        "shortDescription": {"text": page.summary},
        "fullDescription": {"text": page.summary},
        "help": {"text": page.doc, "markdown": _markdown(page)},
        "defaultConfiguration": {"level": _LEVELS[page.severity]},
        "properties": {"tags": ["kvspec"], "problem.severity": _problem(page.severity)},
    }


def _problem(severity: Severity) -> str:
    return {"error": "error", "warning": "warning", "info": "recommendation"}[severity.value]


def _markdown(page: Page) -> str:
    """The rule's documentation: its sections as headings, its examples as code."""
    lines: list[str] = []
    example = False
    for line in page.doc.splitlines():
        if line.strip() in SECTIONS:
            lines += ["```", ""] if example else []
            example = line.strip() == "Example"
            lines += [f"**{line.strip()}**", "", *(["```"] if example else [])]
        else:
            lines.append(line.removeprefix("    "))
    return "\n".join([*lines, *(["```"] if example else [])]).strip()


def _result(given: Diagnostic, rule: int, mark: str) -> Json:
    told = [given.headline, *given.notes, *(f"Help: {text}" for text in given.helps)]
    made: Json = {
        "ruleId": given.code,
        "ruleIndex": rule,
        "level": _LEVELS[given.severity],
        "message": {"text": "\n".join(told)},
        "locations": [_location(given.primary)],
        "partialFingerprints": {"kvdsl/v1": mark},
    }
    if given.labels:
        made["relatedLocations"] = [
            {"id": index, **_location(label)} for index, label in enumerate(given.labels)
        ]
    if given.fix is not None:
        made["fixes"] = [_fix(given.fix)]
    return made


def _location(label: Label) -> Json:
    made: Json = {
        "physicalLocation": {
            "artifactLocation": _artifact(label.span.file.name),
            "region": region(label.span),
        }
    }
    if label.text:
        made["message"] = {"text": label.text}
    return made


def _artifact(name: str) -> Json:
    return {"uri": quote(name, errors="surrogatepass"), "uriBaseId": "SRCROOT"}


def region(span: Span) -> Json:
    """Lines and columns from 1 in UTF-16 code units; `endColumn` is behind the last."""
    if not span.file.text:
        return {"startLine": 1}
    last, end = span.file.position(span.end)
    return {
        "startLine": span.line,
        "startColumn": _column(span, span.line, span.column),
        "endLine": last,
        "endColumn": _column(span, last, end),
    }


def _column(span: Span, line: int, column: int) -> int:
    before = span.file.line(line)[: column - 1]
    return len(before.encode("utf-16-le", "surrogatepass")) // 2 + 1


def _fix(fix: Fix) -> Json:
    change = {
        "artifactLocation": _artifact(fix.span.file.name),
        "replacements": [
            {"deletedRegion": region(fix.span), "insertedContent": {"text": fix.replacement}}
        ],
    }
    return {"description": {"text": fix.title}, "artifactChanges": [change]}


def fingerprints(diagnostics: Iterable[Diagnostic]) -> list[str]:
    """One name for each finding, the same however far the line has moved: of its code, its file and
    its words, and a number where several are alike."""
    seen: dict[str, int] = {}
    marks = []
    for each in diagnostics:
        text = "\0".join((each.code, each.span.file.name, each.headline))
        number = seen[text] = seen.get(text, -1) + 1
        told = f"{text}\0{number}" if number else text
        marks.append(sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return marks
