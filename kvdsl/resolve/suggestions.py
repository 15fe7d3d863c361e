"""What was likely meant by a name that nothing has: names of the kind that a place wants.

Comes in: what was written, its scope, and the kinds that may stand there. Goes out: names to tell.
Not its job: telling them (lookup, building), or how alike two words are (spelling).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from kvdsl import units
from kvdsl.project.catalog import PLURALS
from kvdsl.resolve.context import Context
from kvdsl.resolve.names import Declared, Scope, Stem
from kvdsl.resolve.naming_messages import TOO_MANY, either, like, likely, listed
from kvdsl.source import Span
from kvdsl.spelling import nearest, plainly
from kvdsl.syntax.nodes import Assign, Truth

_TRUTHS = {"yes": "true", "no": "false", "off": "false"}
"""What people write for the two truths."""

_NOTHING = ("null", "none", "nil", "undefined", "auto", "default", "nan", "inf", "infinity")
"""What other languages write for what is not said."""

_GROWN = re.compile(r"[\w.\-/:+]*")
"""What a name of another tool is made of: `meta-llama/Llama-3.1-8B`."""

_MOST = 8
"""Names that are told where none is near."""


@contextmanager
def wanting(context: Context, kinds: Sequence[str]) -> Iterator[None]:
    """Names that are looked up in here had better be of these kinds."""
    before, context.wanted = context.wanted, tuple(kinds)
    try:
        yield
    finally:
        context.wanted = before


def grown(span: Span) -> Span:
    """A name with what touches it behind, as far as that is no name of the language."""
    text = span.file.text
    end = _GROWN.match(text, span.end)
    assert end is not None
    whole = span.file.span(span.start, end.end())
    joins = re.search(r"[\-/:+]", whole.text)
    return whole if joins and not whole.text.endswith(("-", "/", ":", "+")) else span


def suggested(context: Context, scope: Scope, word: str) -> tuple[str | None, str | None]:
    """The nearest names of the kinds that are wanted, or a hint where they are."""
    if hint := _of_another_language(word, context.wanted):
        return None, hint
    plain = plainly(word.rpartition("/")[2])
    plurals = _plurals(context.wanted)
    if inside := _imported(context, scope, word):
        return either(inside), None
    if not context.wanted:
        return like(word, scope.visible), _exact(context, plain, PLURALS)
    if word in context.wanted:
        own = _own(scope, context.wanted)
        some = f"there are {listed(own)}" if own else f"one of them is `{plurals[0]}.NAME`"
        return None, f"`{word}` is a kind: {some}" if own or plurals else None
    own = _own(scope, context.wanted)
    near = likely(word, own)
    exact = _exact(context, plain, plurals)
    if (near and plainly(near[0]) == plain) or (near and not exact):
        return either(near), None
    if exact:
        return None, exact
    if not own and not plurals:
        kind = context.wanted[0]
        way = f"declare it, `{kind} {word} {{ … }}`, or write it here: `{kind} {{ … }}`"
        return None, way if word.isidentifier() else None
    return None, _catalog_hint(context, plain, plurals) or _all_of(own, plurals)


def instead_of_text(context: Context, scope: Scope, text: str, kinds: Sequence[str]) -> str | None:
    """What to write for a text where a name is wanted: `"tp8"`, `"meta-llama/Llama-3.1-8B"`."""
    plurals = _plurals(kinds)
    for name in _own(scope, kinds):
        if plainly(name) == plainly(text):
            return f"write it without quotes: `{name}`"
    # Behind an organization, or the catalog's own plural.
    part = plainly(re.sub(r"^(.*/|[a-z]+\.)", "", text))
    return _exact(context, part, plurals) or _catalog_hint(context, part, plurals)


def concrete(context: Context, plural: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the catalog's names that can be used as they are."""
    return tuple(name for name in names if not _abstract(context, plural, name))


def children(context: Context, declared: Declared) -> tuple[str, ...]:
    """The catalog's entries that go by an abstract one's name with more behind it."""
    plural = declared.plural
    if not plural:
        return ()
    found = _versions(context, plural, declared.name)
    return tuple(f"{plural}.{name}" for name in concrete(context, plural, found))


def _of_another_language(word: str, wanted: Sequence[str]) -> str | None:
    if word in units.UNITS:
        return f"`{word}` is a unit: it stands behind a number, as in `1 {word}`"
    if word.lower() in _TRUTHS and not wanted:
        return f"write `{_TRUTHS[word.lower()]}`"
    if word.lower() in _NOTHING:
        return "what is not said is left out: remove the line"
    return None


def _imported(context: Context, scope: Scope, word: str) -> tuple[str, ...]:
    """A name of an imported file, as it is written here."""
    stems = [n for n in scope.names.values() if isinstance(n, Stem) and n.imported.file is not None]
    found = [
        f"{stem.name}.{word}"
        for stem in stems
        if stem.imported.file is not None
        and isinstance(named := context.names(stem.imported.file).scope.names.get(word), Declared)
        and (not context.wanted or named.kind in context.wanted)
    ]
    return tuple(found)


def _plurals(kinds: Sequence[str]) -> tuple[str, ...]:
    return tuple(plural for plural, kind in PLURALS.items() if kind in kinds)


def _own(scope: Scope, kinds: Sequence[str]) -> tuple[str, ...]:
    named = islice(scope.names.items(), TOO_MANY)
    return tuple(name for name, n in named if isinstance(n, Declared) and n.kind in kinds)


def _exact(context: Context, plain: str, plurals: Iterable[str]) -> str | None:
    """The catalog's entry that differs in case and signs at the most."""
    for plural in plurals:
        for name in context.catalog.names(plural):
            if plainly(name) == plain:
                return _has(context, plural, name)
    return None


def _has(context: Context, plural: str, name: str) -> str:
    if not _abstract(context, plural, name):
        return f"the catalog has `{plural}.{name}`"
    some = _versions(context, plural, name)
    return f"the catalog has {either(f'{plural}.{n}' for n in some[-_FEW:])}"


def _versions(context: Context, plural: str, name: str) -> list[str]:
    """Entries of that name with more behind it, later versions last."""
    found = [n for n in context.catalog.names(plural) if n.startswith(f"{name}_")]
    return sorted(found, key=lambda n: [(len(part), part) for part in n.split("_")])


_FEW = 3


def _catalog_hint(context: Context, plain: str, plurals: Iterable[str]) -> str | None:
    for plural in plurals:
        names = concrete(context, plural, nearest(plain, context.catalog.names(plural)))
        if names:
            return f"the catalog has {listed(f'{plural}.{name}' for name in names)}"
    return None


def _all_of(own: Sequence[str], plurals: Sequence[str]) -> str | None:
    if own:
        more = f" and {len(own) - _MOST} more" if len(own) > _MOST else ""
        verb = "is" if len(own) == 1 else "are"
        return f"there {verb} {listed(own[:_MOST])}{more}"
    return f"`kvdsl catalog list {plurals[0]}` names all of the catalog's" if plurals else None


def _abstract(context: Context, plural: str, name: str) -> bool:
    file = context.catalog.file(plural, name)
    if file is None:
        return False
    named = context.names(file, plural).scope.names.get(name)
    node = named.node if isinstance(named, Declared) else None
    said = [s for s in node.body.statements if isinstance(s, Assign)] if node else []
    return any(
        each.path.dotted == "abstract" and isinstance(each.value, Truth) and each.value.value
        for each in said
    )
