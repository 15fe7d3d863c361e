"""The catalog with its files kept from text to text: most of a check would go into reading them.

A tree is frozen, so that no text can change what the next one sees. A share of the texts reads the
catalog anew all the same (trial).
"""

from __future__ import annotations

from kvdsl.project.catalog import Catalog
from kvdsl.project.files import Loaded


class KeptCatalog(Catalog):
    """Each has its own list of what its text named; only the trees are shared."""

    _kept: dict[tuple[str, str], Loaded] = {}  # noqa: RUF012 - shared on purpose

    def file(self, plural: str, name: str) -> Loaded | None:
        key = (plural, name)
        if key in self._kept:
            return self._files.setdefault(key, self._kept[key])
        found = super().file(plural, name)
        if found is not None:
            self._kept[key] = found
        return found
