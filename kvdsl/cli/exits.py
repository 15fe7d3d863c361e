"""What the process says when it ends, and the mistakes that end a command early.

Not its job: turning a report into words (render).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from kvdsl.diagnostics import Diagnostic, Report
from kvdsl.project.messages import Unreadable


class Exit(IntEnum):
    FINE = 0
    FINDINGS = 1
    """Findings at error level, a failed `require`, a difference under `fmt --check`."""
    USAGE = 2
    """Usage, an unreadable file, a missing system library."""
    FAULT = 3
    CHANGED = 4
    """Only with `diff --exit-code`."""
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class CommandError(Exception):
    """What the user asked for cannot be done; the text says why. Ends the command with 2."""


def exit_of(report: Report) -> Exit:
    """A file that cannot be read weighs more than findings in those that can."""
    if any(unreadable(diagnostic) for diagnostic in report.diagnostics):
        return Exit.USAGE
    return Exit.FINDINGS if report.failed else Exit.FINE


def worst(exits: Iterable[Exit]) -> Exit:
    return max(exits, default=Exit.FINE)


def unreadable(diagnostic: Diagnostic) -> bool:
    """Whether a named file has no text at all: its place is in an empty file of its name."""
    return diagnostic.code == Unreadable.code and not diagnostic.span.file.text
