"""Loads a spec and the files that it imports.

Comes in: a path, `-` for standard input, or a text. Goes out: a `Project`: the main file with its
imports, and the catalog. A file that cannot be read is a diagnostic, never an exception. Not its
job: what names mean (resolve).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from kvdsl.diagnostics import Diagnostic
from kvdsl.project.catalog import Catalog
from kvdsl.project.configs import configs_of
from kvdsl.project.files import Imported, Loaded, parsed, unreadable
from kvdsl.project.messages import BadImport, ImportCycle, UnnamedImport
from kvdsl.project.reading import Refusal, read_standard_input
from kvdsl.project.shelves import DISK, Shelf
from kvdsl.recall import Recall
from kvdsl.source import Span
from kvdsl.syntax.nodes import Import

STANDARD_INPUT = "-"
MOST_FILES = 1_000
"""More files than a person would import; it bounds what a generated chain can cost."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """The main file, every file that it reaches in import order (itself last), and the catalog."""

    main: Loaded
    files: tuple[Loaded, ...]
    catalog: Catalog = field(default_factory=Catalog)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was wrong with the texts read so far, the catalog's too."""
        every = (*self.files, *self.catalog.loaded)
        return tuple(d for file in every for d in file.diagnostics)


def load(path: str, catalog: Catalog | None = None, shelf: Shelf = DISK) -> Project:
    """The project of a file, under the name that the user gave. Imports come off the same shelf."""
    if path == STANDARD_INPUT:
        text = read_standard_input()
        if isinstance(text, Refusal):
            return _alone(unreadable("<stdin>", text), catalog)
        return load_text(text, "<stdin>", catalog=catalog)
    refused_or_text = shelf.read(Path(path))
    shown = Path(path).as_posix()
    if isinstance(refused_or_text, Refusal):
        return _alone(unreadable(shown, refused_or_text), catalog)
    folder = Path(path).parent
    return load_text(refused_or_text, shown, folder, catalog=catalog, shelf=shelf)


def load_text(
    text: str,
    name: str = "<text>",
    folder: Path | None = None,
    *,
    catalog: Catalog | None = None,
    shelf: Shelf = DISK,
) -> Project:
    """The project of a text; its imports are looked for in `folder` (the working folder)."""
    base = folder if folder is not None else Path()
    shown = PurePosixPath(name).parent if folder is not None else PurePosixPath()
    loading = _Loading(shelf, base)
    main = loading.followed(parsed(name, text), base, shown, (base / Path(name).name,))
    return Project(main, (*loading.order, main), catalog or Catalog())


def _alone(file: Loaded, catalog: Catalog | None) -> Project:
    return Project(file, (file,), catalog or Catalog())


class _Loading:
    """The files of one project while they are being followed; each is read once."""

    def __init__(self, shelf: Shelf, base: Path) -> None:
        self._shelf = shelf
        self._fence = shelf.fence(base)
        self._done: dict[Path, Loaded] = {}
        self.order: list[Loaded] = []

    def followed(
        self, file: Loaded, folder: Path, shown: PurePosixPath, chain: tuple[Path, ...]
    ) -> Loaded:
        """The file with what it imports. `chain` are the paths from the main file down to it."""
        imports: dict[str, Imported] = {}
        found: list[Diagnostic] = []
        for node in file.module.statements:
            if not isinstance(node, Import):
                continue
            loaded, diagnostics = self._imported(node, folder, shown, chain)
            found += diagnostics
            name = node.alias.text if node.alias else PurePosixPath(node.path.value).stem
            if not _NAME.fullmatch(name):
                found += [_unnamed(node, name)] if not diagnostics else []
            elif name not in imports:  # the second of a pair is the resolver's to report
                imports[name] = Imported(node, loaded)
        configs = configs_of(file.module, folder, shown, self._fence, self._shelf)
        diagnostics = (*file.diagnostics, *found)
        return replace(file, imports=imports, configs=configs, diagnostics=diagnostics)

    def _imported(
        self, node: Import, folder: Path, shown: PurePosixPath, chain: tuple[Path, ...]
    ) -> tuple[Loaded | None, tuple[Diagnostic, ...]]:
        written = node.path.value
        refusal = _refused(written) or self._fence.refused(folder, written)
        if refusal:
            return None, (_bad(node.path.span, written, refusal),)
        path = Path(os.path.normpath(folder / written))
        if path in (known := [Path(os.path.normpath(p)) for p in chain]):
            circle = [p.name for p in (*known[known.index(path) :], path)]
            message = ImportCycle(node.path.span, " → ".join(circle))
            if len(circle) == 2:
                message = replace(message, way_out="delete it: a file knows its own names")
            return None, (message.diagnostic(),)
        if path in self._done:
            return self._done[path], ()
        if len(self._done) >= MOST_FILES or len(chain) > 50:
            limit = Refusal("the project reaches too many files")
            return None, (_bad(node.path.span, written, limit),)
        text = self._shelf.read(path)
        if isinstance(text, Refusal):
            return None, (_bad(node.path.span, written, text),)
        name = PurePosixPath(os.path.normpath(shown / written))
        fresh = _read(name.as_posix(), text)
        file = self.followed(fresh, path.parent, name.parent, (*chain, path))
        self._done[path] = file
        self.order.append(file)
        return file, ()


def _read(name: str, text: str) -> Loaded:
    """The tree of an imported text: many files of a repository import the same."""
    return _TREES.get((), (name, text), lambda: parsed(name, text))


_TREES: Recall[Loaded] = Recall(64)


def _refused(written: str) -> Refusal | None:
    if not written.strip():
        return Refusal("the path is empty")
    if _URL.match(written):
        return Refusal("it is an address; imports are files", "copy the file beside this one")
    if written.startswith(("/", "\\", "~")) or _DRIVE.match(written):
        return Refusal(
            "the path is absolute, and means nothing on another machine",
            'write it from this file\'s folder, as in `import "../shared/h20.kvspec"`',
        )
    if "\\" in written:
        return Refusal("a path is written with `/`", f"write `{written.replace(chr(92), '/')}`")
    if not written.endswith(".kvspec"):
        way = f'write `import "{written}.kvspec"`' if "." not in written else None
        return Refusal("only .kvspec files can be imported", way)
    return None


def _bad(span: Span, written: str, refusal: Refusal) -> Diagnostic:
    return BadImport(span, written, refusal.reason, refusal.way_out).diagnostic()


def _unnamed(node: Import, stem: str) -> Diagnostic:
    suggestion = re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_") or "hardware"
    if suggestion[0].isdigit():
        suggestion = "spec_" + suggestion
    return UnnamedImport(node.path.span, stem, node.path.value, suggestion).diagnostic()
