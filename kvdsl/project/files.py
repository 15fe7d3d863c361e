"""One loaded file: its tree, what was wrong with its text, and the files that it names.

Comes in: a text under a name. Goes out: a `Loaded`. Not its job: finding the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvdsl.diagnostics import Diagnostic
from kvdsl.project.configs import ConfigRead
from kvdsl.project.messages import Unreadable
from kvdsl.project.reading import Refusal
from kvdsl.source import SourceFile, Span
from kvdsl.syntax.nodes import Import, Module


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """One import under its name; `file` is None where it could not be loaded."""

    node: Import
    file: Loaded | None


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A file's tree. A file that cannot be read has an empty tree and one diagnostic."""

    module: Module
    diagnostics: tuple[Diagnostic, ...] = ()
    imports: Mapping[str, Imported] = field(default_factory=dict)
    configs: Mapping[Span, ConfigRead] = field(default_factory=dict)

    @property
    def source(self) -> SourceFile:
        return self.module.source


def parsed(name: str, text: str) -> Loaded:
    """The tree of a text that imports nothing: the loader adds imports."""
    from kvdsl.syntax.parser import parse

    module, diagnostics = parse(SourceFile(name, text))
    return Loaded(module, diagnostics)


def unreadable(name: str, refusal: Refusal) -> Loaded:
    source = SourceFile(name, "")
    message = Unreadable(source.span(0, 0), name, refusal.reason, refusal.way_out)
    return Loaded(Module(source, ()), (message.diagnostic(),))
