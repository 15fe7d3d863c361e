"""The examples: they resolve as they stand, and no slip in one of them brings the compiler down."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvdsl.project.catalog import PLURALS, Catalog
from kvdsl.project.loader import load, load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.declaration import Block
from tests.plain import plain

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "specs" / "examples").glob("*.kvspec"))
CATALOG = Catalog()
ENTRIES = [f"{plural}.{name}" for plural in PLURALS for name in CATALOG.names(plural)]
ABSTRACT = {"engines.sglang", "engines.tensorrt_llm", "engines.vllm"}
"""Only to be extended: by the entries of versions."""


def blocks_in(value: object) -> Iterator[Block]:
    """Every block of a spec, outermost first."""
    if isinstance(value, Block):
        yield value
        value = tuple(vars(value).values())
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from blocks_in(item)


SERVICE = ("  tiers ", "  pool ")
"""What an example of two pools or of tiers has in it."""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_of_pools_or_tiers_says_which_figures_are_assumed(path: Path) -> None:
    """Above each workload's first lines, and beside each setup: no document gives the arrivals."""
    text = path.read_text("utf-8")
    if not any(word in text for word in SERVICE):
        return
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.strip().startswith("workload"))
    assert "assumed" in lines[first - 1]
    for line in lines:
        if "setup " in line and "=" in line:
            comment = line.partition("#")[2]
            assert "assumed" in comment or "fits" in comment, line


def check_by_pydantic(spec: Block) -> None:
    for block in blocks_in(spec):
        type(block).model_validate(dict(vars(block)))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_resolves_without_a_word(path: Path) -> None:
    resolver = Resolver(load(str(path)))
    assert plain(resolver.check()) == ""
    for name in resolver.concrete("deployment"):
        deployment, problems = resolver.deployment(name)
        assert plain(problems) == ""
        assert deployment is not None
        check_by_pydantic(deployment)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_catalog_entry_resolves_to_what_its_types_allow(name: str) -> None:
    spec, problems = Resolver(load_text("kvspec 1\n", catalog=CATALOG)).declaration(name)
    if name in ABSTRACT:
        assert [p.code for p in problems] == ["KV033"]
        return
    assert plain(problems) == ""
    assert spec is not None
    assert spec.catalog == name
    check_by_pydantic(spec)


def mutations(text: str, count: int, chance: random.Random) -> Iterator[str]:
    """The text with a piece cut, doubled, swapped with another, or replaced by something odd."""
    odd = [
        "{",
        "}",
        "[",
        "0",
        "1e99",
        "tok",
        "GB",
        "extends",
        "8 x",
        "per node",
        ".",
        ",",
        '"',
        "-",
    ]
    for _ in range(count):
        words = text.split(" ")
        for _ in range(chance.randint(1, 3)):
            here, there = chance.randrange(len(words)), chance.randrange(len(words))
            match chance.randrange(4):
                case 0:
                    words[here] = ""
                case 1:
                    words.insert(there, words[here])
                case 2:
                    words[here], words[there] = words[there], words[here]
                case _:
                    words[here] = chance.choice(odd)
        yield " ".join(words)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_slip_in_an_example_is_a_diagnostic_and_no_crash(path: Path) -> None:
    chance = random.Random(path.stem)
    for text in mutations(path.read_text(encoding="utf-8"), 60, chance):
        resolver = Resolver(load_text(text, path.name, catalog=CATALOG))
        problems = resolver.check()
        for name in resolver.declared("deployment"):
            deployment, found = resolver.deployment(name)
            assert deployment is not None or found or problems, text
