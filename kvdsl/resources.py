"""Finds what ships beside the code: the grammar, the templates and the catalog.

Comes in: a path below `grammar/`, `templates/` or `specs/catalog/`. Goes out: a path to read. Not
its job: reading catalogs (project) or templates (render).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


@cache
def _root() -> Path:
    """The folder that holds them: `_data` in a wheel, the checkout itself otherwise."""
    shipped = _PACKAGE / "_data"
    return shipped if shipped.is_dir() else _PACKAGE.parent


def resource(*parts: str) -> Path:
    """`resource("specs", "catalog")`; it need not exist."""
    return _root().joinpath(*parts)


def grammar_text() -> str:
    return resource("grammar", "kvspec.lark").read_text(encoding="utf-8")
