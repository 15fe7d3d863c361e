"""The catalog: which names it holds, and one file for each.

Comes in: a plural and a name. Goes out: that one file's tree, parsed when first asked for. Not its
job: what the declaration in it means (resolve).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from kvdsl.project.files import Loaded, parsed, unreadable
from kvdsl.project.reading import Refusal, read
from kvdsl.resources import resource

PLURALS: Mapping[str, str] = MappingProxyType(
    {
        "models": "model",
        "devices": "device",
        "links": "link",
        "nodes": "node",
        "racks": "rack",
        "clusters": "cluster",
        "formats": "format",
        "recipes": "recipe",
        "tiers": "tier",
        "engines": "engine",
        "libraries": "library",
    }
)
"""How the catalog calls each kind."""


def catalog_root() -> Path:
    return resource("specs", "catalog")


@cache
def _listed(root: Path, plural: str) -> tuple[str, ...]:
    folder = root / plural
    if plural not in PLURALS or not folder.is_dir():
        return ()
    return tuple(sorted(path.stem for path in folder.glob("*.kvspec")))


Figures = Mapping[str, Mapping[str, str | None]]
"""By entry and path, what an entry said at another time; None for what it did not say."""


class Catalog:
    """One folder of catalog files. A file is read once, and only if somebody names it. `figures`
    take the place of what its entries say: a lock's, to plan as it was."""

    def __init__(self, root: Path | None = None, figures: Figures | None = None) -> None:
        self.root = root or catalog_root()
        self.figures: Figures = figures or {}
        self._files: dict[tuple[str, str], Loaded] = {}
        self.kept: dict[type, object] = {}
        """What later stages know of these files, by the type that they keep it in."""

    def names(self, plural: str) -> tuple[str, ...]:
        """Names under a plural, sorted; none for a word that is no plural."""
        return _listed(self.root, plural)

    def file(self, plural: str, name: str) -> Loaded | None:
        """The file that declares `plural.name`; None if the catalog has no such name."""
        if name not in self.names(plural):
            return None
        key = (plural, name)
        if key not in self._files:
            shown = f"catalog/{plural}/{name}.kvspec"
            text = read(self.root / plural / f"{name}.kvspec")
            self._files[key] = (
                unreadable(shown, text) if isinstance(text, Refusal) else parsed(shown, text)
            )
        return self._files[key]

    @property
    def loaded(self) -> tuple[Loaded, ...]:
        """What has been read so far, in that order."""
        return tuple(self._files.values())
