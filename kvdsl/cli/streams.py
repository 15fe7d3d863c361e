"""The process's two streams, which may be closed, full or no terminal.

Comes in: a stream, or None where the process was started without it. Goes out: one that is always
there to be asked. Not its job: width and colour (console).
"""

from __future__ import annotations

import os
from io import TextIOBase
from typing import TextIO


class Unwritable(Exception):
    """A stream takes nothing more; the text says why. No OSError: those belong to files, and are
    told with their path."""


class Stream(TextIOBase):
    """Writes to another. A closed pipe stays what it is; any other refusal is `Unwritable`. Where
    there is no stream, talk is dropped, as for a stderr of /dev/null; data is not: whoever asked
    for it must learn that it went nowhere."""

    def __init__(self, inner: TextIO | None, dropped: bool = False) -> None:
        self._inner = inner
        self._dropped = dropped

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._inner, "encoding", None) or "utf-8"

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return getattr(self._inner, "errors", None)

    def isatty(self) -> bool:
        return self._inner is not None and self._inner.isatty()

    def fileno(self) -> int:
        if self._inner is None:
            raise OSError("there is no such stream")
        return self._inner.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if self._inner is None:
            if text and not self._dropped:
                raise Unwritable("stdout is closed")
            return len(text)
        try:
            return self._inner.write(text)
        except OSError as error:
            raise _refusal(error) from None

    def flush(self) -> None:
        if self._inner is None:
            return
        try:
            self._inner.flush()
        except OSError as error:
            raise _refusal(error) from None

    def silence(self) -> None:
        """Python flushes once more as it ends, and would complain about what is still unwritten."""
        if self._inner is None:
            return
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._inner.fileno())
        except (OSError, ValueError):
            return


def _refusal(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return error
    return Unwritable(error.strerror or "the stream takes nothing")
