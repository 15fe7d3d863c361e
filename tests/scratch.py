"""A scratch repository: commits of specs, and kvdsl run in it.

Comes in: a folder. Goes out: what git and kvdsl say there. The names and days of commits are fixed,
so that a commit has the same name on every machine.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvdsl.cli import main

SETTINGS: Mapping[str, str] = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


class Scratch:
    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._patch = patch
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        for name in ("COLUMNS", "NO_COLOR", "KVDSL_DEBUG", "GIT_DIR", "GIT_WORK_TREE"):
            patch.delenv(name, raising=False)
        patch.chdir(folder)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        run = subprocess.run(
            ["git", *words], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    def write(self, files: Mapping[str, str | None]) -> None:
        """Files by path; None takes one away."""
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def enter(self, folder: str) -> None:
        """kvdsl runs in a folder of the repository from here on."""
        self._patch.chdir(self.folder / folder)

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def kvdsl(self, *words: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with self._patch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = main(list(words))
        return Ran(code, out.getvalue(), err.getvalue())
