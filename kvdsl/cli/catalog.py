"""`kvdsl catalog`: what it holds, without parsing more than what is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, Exit
from kvdsl.cli.options import color_option
from kvdsl.render.characters import safe, wrapped
from kvdsl.spelling import in_a_row, nearest

if TYPE_CHECKING:
    from kvdsl.project.catalog import Catalog


@dataclass(frozen=True, slots=True)
class _Entry:
    """A name, and the words above its declaration."""

    name: str
    doc: str
    text: str


_SENTENCE = re.compile(r"[.!?](?= [A-Z`])")
"""Where a sentence ends and another begins."""


@click.group("catalog")
def command() -> None:
    """Look up models, hardware and formats that come with kvdsl."""


@command.command("list")
@click.argument("plurals", nargs=-1, metavar="[KIND]...")
@color_option
@click.pass_obj
def listing(console: Console, plurals: tuple[str, ...]) -> int:
    """List names, all or of some kinds: `models`, `devices`."""
    catalog = _catalog()
    entries = [e for plural in _kinds(catalog, plurals) for e in _entries(catalog, plural)]
    _write(console, entries)
    return Exit.FINE


@command.command("search")
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@color_option
@click.pass_obj
def search(console: Console, words: tuple[str, ...]) -> int:
    """Find entries that have every word in their name, documentation or text."""
    catalog = _catalog()
    wanted = [word.lower() for text in words for word in text.split()]
    found = [
        entry
        for plural in _kinds(catalog, ())
        for entry in _entries(catalog, plural)
        if all(word in f"{entry.name} {entry.text}".lower() for word in wanted)
    ]
    if not found:
        console.say(f"no entry has {' and '.join(safe(word) for word in words)}")
        return Exit.FINDINGS
    # What is called so stands before what only tells of it.
    named = {e.name: e.name.partition(".")[2] for e in found}
    found.sort(
        key=lambda e: (
            not all(word in named[e.name] for word in wanted),
            not named[e.name].startswith(wanted[0]),
        )
    )
    _write(console, found)
    return Exit.FINE


@command.command("show")
@click.argument("name", metavar="KIND.NAME")
@color_option
@click.pass_obj
def show(console: Console, name: str) -> int:
    """Print one entry, and what a model counts: parameters, cache, state.

    kvdsl catalog show models.gemma_3_1b
    """
    catalog = _catalog()
    entry = _named(catalog, name)
    console.write(entry.text)
    if entry.name.startswith("models."):
        console.write("\n")
        for line in _figures(entry.name):
            console.write(f"{line}\n")
    return Exit.FINE


# --- entries -------------------------------------------------------------------------------------


def _catalog() -> Catalog:
    from kvdsl.project.catalog import Catalog

    return Catalog()


def _kinds(catalog: Catalog, asked: Iterable[str]) -> list[str]:
    from kvdsl.project.catalog import PLURALS

    known = [plural for plural in PLURALS if catalog.names(plural)]
    for word in asked:
        if word not in known:
            near = nearest(word, known, most=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}"
            raise CommandError(f"the catalog has no `{safe(word)}`; {hint}")
    return [plural for plural in known if plural in asked] if tuple(asked) else known


def _entries(catalog: Catalog, plural: str) -> Iterator[_Entry]:
    for name in catalog.names(plural):
        yield _entry(catalog, plural, name)


def _entry(catalog: Catalog, plural: str, name: str) -> _Entry:
    """The text of one file; the first sentence of its documentation, without parsing it."""
    path: Path = catalog.root / plural / f"{name}.kvspec"
    text = path.read_text("utf-8")
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if line[:2] == "##"), len(lines))
    docs = list(takewhile(lambda line: line[:2] == "##", lines[first:]))
    whole = " ".join(line.removeprefix("##").strip() for line in docs)
    end = _SENTENCE.search(whole)
    return _Entry(f"{plural}.{name}", whole[: end.start() + 1] if end else whole, text)


def _named(catalog: Catalog, asked: str) -> _Entry:
    plural, _, name = asked.partition(".")
    if name and name in catalog.names(plural):
        return _entry(catalog, plural, name)
    known = [f"{kind}.{each}" for kind in _kinds(catalog, ()) for each in catalog.names(kind)]
    bare = [each for each in known if each.partition(".")[2] == asked]
    if len(bare) == 1:
        return _named(catalog, bare[0])
    kinds = _kinds(catalog, ())
    if (plural in kinds and not name) or f"{asked}s" in kinds:
        listed = plural if plural in kinds else f"{asked}s"
        raise CommandError(f"name one of them: `kvdsl catalog list {listed}` lists all")
    near = bare or _near(catalog, kinds, plural, name or asked)
    hint = f"; did you mean {_either(near[:3])}?" if near else "; `kvdsl catalog list` lists all"
    raise CommandError(f"the catalog has no `{safe(asked)}`{hint}")


def _near(catalog: Catalog, kinds: Iterable[str], plural: str, name: str) -> list[str]:
    """Names like it of that kind; of all kinds where there is no such kind."""
    among = [plural] if plural in kinds else list(kinds)
    bare = {each: kind for kind in reversed(among) for each in catalog.names(kind)}
    return [f"{bare[each]}.{each}" for each in nearest(name, bare)]


def _either(names: list[str]) -> str:
    return in_a_row((f"`{name}`" for name in names), "or")


def _write(console: Console, entries: list[_Entry]) -> None:
    longest = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        first = f"{entry.name:<{longest}}  "
        for line in wrapped(entry.doc, console.columns, first, " " * len(first)):
            console.write(f"{line.rstrip()}\n")


def _figures(name: str) -> Iterator[str]:
    """What the model counts, exact, in base units."""
    from kvdsl.pipeline import ask_text
    from kvdsl.units import NONE, number_text

    values = ask_text("kvspec 1\n", name).values
    longest = max(map(len, values), default=0)
    for key, term in values.items():
        unit = "" if term.dimension == NONE else f" {term.dimension.base_unit}"
        yield f"{key:<{longest}}  {number_text(term.value)}{unit}"
