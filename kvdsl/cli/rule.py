"""`kvdsl rule`: what a code means, or all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, Exit
from kvdsl.cli.options import color_option
from kvdsl.diagnostics import Severity
from kvdsl.render.characters import padded, safe, width, wrapped
from kvdsl.render.paint import SEVERITIES, Paint, Style
from kvdsl.rules import SECTIONS, Page
from kvdsl.spelling import nearest

EXAMPLES = ("Example",)
"""Sections whose lines are a spec."""


@click.command("rule")
@click.argument("codes", nargs=-1, metavar="[CODE]...")
@color_option
@click.pass_obj
def command(console: Console, codes: tuple[str, ...]) -> int:
    """Explain codes such as KV101, or list all."""
    pages = known_pages()
    if codes:
        asked = [_found(pages, code) for code in codes]
        texts = [_explained(page, console.columns, console.data_paint) for page in asked]
        console.write("\n".join(texts))
    else:
        lines = _listed(pages.values(), console.columns, console.data_paint)
        console.write("".join(line + "\n" for line in lines))
    return Exit.FINE


def known_pages() -> dict[str, Page]:
    """The page of every code, in their order."""
    from kvdsl.checks.findings import RULES
    from kvdsl.placement.degrees import CODES as SIZES
    from kvdsl.resolve.messages import CODES as NAMES
    from kvdsl.syntax.messages import CODES as SYNTAX

    told = (*SYNTAX, *NAMES, *SIZES)
    pages = [Page(rule.code, rule.name, rule.severity, rule.summary, rule.doc) for rule in RULES]
    pages += [Page(code, name, Severity.ERROR, text, text) for code, name, text in told]
    return {page.code: page for page in sorted(pages, key=lambda page: page.code)}


def _found(pages: dict[str, Page], asked: str) -> Page:
    """By code in either case, or by name. Raises CommandError with the nearest."""
    by_name = {page.name: page for page in pages.values()}
    found = pages.get(asked.upper()) or by_name.get(asked.lower())
    if found is not None:
        return found
    near = nearest(asked.upper(), pages) or nearest(asked.lower(), by_name)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `kvdsl rule` lists them"
    raise CommandError(f"no rule `{safe(asked)}`{hint}")


def _listed(pages: Iterable[Page], columns: int, paint: Paint) -> Iterator[str]:
    every = list(pages)
    names = max((width(page.name) for page in every), default=0)
    kinds = max((len(page.severity.value) for page in every), default=0)
    for page in every:
        kind = paint(SEVERITIES[page.severity], padded(page.severity.value, kinds))
        yield f"{paint(Style.STRONG, page.code)}  {kind}  {padded(page.name, names)}".rstrip()
        yield from wrapped(page.summary, columns, "       ", "       ")


def _explained(page: Page, columns: int, paint: Paint) -> str:
    kind = paint(SEVERITIES[page.severity], page.severity.value)
    lines = [f"{paint(Style.STRONG, page.code)} {safe(page.name)} ({kind})", ""]
    lines += _prose(page.doc, columns)
    return "\n".join(lines).rstrip() + "\n"


def _prose(doc: str, columns: int) -> Iterator[str]:
    """Sentences wrapped at the width there is; what is a spec stays as it is."""
    paragraph: list[str] = []
    section = ""
    for line in [*doc.strip().splitlines(), ""]:
        if line.strip() and line not in SECTIONS:
            paragraph.append(line)
            continue
        spec = section in EXAMPLES or any("{" in each for each in paragraph)
        if paragraph and not spec:
            indent = "    " if section else ""
            words = " ".join(each.strip() for each in paragraph)
            yield from wrapped(words, columns, indent, indent)
        else:
            yield from map(safe, paragraph)
        paragraph = []
        section = line if line in SECTIONS else section
        yield safe(line)
