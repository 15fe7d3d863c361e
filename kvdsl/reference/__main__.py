"""`python -m kvdsl.reference [FOLDER]`: writes the reference pages, into `docs` unless told."""

from __future__ import annotations

import sys
from pathlib import Path

from kvdsl.reference.pages import PAGES


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0] if arguments else "docs")
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
