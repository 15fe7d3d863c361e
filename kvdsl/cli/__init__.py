"""The command line: one file a command; talk on stderr, data on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code. A check whose inputs have not changed is replayed before
    anything else is imported."""
    from kvdsl.cli.replay import replayed

    given = list(sys.argv[1:] if arguments is None else arguments)
    code = replayed(given)
    if code is not None:
        return code
    from kvdsl.cli.application import main as run

    return run(given)
