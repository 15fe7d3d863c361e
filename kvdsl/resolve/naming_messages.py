"""What a user is told about names, inheritance and statements out of place: KV023 to KV039.

Comes in: facts. Goes out: diagnostics, in the user's terms and with a way out. Not its job: finding
anything wrong.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from kvdsl.diagnostics import Message
from kvdsl.source import Span
from kvdsl.spelling import in_a_row, nearest

CODES: tuple[tuple[str, str, str], ...] = (
    ("KV023", "named-twice", "A name stands for two things in one file."),
    ("KV024", "reserved-name", "A declaration is called like a unit or a word of the language."),
    ("KV025", "unknown-name", "A value names something that no file or catalog declares."),
    ("KV026", "unknown-kind", "A declaration is of a kind that the language does not have."),
    ("KV027", "unknown-attribute", "A block has no attribute of that name."),
    ("KV028", "written-twice", "An attribute stands twice in one block."),
    ("KV029", "missing-attribute", "An attribute that must be given is not."),
    ("KV030", "bad-extends", "A declaration extends what it cannot start from."),
    ("KV031", "circular-extends", "Declarations extend each other in a circle."),
    ("KV032", "circular-value", "A value asks for itself."),
    ("KV033", "abstract-used", "A declaration that is only to be extended is used as it is."),
    ("KV034", "nothing-to-drop", "A `drop` names nothing that is inherited."),
    ("KV035", "nothing-to-merge", "A block merges into what cannot be merged into."),
    ("KV036", "out-of-place", "A statement stands where it means nothing."),
    ("KV037", "nested-too-deep", "Blocks, declarations or expressions lie too deep in each other."),
    ("KV038", "no-such-change", "An override from outside names no attribute or is no expression."),
    ("KV039", "part-without-form", "A model's part has no form, or is of another sort."),
)


_MANY = 300
"""Comparing a word with so many names takes milliseconds, and a file may hold as many faults."""

TOO_MANY = 2_000
"""So many names were written by a program: no more are looked at, so that time stays linear."""


def like(word: str, known: Iterable[str]) -> str | None:
    """The fact for a help line `did you mean …?`: the nearest names, or None."""
    return either(likely(word, known)) or None


def likely(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """The nearest names, in a time that does not grow with how many there are."""
    names = list(islice(known, TOO_MANY))
    if len(names) > _MANY:  # those that start alike
        names.sort()
        at = bisect(names, word)
        names = names[max(0, at - _MANY // 2) : at + _MANY // 2]
    return nearest(word, names)


def either(names: Iterable[str]) -> str:
    """`a`, `b` or `c`, in the order given."""
    return in_a_row((f"`{name}`" for name in names), "or")


def listed(names: Iterable[str]) -> str:
    """`a`, `b` and `c`, in the order given."""
    return in_a_row((f"`{name}`" for name in names), "and")


def a_kind(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


DID_YOU_MEAN = "did you mean {near}?"


@dataclass(frozen=True)
class NamedTwice(Message):
    code: ClassVar[str] = "KV023"
    headline: ClassVar[str] = "`{name}` is declared already"
    helps: ClassVar[tuple[str, ...]] = ("a file has one space of names for all kinds: rename one",)
    span: Span
    name: str


@dataclass(frozen=True)
class Reserved(Message):
    code: ClassVar[str] = "KV024"
    headline: ClassVar[str] = "nothing can be called `{name}`: it is {what}"
    helps: ClassVar[tuple[str, ...]] = ("choose another name, such as `my_{name}`",)
    span: Span
    name: str
    what: str


@dataclass(frozen=True)
class UnknownName(Message):
    code: ClassVar[str] = "KV025"
    headline: ClassVar[str] = "there is no {what} `{name}`"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{hint}")
    span: Span
    what: str
    name: str
    near: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class UnknownKind(Message):
    code: ClassVar[str] = "KV026"
    headline: ClassVar[str] = "there is no kind of declaration `{name}`"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN,)
    span: Span
    name: str
    near: str | None


@dataclass(frozen=True)
class Nameless(Message):
    code: ClassVar[str] = "KV026"
    headline: ClassVar[str] = "a declaration in a file needs a name"
    helps: ClassVar[tuple[str, ...]] = ("write `{kind} my_{kind} {{ … }}`",)
    span: Span
    kind: str


@dataclass(frozen=True)
class UnknownAttribute(Message):
    code: ClassVar[str] = "KV027"
    headline: ClassVar[str] = "{owner} has no attribute `{name}`"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{hint}")
    span: Span
    owner: str
    name: str
    near: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class WrittenTwice(Message):
    code: ClassVar[str] = "KV028"
    headline: ClassVar[str] = "`{name}` stands twice in this block"
    helps: ClassVar[tuple[str, ...]] = ("keep one of the two",)
    span: Span
    name: str


@dataclass(frozen=True)
class MissingAttribute(Message):
    code: ClassVar[str] = "KV029"
    headline: ClassVar[str] = "{owner} does not say {names}"
    helps: ClassVar[tuple[str, ...]] = ("write {example}",)
    span: Span
    owner: str
    names: str
    example: str | None = None


@dataclass(frozen=True)
class BadExtends(Message):
    code: ClassVar[str] = "KV030"
    headline: ClassVar[str] = "{child} cannot start from `{parent}`: {reason}"
    helps: ClassVar[tuple[str, ...]] = ("{hint}",)
    span: Span
    child: str
    parent: str
    reason: str
    hint: str | None = None


@dataclass(frozen=True)
class CircularExtends(Message):
    code: ClassVar[str] = "KV031"
    headline: ClassVar[str] = "`{name}` extends itself"
    notes: ClassVar[tuple[str, ...]] = ("the circle: {chain}",)
    helps: ClassVar[tuple[str, ...]] = ("one of them must stand on its own",)
    span: Span
    name: str
    chain: str


@dataclass(frozen=True)
class CircularValue(Message):
    code: ClassVar[str] = "KV032"
    headline: ClassVar[str] = "`{name}` asks for itself"
    notes: ClassVar[tuple[str, ...]] = ("the circle: {chain}",)
    helps: ClassVar[tuple[str, ...]] = (
        "a value never asks for an attribute beside it: give both from one `let`",
    )
    span: Span
    name: str
    chain: str


@dataclass(frozen=True)
class AbstractUsed(Message):
    code: ClassVar[str] = "KV033"
    headline: ClassVar[str] = "`{name}` is abstract: it is only to be extended"
    helps: ClassVar[tuple[str, ...]] = (
        "write {near}",
        "declare `{kind} NAME extends {name} {{ … }}` and use that",
    )
    span: Span
    name: str
    kind: str
    near: str | None = None


@dataclass(frozen=True)
class NothingToDrop(Message):
    code: ClassVar[str] = "KV034"
    headline: ClassVar[str] = "nothing called `{name}` is inherited here"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "remove this line")
    span: Span
    name: str
    near: str | None


@dataclass(frozen=True)
class NothingToMerge(Message):
    code: ClassVar[str] = "KV035"
    headline: ClassVar[str] = "these changes to `{name}` have nothing to merge into: {reason}"
    helps: ClassVar[tuple[str, ...]] = ("write `{name} = …` to replace it",)
    span: Span
    name: str
    reason: str


@dataclass(frozen=True)
class Misplaced(Message):
    code: ClassVar[str] = "KV036"
    headline: ClassVar[str] = "{what} stands only in {where}"
    helps: ClassVar[tuple[str, ...]] = ("{hint}",)
    span: Span
    what: str
    where: str
    hint: str | None = None


@dataclass(frozen=True)
class TooDeep(Message):
    code: ClassVar[str] = "KV037"
    headline: ClassVar[str] = (
        "this lies too deep: blocks, declarations or expressions in each other"
    )
    helps: ClassVar[tuple[str, ...]] = ("give a part of it a name, or write it flatter",)
    span: Span


@dataclass(frozen=True)
class NoSuchChange(Message):
    code: ClassVar[str] = "KV038"
    headline: ClassVar[str] = "cannot change `{path}`: {reason}"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{hint}")
    span: Span
    path: str
    reason: str
    near: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class PartForm(Message):
    code: ClassVar[str] = "KV039"
    headline: ClassVar[str] = "`{sort} {name}` {reason}"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{hint}")
    span: Span
    sort: str
    name: str
    reason: str
    near: str | None = None
    hint: str | None = None
