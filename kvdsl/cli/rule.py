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
from kvdsl.rules import Page, paged
from kvdsl.spelling import nearest

INDENT = "    "


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
    pages = [
        Page(rule.code, rule.name, rule.severity, rule.summary, rule.doc, rule) for rule in RULES
    ]
    pages += [Page(code, name, Severity.ERROR, text, _doc(code, text)) for code, name, text in told]
    return {page.code: page for page in sorted(pages, key=lambda page: page.code)}


def _doc(code: str, sentence: str) -> str:
    from kvdsl.resolve.code_pages import PAGES

    page = PAGES.get(code)
    if page is None:
        return sentence
    return paged(sentence, page.checks, page.why, page.example, page.instead, page.better)


def _found(pages: dict[str, Page], asked: str) -> Page:
    """By code in either case, or by name. Raises CommandError with the nearest."""
    by_name = {page.name: page for page in pages.values()}
    plain = asked.lower().replace("_", "-")
    found = pages.get(asked.upper()) or pages.get(f"KV{asked}") or by_name.get(plain)
    if found is not None:
        return found
    # One code looks like any other: only names have something like them.
    mended = asked.upper().replace("O", "0").replace("I", "1").replace("L", "1")
    near = (mended,) if mended in pages else nearest(plain, by_name)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `kvdsl rule` lists them"
    raise CommandError(f"no rule `{safe(asked)}`{hint}")


def _listed(pages: Iterable[Page], columns: int, paint: Paint) -> Iterator[str]:
    every = list(pages)
    names = max((width(page.name) for page in every), default=0)
    for page in every:
        name = padded(page.name, names)
        yield f"{paint(Style.STRONG, page.code)}  {name}  {_kinds(page, paint)}"
        yield from wrapped(page.summary, columns, "       ", "       ")


def _explained(page: Page, columns: int, paint: Paint) -> str:
    lines = [f"{paint(Style.STRONG, page.code)} {safe(page.name)} ({_kinds(page, paint)})", ""]
    lines += wrapped(page.summary, columns)
    for title, prose, spec in page.sections:
        lines += ["", title, *_section(prose, spec, columns)]
    return "\n".join(lines) + "\n"


def _kinds(page: Page, paint: Paint) -> str:
    return " or ".join(paint(SEVERITIES[each], each.value) for each in page.severities)


def _section(prose: str, spec: str, columns: int) -> Iterator[str]:
    """Sentences wrapped at the width there is; a spec stays as it is, to be copied."""
    paragraphs = [" ".join(each.split()) for each in prose.split("\n\n") if each.strip()]
    for number, paragraph in enumerate(paragraphs):
        yield from [""] if number else []
        yield from wrapped(paragraph, columns, INDENT, INDENT)
    yield from [""] if paragraphs and spec else []
    yield from (f"{INDENT}{safe(line)}".rstrip() for line in spec.splitlines())
