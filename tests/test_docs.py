"""The docs are true: generated pages are fresh, their specs compile, their links lead somewhere.

A block of code says on its fence what it is: `kvspec` is a whole file, `kvspec part` lacks the
edition, `kvspec more` goes on from the block above it, and `kvspec error` must not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvdsl.diagnostics import Diagnostic
from kvdsl.pipeline import compile_text
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.reference.markdown import anchor
from kvdsl.reference.pages import PAGES
from kvdsl.reference.values import REQUIRED
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.deployment import Pool
from tests.plain import plain

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
FENCE = re.compile(r"^```kvspec ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EDITION = "kvspec 1\n"
CATALOG = Catalog()


@dataclass(frozen=True)
class Block:
    """A spec in a document: `text` is what is compiled."""

    document: Path
    line: int
    sort: str
    text: str


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path) -> Iterator[Block]:
    text, above = read(path), ""
    for found in FENCE.finditer(text):
        sort, body = found[1], found[2]
        if sort == "part":
            body = EDITION + body
        elif sort == "more":
            body = above + body
        yield Block(path, text[: found.start()].count("\n") + 1, sort, body)
        above = body


BLOCKS = [block for path in DOCUMENTS for block in blocks(path)]


def resolved(text: str) -> tuple[Diagnostic, ...]:
    """What is wrong with a text as a spec; plans may have findings."""
    resolver = Resolver(load_text(text, catalog=CATALOG))
    return resolver.check()


# --- generated pages ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_and_the_catalog_give(name: str) -> None:
    made = PAGES[name]()
    assert read(ROOT / "docs" / name) == made, "stale: run `python -m kvdsl.reference`"


@pytest.mark.parametrize("name", PAGES)
def test_every_row_of_a_generated_table_is_as_wide_as_its_head_and_tells_something(
    name: str,
) -> None:
    width = 0
    for line in read(ROOT / "docs" / name).splitlines():
        if not line.startswith("| "):
            width = 0
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        width = width or len(cells)
        assert len(cells) == width, line
        assert cells[0], line
        assert cells[-1], line


def test_what_a_deployment_must_say_is_told_in_words_where_no_table_can() -> None:
    page = read(ROOT / "docs" / "language.md")
    section = page.partition("## `deployment`")[2].partition("| attribute")[0]
    resolver = Resolver(load_text("kvspec 1\ndeployment bare { }\n", catalog=CATALOG))
    (missing,) = [d for d in resolver.check() if d.code == "KV065"]
    needed = {word for word in re.findall(r"`(\w+)`", missing.headline) if word != "bare"}
    assert needed
    assert needed <= set(re.findall(r"`(\w+)`", section))
    assert needed <= set(Pool.model_fields)
    assert REQUIRED in page


# --- specs in documents ------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: f"{b.document.name}:{b.line}")
def test_a_spec_in_a_document_compiles_unless_it_says_that_it_does_not(block: Block) -> None:
    assert block.sort in ("", "part", "more", "error")
    found = resolved(block.text)
    assert bool(found) == (block.sort == "error"), plain(found)


def test_documents_have_specs_in_them() -> None:
    assert {block.document.name for block in BLOCKS} >= {"README.md", "language.md", "rules.md"}


# --- links -------------------------------------------------------------------------------------


def headings(path: Path) -> set[str]:
    """The anchors of a page; what stands in code is no heading."""
    text = re.sub(r"^```.*?^```$", "", read(path), flags=re.MULTILINE | re.DOTALL)
    return {anchor(title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_of_a_document_leads_to_a_file_or_a_heading_that_is_there(path: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", read(path), flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        file, hash_sign, fragment = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        sound = there.exists() and there.is_relative_to(ROOT)
        if sound and hash_sign and there.suffix == ".md":
            sound = f"#{fragment}" in headings(there)
        if not sound:
            wrong.append(target)
    assert wrong == []


def test_the_figures_of_the_readme_are_those_of_its_specs() -> None:
    """What its text tells of them, and what it says that a command prints."""
    text = read(ROOT / "README.md")
    served, own = (block.text for block in blocks(ROOT / "README.md"))
    told = re.search(r"TP=16 holds ([\d,]+) tokens, and two stages of eight hold ([\d,]+)", text)
    assert told is not None
    held = [
        value(served.replace("layout  = tp8_pp2", f"layout  = {layout}"), "llama_405b", "kv.tokens")
        for layout in ("tp16", "tp8_pp2")
    ]
    assert [int(number.replace(",", "")) for number in told.groups()] == held
    assert f"llama_405b.kv.tokens    # {held[1]}" in text
    tokens, token = (value(own, "chat", name) for name in ("kv.tokens", "decode.tpot"))
    assert f"answers with {tokens:,} tokens of cache, {float(token) * 1e3:.1f} ms a token" in text


def value(text: str, deployment: str, name: str) -> int | float:
    found = compile_text(text).plan(deployment).value(name).value
    return found if isinstance(found, int) else float(found)
