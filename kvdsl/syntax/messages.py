"""The catalogue of what is said about text that cannot be read: codes KV001 to KV019.

Comes in: facts from the parser. Goes out: diagnostics. Not its job: finding the fault (faults,
builder). A message speaks of what was being read and what may stand there, never of a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kvdsl.diagnostics import Message
from kvdsl.source import Span

EDITION = 1

CODES: tuple[tuple[str, str, str], ...] = (
    ("KV001", "unexpected-text", "Something else was expected at this place."),
    ("KV002", "strange-character", "A character has no meaning in a spec, or cannot be seen."),
    ("KV003", "missing-edition", "`kvspec 1` is not the first statement, or stands twice."),
    ("KV004", "other-edition", "A spec is written in an edition that this kvdsl does not read."),
    ("KV005", "unknown-unit", "What stands behind a number is no unit."),
    ("KV006", "unclosed", "A bracket or a text is opened and never closed."),
    ("KV007", "brace-on-next-line", "`{` does not stand on the line of what it opens."),
    ("KV008", "two-statements", "Statements share a line without `;`, or a comma ends one."),
    ("KV009", "chained-comparison", "One comparison follows another, as in `a <= b <= c`."),
    ("KV010", "misused-times", "`x` does not stand between a count and what is counted."),
    ("KV011", "unfinished", "A statement ends before it is whole."),
    ("KV012", "wrong-quotes", "A text does not stand in double quotes."),
    ("KV013", "wrong-sign", "A sign of another language stands for one of this."),
    ("KV014", "misspelt-truth", "A truth value is not written `true` or `false`."),
    ("KV015", "stray-comma", "A comma has no item before or behind it."),
    ("KV016", "too-deep", "Blocks or brackets lie too deep in each other."),
    ("KV017", "bad-number", "A number is not written as the language writes numbers."),
    ("KV018", "stray-closer", "A closing bracket closes nothing."),
    ("KV019", "misplaced-word", "A word that opens a statement stands in another place."),
)


@dataclass(frozen=True, slots=True)
class Unexpected(Message):
    code: ClassVar[str] = "KV001"
    headline: ClassVar[str] = "{expected} was expected{after}, but {found}"
    helps: ClassVar[tuple[str, ...]] = ("did you mean `{instead}`?", "{advice}")
    span: Span
    expected: str
    after: str
    found: str
    instead: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class QuotedName(Message):
    code: ClassVar[str] = "KV001"
    headline: ClassVar[str] = "a name stands without quotes"
    helps: ClassVar[tuple[str, ...]] = ("write `{instead}`",)
    span: Span
    instead: str


@dataclass(frozen=True, slots=True)
class UnreadableName(Message):
    code: ClassVar[str] = "KV001"
    headline: ClassVar[str] = "`{written}` is not a name"
    helps: ClassVar[tuple[str, ...]] = (
        "names have letters, digits and `_`, and start with no digit: write `{instead}`",
    )
    span: Span
    written: str
    instead: str


@dataclass(frozen=True, slots=True)
class Leftover(Message):
    code: ClassVar[str] = "KV001"
    headline: ClassVar[str] = "{problem}"
    helps: ClassVar[tuple[str, ...]] = ("{advice}",)
    span: Span
    problem: str
    advice: str


@dataclass(frozen=True, slots=True)
class BlockBehindValue(Message):
    code: ClassVar[str] = "KV001"
    headline: ClassVar[str] = "no block stands behind `{name} = {of}`"
    helps: ClassVar[tuple[str, ...]] = ("{advice}",)
    span: Span
    name: str
    of: str
    advice: str


@dataclass(frozen=True, slots=True)
class StrangeCharacter(Message):
    code: ClassVar[str] = "KV002"
    headline: ClassVar[str] = "{character} has no meaning here"
    helps: ClassVar[tuple[str, ...]] = ("write `{instead}`", "{advice}")
    span: Span
    character: str
    instead: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class HiddenCharacter(Message):
    code: ClassVar[str] = "KV002"
    headline: ClassVar[str] = "{character} cannot be seen, so a spec may not hold it"
    notes: ClassVar[tuple[str, ...]] = ("this file holds {others} more",)
    helps: ClassVar[tuple[str, ...]] = ("delete it; a spec is plain UTF-8 text",)
    span: Span
    character: str
    others: str = ""


@dataclass(frozen=True, slots=True)
class EmptyFile(Message):
    code: ClassVar[str] = "KV003"
    headline: ClassVar[str] = "the file is empty"
    helps: ClassVar[tuple[str, ...]] = ("write `kvspec 1` as the first statement",)
    span: Span


@dataclass(frozen=True, slots=True)
class MissingEdition(Message):
    code: ClassVar[str] = "KV003"
    headline: ClassVar[str] = "the file does not start with its edition"
    label: ClassVar[str] = "`kvspec 1` belongs here"
    helps: ClassVar[tuple[str, ...]] = ("write `kvspec 1` as the first statement",)
    span: Span


@dataclass(frozen=True, slots=True)
class ForeignText(Message):
    code: ClassVar[str] = "KV003"
    headline: ClassVar[str] = "this reads like {language}, and kvdsl reads kvspec alone"
    helps: ClassVar[tuple[str, ...]] = (
        "a spec starts with `kvspec 1`; blocks are written `layout tp8 {{ … }}`, attributes in "
        "them `tp = 8`",
    )
    span: Span
    language: str


@dataclass(frozen=True, slots=True)
class MisplacedEdition(Message):
    code: ClassVar[str] = "KV003"
    headline: ClassVar[str] = "the edition stands once, as the first statement of the file"
    helps: ClassVar[tuple[str, ...]] = ("{advice}",)
    span: Span
    advice: str


@dataclass(frozen=True, slots=True)
class OtherEdition(Message):
    code: ClassVar[str] = "KV004"
    headline: ClassVar[str] = "this is edition {written} of the language; kvdsl reads edition 1"
    helps: ClassVar[tuple[str, ...]] = ("write `kvspec 1`, or use a newer kvdsl",)
    span: Span
    written: str


@dataclass(frozen=True, slots=True)
class UnknownUnit(Message):
    code: ClassVar[str] = "KV005"
    headline: ClassVar[str] = "`{unit}` is not a unit"
    helps: ClassVar[tuple[str, ...]] = (
        "write {meant}",
        "did you mean {near}?",
        "{advice}",
    )
    span: Span
    unit: str
    meant: str = ""
    near: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Unclosed(Message):
    code: ClassVar[str] = "KV006"
    headline: ClassVar[str] = "this `{opener}` is never closed"
    label: ClassVar[str] = "a `{closer}` is missing"
    span: Span
    opener: str
    closer: str


@dataclass(frozen=True, slots=True)
class UnclosedText(Message):
    code: ClassVar[str] = "KV006"
    headline: ClassVar[str] = "this text has no closing quote"
    helps: ClassVar[tuple[str, ...]] = ('a text stands between two `"`, on one line',)
    span: Span


@dataclass(frozen=True, slots=True)
class BraceOnNextLine(Message):
    code: ClassVar[str] = "KV007"
    headline: ClassVar[str] = "`{{` stands on the line of what it opens"
    helps: ClassVar[tuple[str, ...]] = ("write `{opened} {{`",)
    span: Span
    opened: str


@dataclass(frozen=True, slots=True)
class TwoStatements(Message):
    code: ClassVar[str] = "KV008"
    headline: ClassVar[str] = "two statements stand on one line without a `;` between them"
    label: ClassVar[str] = "a second statement starts here"
    helps: ClassVar[tuple[str, ...]] = ("start a new line, or write `;` before `{found}`",)
    span: Span
    found: str


@dataclass(frozen=True, slots=True)
class CommaEndsNothing(Message):
    code: ClassVar[str] = "KV008"
    headline: ClassVar[str] = "a comma does not end a statement"
    helps: ClassVar[tuple[str, ...]] = (
        "a new line or `;` does; a comma separates items of a list, a call or `compare`",
        "{advice}",
    )
    span: Span
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ChainedComparison(Message):
    code: ClassVar[str] = "KV009"
    headline: ClassVar[str] = "one comparison cannot follow another"
    label: ClassVar[str] = "the second"
    helps: ClassVar[tuple[str, ...]] = ("write `{first} and {second}`",)
    span: Span
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class TimesQuantity(Message):
    code: ClassVar[str] = "KV010"
    headline: ClassVar[str] = "`x` says how many of a thing, and {what} is no thing"
    helps: ClassVar[tuple[str, ...]] = ("to multiply, write `{instead}`",)
    span: Span
    what: str
    instead: str


@dataclass(frozen=True, slots=True)
class MissingTimes(Message):
    code: ClassVar[str] = "KV010"
    headline: ClassVar[str] = "an `x` stands between a count and what is counted"
    helps: ClassVar[tuple[str, ...]] = ("write `{instead}`",)
    span: Span
    instead: str


@dataclass(frozen=True, slots=True)
class CountBehind(Message):
    code: ClassVar[str] = "KV010"
    headline: ClassVar[str] = "the count stands before `x`"
    helps: ClassVar[tuple[str, ...]] = ("write `{instead}`",)
    span: Span
    instead: str


@dataclass(frozen=True, slots=True)
class Unfinished(Message):
    code: ClassVar[str] = "KV011"
    headline: ClassVar[str] = "{expected} was expected{after}, but {found}"
    helps: ClassVar[tuple[str, ...]] = ("{advice}",)
    span: Span
    expected: str
    after: str
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class WrongQuotes(Message):
    code: ClassVar[str] = "KV012"
    headline: ClassVar[str] = "a text stands in double quotes"
    helps: ClassVar[tuple[str, ...]] = ("write `{instead}`",)
    span: Span
    instead: str


@dataclass(frozen=True, slots=True)
class WrongSign(Message):
    code: ClassVar[str] = "KV013"
    headline: ClassVar[str] = "{problem}"
    helps: ClassVar[tuple[str, ...]] = ("write `{instead}`",)
    span: Span
    problem: str
    instead: str


@dataclass(frozen=True, slots=True)
class MissingEquals(Message):
    code: ClassVar[str] = "KV013"
    headline: ClassVar[str] = "an `=` stands between an attribute and its value"
    helps: ClassVar[tuple[str, ...]] = ("write `{instead}`",)
    span: Span
    instead: str


@dataclass(frozen=True, slots=True)
class TruthSpelled(Message):
    code: ClassVar[str] = "KV014"
    headline: ClassVar[str] = "truth values are written in small letters"
    helps: ClassVar[tuple[str, ...]] = ("write `{instead}`",)
    span: Span
    instead: str


@dataclass(frozen=True, slots=True)
class TrailingComma(Message):
    code: ClassVar[str] = "KV015"
    headline: ClassVar[str] = "{problem}"
    helps: ClassVar[tuple[str, ...]] = ("delete it; one comma stands between two items",)
    span: Span
    problem: str


@dataclass(frozen=True, slots=True)
class TooDeep(Message):
    code: ClassVar[str] = "KV016"
    headline: ClassVar[str] = "{problem}"
    helps: ClassVar[tuple[str, ...]] = ("{advice}",)
    span: Span
    problem: str
    advice: str


@dataclass(frozen=True, slots=True)
class BadNumber(Message):
    code: ClassVar[str] = "KV017"
    headline: ClassVar[str] = "{problem}"
    helps: ClassVar[tuple[str, ...]] = ("write `{instead}`", "{advice}")
    span: Span
    problem: str
    instead: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class StrayCloser(Message):
    code: ClassVar[str] = "KV018"
    headline: ClassVar[str] = "this `{closer}` closes nothing"
    span: Span
    closer: str


@dataclass(frozen=True, slots=True)
class MisplacedWord(Message):
    code: ClassVar[str] = "KV019"
    headline: ClassVar[str] = "`{word}` {problem}"
    helps: ClassVar[tuple[str, ...]] = ("{advice}",)
    span: Span
    word: str
    problem: str
    advice: str = ""
