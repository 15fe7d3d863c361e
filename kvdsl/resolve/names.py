"""The names of a file: one space for declarations of every kind, lets and imports.

Comes in: a loaded file. Goes out: what each name stands for, and diagnostics for names that stand
twice, look like a unit or hide the catalog. Not its job: what is behind a name (lookup).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kvdsl import units
from kvdsl.diagnostics import Diagnostic, Label
from kvdsl.project.catalog import PLURALS
from kvdsl.project.files import Imported, Loaded
from kvdsl.resolve.naming_messages import (
    Misplaced,
    NamedTwice,
    Nameless,
    Reserved,
    UnknownKind,
    like,
)
from kvdsl.resolve.schema import KINDS
from kvdsl.source import SourceFile, Span
from kvdsl.syntax.nodes import (
    Broken,
    Declare,
    Edition,
    Expr,
    Import,
    Let,
    Name,
    Statement,
)

FUNCTIONS = ("min", "max", "sum", "ceil", "floor")
WORDS = ("true", "false", "and", "or", "not")


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """A declaration under its name. `node` is None where its text could not be read: then it is
    known, and whatever uses it fails without a word. `plural` is the catalog's, or empty."""

    kind: str
    name: str
    node: Declare | None
    span: Span
    scope: Scope
    plural: str = ""

    @property
    def title(self) -> str:
        return f"{self.plural}.{self.name}" if self.plural else self.name

    @property
    def catalog(self) -> str:
        return self.title if self.plural else ""


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A `let`: its expression, and the scope that it was written in."""

    name: str
    value: Expr
    span: Span
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Stem:
    """An import under its name."""

    name: str
    imported: Imported
    span: Span


Named = Declared | Bound | Stem


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """What names mean at a place: those of the file, and the lets of the blocks around it."""

    source: SourceFile
    names: Mapping[str, Named]
    lets: Mapping[str, Bound] = field(default_factory=dict)

    def find(self, name: str) -> Named | None:
        return self.lets.get(name) or self.names.get(name)

    @property
    def visible(self) -> tuple[str, ...]:
        return (*self.lets, *self.names, *PLURALS)


@dataclass(frozen=True, slots=True, eq=False)
class FileNames:
    """A file's scope, and what was wrong with its names."""

    scope: Scope
    diagnostics: tuple[Diagnostic, ...]

    def declared(self) -> tuple[Declared, ...]:
        return tuple(n for n in self.scope.names.values() if isinstance(n, Declared))

    def lets(self) -> tuple[Bound, ...]:
        return tuple(n for n in self.scope.names.values() if isinstance(n, Bound))


def names_of(file: Loaded, plural: str = "") -> FileNames:
    """The names of one file; the first of two equal ones holds."""
    names: dict[str, Named] = {}
    scope = Scope(file.source, names)
    found: list[Diagnostic] = []
    for statement in file.module.statements:
        named = _named(statement, file, scope, plural, found)
        if named is None:
            continue
        found += refused(named.name, named.span, names)
        if named.name not in PLURALS:  # the catalog stays reachable
            names.setdefault(named.name, named)
    return FileNames(scope, tuple(found))


def _named(
    statement: Statement, file: Loaded, scope: Scope, plural: str, found: list[Diagnostic]
) -> Named | None:
    match statement:
        case Declare(name=None):
            found.append(Nameless(statement.kind.span, statement.kind.text).diagnostic())
        case Declare(kind=kind, name=Name(text=text, span=span)):
            if kind.text not in KINDS:
                found.append(UnknownKind(kind.span, kind.text, like(kind.text, KINDS)).diagnostic())
                return Declared("", text, None, span, scope)
            place = plural if PLURALS.get(plural) == kind.text else ""
            return Declared(kind.text, text, statement, span, scope, place)
        case Broken(kind=kind, name=Name(text=text, span=span)):
            return Declared(kind.text if kind else "", text, None, span, scope)
        case Let(name=name, value=value):
            return Bound(name.text, value, name.span, scope)
        case Import():
            return _stem(statement, file)
        case Broken() | Edition():
            pass
        case _:
            found.append(Misplaced(statement.span, described(statement), "a block").diagnostic())
    return None


def _stem(node: Import, file: Loaded) -> Stem | None:
    for name, imported in file.imports.items():
        if imported.node is node:
            return Stem(name, imported, (node.alias or node.path).span)
    written = node.alias.text if node.alias else node.path.value.rpartition("/")[2]
    name = written.removesuffix(".kvspec")
    span = (node.alias or node.path).span
    return Stem(name, Imported(node, None), span) if name in file.imports else None


def refused(name: str, span: Span, taken: Mapping[str, Named]) -> Iterable[Diagnostic]:
    """Why a name cannot be declared here, if so: it is taken, a unit, or one of the language."""
    other = taken.get(name)
    if other is not None:
        told = "declared here"
        if isinstance(other, Stem):
            told = f"this import is called `{name}`: `as` behind it gives it another name"
        yield NamedTwice(span, name).diagnostic(Label(other.span, told))
    elif name in units.UNITS:
        yield Reserved(span, name, f"a unit ({units.UNITS[name][0].noun})").diagnostic()
    elif name in PLURALS:
        yield Reserved(span, name, f"how the catalog calls its {name}").diagnostic()
    elif name in FUNCTIONS or name in WORDS:
        yield Reserved(span, name, "a word of the language").diagnostic()


def described(statement: Statement) -> str:
    """A statement in a user's words."""
    name = type(statement).__name__
    known = {"Assign": "an attribute", "Mention": "a name alone", "Repeat": "`N x …`"}
    return known.get(name, f"`{name.lower()}`")
