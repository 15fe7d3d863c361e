"""What every part of the resolver may ask of the whole.

Comes in: nothing. Goes out: the protocol that the evaluator, the attribute readers and the builders
are written against, so that they need not know each other. Not its job: any of the answers
(declarations).
"""

from __future__ import annotations

from typing import Protocol

from kvdsl.diagnostics import Diagnostic, Label, Message
from kvdsl.project.catalog import Catalog
from kvdsl.project.configs import ConfigRead
from kvdsl.project.files import Loaded
from kvdsl.resolve.blocks import Raw
from kvdsl.resolve.names import Bound, Declared, FileNames, Scope
from kvdsl.resolve.values import Reference, Value
from kvdsl.source import Span
from kvdsl.spec.declaration import Declaration
from kvdsl.syntax.nodes import Expr

EXPRESSION, LET, EXTENDS, BLOCK, DECLARATION = 5, 6, 6, 8, 16
"""Python frames that one more level costs, at the most."""


class Context(Protocol):
    """A method that answers None has said why, or knows that it was said."""

    found: list[Diagnostic]
    catalog: Catalog
    lenient: bool
    """An abstract declaration is being read: what is missing may come from a child."""
    wanted: tuple[str, ...]
    """The kinds that a name in the value at hand had better be of; none where any may stand."""

    def tell(self, message: Message, *labels: Label) -> None: ...

    def deeper(self, cost: int, span: Span) -> bool:
        """Whether there is room for one more level; `shallower` gives it back."""

    def shallower(self, cost: int) -> None: ...

    def names(self, file: Loaded, plural: str = "") -> FileNames: ...

    def evaluate(self, expr: Expr, scope: Scope) -> Value | None: ...

    def bound(self, let: Bound, at: Span) -> Value | None:
        """The value of a `let`, computed once."""

    def raw(self, declared: Declared, at: Span) -> Raw | None:
        """A declaration's block with all that it inherits."""

    def spec(self, reference: Reference, at: Span) -> Declaration | None:
        """The typed spec behind a reference; abstract ones are refused."""

    def build(self, kind: str, raw: Raw, owner: str) -> Declaration | None:
        """The typed spec of a block of that kind."""

    def config(self, at: Span) -> ConfigRead | None:
        """The config that a file names at a place."""

    def remember(self, expr: Expr, scope: Scope) -> None:
        """That an expression which leaves the resolver (a sweep's) means something in a scope."""
