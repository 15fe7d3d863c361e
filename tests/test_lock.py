"""The lock's laws: what it keeps can be read again, and computed with again to the same end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdsl.plan import Fact
from kvdsl.planning.facts import declaration_facts
from kvdsl.project.catalog import PLURALS, Catalog, Figures
from kvdsl.project.ignoring import patterns
from kvdsl.project.loader import load_text
from kvdsl.resolve.replay import replayable
from kvdsl.resolve.resolver import Resolver
from kvdsl.review.lock import MEANING, Lock, Locked, lock_of, lock_text, moves, read_lock

CATALOG = Catalog()
ABSTRACT = {"engines.vllm", "engines.sglang", "engines.tensorrt_llm"}
"""Only to be extended: whoever uses a version locks what it inherits."""
NAMES = (f"{plural}.{name}" for plural in PLURALS for name in CATALOG.names(plural))
ENTRIES = tuple(name for name in NAMES if name not in ABSTRACT)


def facts(entries: Iterable[str], figures: Figures | None = None) -> dict[tuple[str, str], Fact]:
    catalog = Catalog(figures=figures) if figures else CATALOG
    resolver = Resolver(load_text("kvspec 1\n", catalog=catalog))
    found: dict[tuple[str, str], Fact] = {}
    for entry in entries:
        declaration, wrong = resolver.declaration(entry)
        assert declaration is not None, (entry, [d.headline for d in wrong])
        found |= {f.key: f for f in declaration_facts(declaration) if f.entry == entry}
    return found


NOW = facts(ENTRIES)
LOCK = lock_of(NOW.values())


def test_every_entry_of_the_catalog_has_figures_that_can_be_read() -> None:
    assert set(LOCK.entries) == set(ENTRIES)
    assert read_lock(lock_text(LOCK)) == LOCK


@pytest.mark.parametrize("plural", list(PLURALS))
def test_an_entry_with_its_own_figures_says_what_it_said(plural: str) -> None:
    own = {e: dict(k.figures) for e, k in LOCK.entries.items() if e.startswith(f"{plural}.")}
    again = facts(own, own)
    wrong = {
        key: (fact.value, again[key].value if key in again else None)
        for key, fact in NOW.items()
        if key[0] in own and (key not in again or again[key].value != fact.value)
    }
    assert wrong == {}


NUMBER = re.compile(r"([0-9_.]+) (GB/s|TB/s|GB|TFLOP/s|us|ns|ms|W|USD/h)")
SOME = [key for key, fact in NOW.items() if NUMBER.fullmatch(fact.value) and replayable(key[1])]


@pytest.mark.parametrize("key", SOME[::12], ids=str)
def test_an_entry_with_another_figure_says_that_and_nothing_else(key: tuple[str, str]) -> None:
    entry, path = key
    found = NUMBER.fullmatch(NOW[key].value)
    assert found is not None
    other = f"{float(found[1].replace('_', '')) * 1.5:g} {found[2]}"
    again = facts([entry], {entry: {path: other}})
    differ = {k for k, fact in again.items() if fact.value != NOW[k].value}
    # A table that is written as one value has it in all its rows.
    assert key in differ
    assert {k[1].rpartition(".")[0] for k in differ} == {path.rpartition(".")[0]}


def test_a_figure_that_is_gone_is_dropped_and_one_that_came_is_there() -> None:
    before = facts(["devices.h100_sxm"], {"devices.h100_sxm": {"price": None, "l2": "1 MB"}})
    assert ("devices.h100_sxm", "price") not in before
    assert before["devices.h100_sxm", "l2"].value == "1 MB"


def locked(**figures: str) -> Lock:
    return Lock({"devices.x": Locked("0" * 16, figures)})


def test_what_two_locks_have_apart_is_told_by_figure() -> None:
    found = moves(locked(a="1", b="2"), locked(b="3", c="4"))
    assert [(m.sign, m.path) for m in found] == [("~", "b"), ("+", "c"), ("-", "a")]
    other = Lock({"devices.x": Locked("1" * 16, {"a": "1"})})
    assert [m.path for m in moves(locked(a="1"), other)] == [MEANING]
    assert moves(LOCK, LOCK) == ()
    assert moves(LOCK, Lock()) == (), "an entry that is not used any more is no change"


ENTRY = st.from_regex(r"\A[a-z]{1,8}\.[a-z0-9_]{1,8}\Z")
PATH = st.from_regex(r"\A[a-z_]{1,8}(\.[a-z_]{1,8}){0,2}\Z")
VALUE = st.from_regex(r"\A[!-~]([ -~]{0,30}[!-~])?\Z")


@given(st.dictionaries(ENTRY, st.dictionaries(PATH, VALUE, max_size=4), max_size=5))
def test_any_lock_is_read_as_it_was_written(entries: Mapping[str, Mapping[str, str]]) -> None:
    lock = lock_of(Fact(e, p, v) for e, figures in entries.items() for p, v in figures.items())
    assert read_lock(lock_text(lock)) == lock


# --- .kvspecignore -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "ignored", "kept"),
    [
        (["old"], ["old", "a/old", "old/b.kvspec"], ["older", "a/b"]),
        (["old/"], ["old/b.kvspec", "a/old/b"], ["old"]),
        (["/old"], ["old", "old/b"], ["a/old"]),
        (["a/*.kvspec"], ["a/b.kvspec"], ["b/a/b.kvspec", "a/b/c.kvspec"]),
        (["**/gen/*.kvspec"], ["gen/a.kvspec", "x/y/gen/a.kvspec"], ["gen/b/a.kvspec"]),
        (["a/**"], ["a/b", "a/b/c"], ["a", "b/a"]),
        (["*.old.kvspec", "!keep.old.kvspec"], ["a.old.kvspec"], ["keep.old.kvspec"]),
        (["x?.kvspec"], ["xa.kvspec"], ["x.kvspec", "x/a.kvspec"]),
        (["# words", "", "  "], [], ["# words", "a"]),
        (["a[b].kvspec", "(c)"], ["a[b].kvspec", "(c)"], ["ab.kvspec", "c"]),
    ],
)
def test_ignored_paths_are_those_that_gitignore_would_ignore(
    lines: list[str], ignored: list[str], kept: list[str]
) -> None:
    known = patterns(lines)
    assert [path for path in ignored if not known(path)] == []
    assert [path for path in kept if known(path)] == []
