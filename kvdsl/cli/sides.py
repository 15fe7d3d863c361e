"""The two sides of a comparison, read and planned.

Comes in: two shelves and paths on each. Goes out: sides for `review`. What reads the same on both
is planned on neither. Not its job: what changed (review).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError
from kvdsl.render.characters import safe

if TYPE_CHECKING:
    from kvdsl.planning.deploy import Rulebook
    from kvdsl.project.catalog import Catalog
    from kvdsl.project.shelves import Shelf
    from kvdsl.review.sides import Side, Sketches


@dataclass(frozen=True, slots=True)
class Half:
    """A shelf, and its specs by the name that both sides know them by: `prod.kvspec` of two folders
    is one file; and the files of policies that they are held to, each with its shelf."""

    shelf: Shelf
    paths: Mapping[str, str]
    policies: tuple[tuple[Shelf, str], ...] = ()


def same_places(shelf: Shelf, given: Sequence[str], excluded: Sequence[str]) -> dict[str, str]:
    """Specs of paths that mean the same on both sides: each is its own name."""
    from kvdsl.project.ignoring import specs_below

    found: list[str] = []
    for path in given:
        if shelf.is_folder(path):
            found += specs_below(shelf, path, excluded)
        else:
            found.append(path)
    return {os.path.normpath(path): os.path.normpath(path) for path in found}


def below(shelf: Shelf, path: str, excluded: Sequence[str]) -> dict[str, str]:
    """Specs below a folder by their path in it; a file alone has the name ``""``."""
    from kvdsl.project.ignoring import specs_below

    if not shelf.is_folder(path):
        return {"": path}
    found = specs_below(shelf, path, excluded)
    if not found:
        raise CommandError(f"no .kvspec file below `{safe(path)}`")
    return {os.path.relpath(each, path): each for each in found}


def unlike(old: Half, new: Half) -> tuple[str, ...]:
    """Names of files that do not read the same with all that they import. A file that only one
    side has is one, and every file is where a policy does not read the same."""
    from pathlib import Path

    from kvdsl.project.closure import same_text
    from kvdsl.project.reading import Refusal

    found = []
    same: set[str] = set()
    held = zip(old.policies, new.policies, strict=True)
    if not all(same_text(path, was, now) for (was, path), (now, _) in held):
        return tuple(dict.fromkeys((*new.paths, *old.paths)))
    for name in dict.fromkeys((*new.paths, *old.paths)):
        one, two = old.paths.get(name), new.paths.get(name)
        if one is None or two is None or one != two:
            missing = [
                half.shelf.read(Path(path))
                for half, path in ((old, one), (new, two))
                if path is not None
            ]
            if all(isinstance(text, Refusal) and text.missing for text in missing):
                raise CommandError(f"cannot read `{safe(two or one or name)}`")
            found.append(name)
            continue
        seen = set(same)
        if same_text(one, old.shelf, new.shelf, seen):
            same = seen
        else:
            found.append(name)
    return tuple(found)


def planned(console: Console, half: Half, names: Sequence[str], catalog: Catalog) -> Side:
    """The side with the plans of these files. A file that the side has not is left out."""
    from pathlib import Path

    from kvdsl.cli.progress import shown
    from kvdsl.project.loader import load
    from kvdsl.project.reading import Refusal
    from kvdsl.review.sides import Side
    from kvdsl.sketches import sketched

    files: dict[str, Sketches] = {}
    book = _book(half, catalog)
    paths = [(name, half.paths[name]) for name in names if name in half.paths]
    for name, path in shown(console, ((path, (name, path)) for name, path in paths)):
        text = half.shelf.read(Path(path))
        if isinstance(text, Refusal) and text.missing:
            continue
        made = sketched(load(path, catalog, half.shelf), book)
        # Two files that are compared by hand have one name for both, and show none.
        plans, fleets = (
            [replace(p, file=name) for p in each] for each in (made.plans, made.fleets)
        )
        files[name] = replace(made, plans=tuple(plans), fleets=tuple(fleets))
    return Side(half.shelf.title, files)


def _book(half: Half, catalog: Catalog) -> Rulebook:
    """The policies of a side. One that it cannot read holds nobody there: a revision may be older
    than its policies."""
    from kvdsl.pipeline import policies_of
    from kvdsl.planning.deploy import Rulebook

    found = (policies_of(path, catalog, shelf) for shelf, path in half.policies)
    return Rulebook(tuple(policy for policies, _ in found for policy in policies))


def held_to(paths: Sequence[str], shelf: Shelf) -> tuple[tuple[Shelf, str], ...]:
    """Files of policies with the shelf that one side reads them from: one from outside a
    repository is of no revision, and holds both sides as it lies."""
    from pathlib import Path

    from kvdsl.project.shelves import DISK

    fence = shelf.fence(Path())
    places = map(os.path.normpath, paths)
    return tuple((DISK if fence.refused(Path(), each) else shelf, each) for each in places)


def refuse_no_policies(paths: Sequence[str]) -> None:
    """CommandError where a file, as it lies, has no policy, or a fault."""
    from kvdsl.pipeline import policies_of

    for path in paths:
        policies, report = policies_of(path)
        if report.failed:
            fault = report.diagnostics[0]
            # A file that nobody can read has no lines.
            place = f"{fault.span}: " if fault.span.file.text else ""
            raise CommandError(safe(f"{place}{fault.headline}"))
        if not policies:
            raise CommandError(f"no policy in `{safe(path)}`")
