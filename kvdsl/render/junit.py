"""JUnit XML and GitLab's code quality: findings where pipelines look for them.

Comes in: diagnostics and the files that were checked. Goes out: text. A file is a suite; one
without a finding has one passed case. Not its job: which findings (check).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from kvdsl.diagnostics import Diagnostic, Severity
from kvdsl.render.diagnostics import place
from kvdsl.render.machine import Json
from kvdsl.render.sarif import fingerprints
from kvdsl.render.visible import visible

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GITLAB = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.INFO: "info"}


def junit_text(diagnostics: Sequence[Diagnostic], files: Sequence[str]) -> str:
    """Errors are failures; warnings and remarks are passed cases that say so."""
    names = list(dict.fromkeys((*files, *(d.span.file.name for d in diagnostics))))
    suites = [(name, [d for d in diagnostics if d.span.file.name == name]) for name in names]
    failures = sum(d.severity is Severity.ERROR for d in diagnostics)
    count = sum(max(1, len(found)) for _, found in suites)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<testsuites name="kvdsl" tests="{count}" failures="{failures}">')
    for name, found in suites:
        lines += _suite(name, found)
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _suite(name: str, found: Sequence[Diagnostic]) -> Iterator[str]:
    failures = sum(d.severity is Severity.ERROR for d in found)
    tests = max(1, len(found))
    yield f'  <testsuite name={_attribute(name)} tests="{tests}" failures="{failures}">'
    if not found:
        yield f'    <testcase classname={_attribute(name)} name="check"/>'
    for each in found:
        title = f"{each.code} line {each.span.line}"
        yield f"    <testcase classname={_attribute(name)} name={_attribute(title)}>"
        body = "\n".join((place(each), *each.notes, *(f"help: {text}" for text in each.helps)))
        if each.severity is Severity.ERROR:
            head = f"<failure type={_attribute(each.code)} message={_attribute(each.headline)}>"
            yield f"      {head}{_text(body)}</failure>"
        else:
            told = f"{each.severity.value}: {each.headline}\n{body}"
            yield f"      <system-out>{_text(told)}</system-out>"
        yield "    </testcase>"
    yield "  </testsuite>"


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("?", visible(text)))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", visible(text)))


def gitlab_form(diagnostics: Sequence[Diagnostic]) -> list[Json]:
    """A report of GitLab's code quality: a list of issues."""
    ordered = sorted(diagnostics, key=lambda d: (d.severity.rank, d.sort_key))
    return [
        {
            "description": each.headline,
            "check_name": each.code,
            "fingerprint": mark,
            "severity": _GITLAB[each.severity],
            "location": {"path": each.span.file.name, "lines": {"begin": each.span.line}},
        }
        for each, mark in zip(ordered, fingerprints(ordered), strict=True)
    ]
