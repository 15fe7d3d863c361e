"""Which pages there are: the file below `docs/`, and the function that gives its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kvdsl.reference import catalog_page, language_page, rules_page, techniques_page

PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "language.md": language_page.page,
        "rules.md": rules_page.page,
        "catalog.md": catalog_page.page,
        "techniques.md": techniques_page.page,
    }
)
