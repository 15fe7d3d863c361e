"""docs/rules.md: every planning rule with its documentation.

Comes in: the rules. Goes out: a table of all, then a section each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvdsl.checks.findings import RULES
from kvdsl.reference.markdown import code, document, link, spec, table
from kvdsl.rules import Rule

INTRODUCTION = """\
What `kvdsl check` tells of a plan. An error fails the check; a warning and an info do not. Where a
rule has two, its page says when, or another rule softens it.
`kvdsl rule KV101` prints a section of this page, and `allow KV108 because "…"` in a deployment
silences a rule there. Codes below KV100 are of the [language](language.md#codes).

The example of a rule has its finding. What stands under *Instead* goes on from it and has none."""


def page() -> str:
    heads = ("code", "", "name", "what it checks")
    rows = [(link(r.code, _heading(r)), severities(r), r.name, r.summary) for r in RULES]
    sections = [section(r) for r in RULES]
    return document("Rules", INTRODUCTION, table(heads, rows), *sections)


def _heading(rule: Rule) -> str:
    return f"{rule.code} {rule.name}"


def section(rule: Rule) -> str:
    return "\n\n".join(_blocks(rule))


def _blocks(rule: Rule) -> Iterator[str]:
    yield f"## {_heading(rule)}"
    yield f"*{severities(rule).capitalize()}.* {rule.summary}"
    for title in ("What it checks", "Why it matters"):
        yield f"**{title}.** {_flowing(rule.section(title))}"
    prose, example = rule.parts("Example")
    yield "**Example.**" + (f" {_flowing(prose)}" if prose else "")
    yield spec(example, "part")
    prose, better = rule.parts("Instead")
    yield f"**Instead.** {_flowing(prose)}"
    if better:
        yield spec(better, "more")
    said = [("Flips with", _plain(rule.flips))] if rule.flips else []
    for title, codes in (("Silences", rule.silences), ("Softens", rule.softens)):
        if codes:
            said.append((title, ", ".join(codes)))
    if said:
        yield " · ".join(f"*{title}:* {text}" for title, text in said)


def severities(rule: Rule) -> str:
    """`warning or info`: all that a finding of the rule can have."""
    return " or ".join(each.value for each in rule.severities)


def _flowing(text: str) -> str:
    """Lines of a docstring as paragraphs."""
    return "\n\n".join(" ".join(p.split()) for p in text.split("\n\n") if p.strip())


def _plain(template: str) -> str:
    """A template for people: what is filled in later, in italics."""
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: code(found[1]), template)
