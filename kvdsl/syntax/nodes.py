"""The syntax tree: what was written, with a span on every node and comments kept.

Comes in: nothing of kvdsl but spans and quantities. Goes out: frozen nodes that the parser builds,
the resolver reads and the formatter prints. A tree says nothing about meaning: kinds are not
keywords, so `NAME NAME { }` is a declaration whatever the first name is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from kvdsl.source import SourceFile, Span
from kvdsl.units import Quantity

# --- expressions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Number:
    """A bare number: exact, as written (`1_402_348`, `4.8e12`)."""

    value: int | Fraction
    span: Span


@dataclass(frozen=True, slots=True)
class Measure:
    """A number and its unit: `80 GB`, `92 %`."""

    quantity: Quantity
    number: str
    unit: str
    span: Span


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Truth:
    value: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Range:
    """`0..1`, both ends included; a single index has `last == first`."""

    first: int
    last: int
    span: Span


@dataclass(frozen=True, slots=True)
class Path:
    """`models.deepseek_v3`, `pod.nodes[0..1]`: names, and ranges behind the last one."""

    names: tuple[Name, ...]
    ranges: tuple[Range, ...]
    span: Span

    @property
    def dotted(self) -> str:
        return ".".join(name.text for name in self.names)


@dataclass(frozen=True, slots=True)
class Items:
    """`[a, b]`."""

    items: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """`min(a, b)`."""

    function: Name
    arguments: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Unary:
    """`not a`, `-a`."""

    operator: str
    operand: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    """`or and == != < <= > >= + - * /`, and `x` (so many of) and `per` (for each)."""

    operator: str
    left: Expr
    right: Expr
    operator_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class Within:
    """`value within tolerance of target`."""

    value: Expr
    tolerance: Expr
    target: Expr
    span: Span


Expr = Name | Number | Measure | Text | Truth | Path | Items | Call | Unary | Binary | Within
"""A bare `Name` never stands alone in an expression: one name is a `Path` of length one."""

# --- trivia ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comment:
    """`# …` or `## …`, with its marks, without the newline."""

    text: str
    span: Span

    @property
    def documents(self) -> bool:
        return self.text.startswith("##")


@dataclass(frozen=True, slots=True)
class Trivia:
    """What stands around a statement and means nothing: kept for the formatter.

    leading: comments on the lines above; blanks: for each leading comment, and last for the
    statement itself, whether an empty line stands before it; trailing: a comment on its last line.
    """

    leading: tuple[Comment, ...] = ()
    blanks: tuple[bool, ...] = (False,)
    trailing: Comment | None = None


NO_TRIVIA = Trivia()

# --- statements --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """`{ … }`. `dangling` are comments after the last statement. `opening` is a comment that stands
    behind the `{`. `one_line` says that it was written on one line, which the formatter keeps."""

    statements: tuple[Statement, ...]
    span: Span
    dangling: tuple[Comment, ...] = ()
    opening: Comment | None = None
    one_line: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """`a.b[0..2] = expr [from "source"]`, `a = { … }`."""

    path: Path
    value: Expr | Block
    source: Text | None
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Declare:
    """`KIND NAME [extends PATH] { … }`, and inside a block `a { … }`, `pool decode { … }`,
    `engine extends engines.vllm { … }`: one name (then `name` is None) or two.

    `doc` joins the `##` lines right above, without their marks."""

    kind: Name
    name: Name | None
    extends: Path | None
    body: Block
    span: Span
    doc: str = ""
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Part:
    """`attention latent = mla { … }`."""

    kind: Name
    name: Name
    form: Name
    body: Block
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Repeat:
    """`58 x layer { … }`."""

    count: Number
    kind: Name
    body: Block
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Mention:
    """A name alone: a part in a `layer`."""

    name: Name
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Require:
    """`require` or `expect` (the `keyword`)."""

    keyword: Name
    condition: Expr
    when: Expr | None
    label: Name | None
    because: Text | None
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Allow:
    """`allow CODE because "…" [until "2027-01-31"]`."""

    code: Name
    because: Text
    until: Text | None
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    items: tuple[Expr, ...]
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Drop:
    path: Path
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Let:
    name: Name
    value: Expr
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Import:
    path: Text
    alias: Name | None
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Edition:
    """`kvspec 1`."""

    number: Number
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


@dataclass(frozen=True, slots=True)
class Broken:
    """A declaration that could not be read, known by its kind and name where those could be."""

    kind: Name | None
    name: Name | None
    span: Span
    trivia: Trivia = field(default=NO_TRIVIA, compare=False)


Statement = (
    Assign
    | Declare
    | Part
    | Repeat
    | Mention
    | Require
    | Allow
    | Compare
    | Drop
    | Let
    | Import
    | Edition
    | Broken
)


@dataclass(frozen=True, slots=True)
class Module:
    """One file's tree. `doc` joins the `##` lines that document the file, without their marks."""

    source: SourceFile
    statements: tuple[Statement, ...]
    doc: str = ""
    dangling: tuple[Comment, ...] = ()
