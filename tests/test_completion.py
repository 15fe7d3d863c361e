"""Completion in three shells, and the bar that a terminal shows while something takes long."""

from __future__ import annotations

import io
import shutil
import subprocess
from dataclasses import replace

import pytest

from kvdsl.cli import main, progress
from kvdsl.cli.completion import SHELLS, VARIABLE
from kvdsl.cli.console import Console

# --- completion --------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{VARIABLE}={shell}_complete" in script
    assert "kvdsl" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_takes_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out + "\ncomplete -p kvdsl\n"
    ran = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "_kvdsl_completion kvdsl" in ran.stdout


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        ("kvdsl ch", ["plain,check"]),
        ("kvdsl check --outp", ["plain,--output"]),
        ("kvdsl plan prod", ["file,prod"]),
        ("kvdsl completion z", ["plain,zsh"]),
    ],
)
def test_a_shell_that_asks_is_answered(
    words: str,
    answers: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert main([]) == 0
    assert capsys.readouterr().out.split() == answers


# --- the bar -----------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def console(talk: io.StringIO) -> Console:
    return replace(Console.of({}), talk=talk, columns=40)


STEPS = [("a.kvspec", 1), ("b\x1b[31m.kvspec", 2), ("c" * 99, 3)]


def test_the_bar_shows_once_patience_is_over_and_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1)
    talk = Terminal()
    assert list(progress.shown(console(talk), STEPS)) == [1, 2, 3]
    lines = talk.getvalue().split(progress.WIPED)
    assert lines[1] == "[....................] 0/3 a.kvspec"
    assert "1/3 b<U+001B>" in lines[3]
    assert all(len(line) < 40 for line in lines)
    assert lines[-1] == ""


def test_what_is_quick_a_single_step_and_what_is_no_terminal_have_no_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick, single, log = Terminal(), Terminal(), io.StringIO()
    assert list(progress.shown(console(quick), STEPS)) == [1, 2, 3]
    monkeypatch.setattr(progress, "PATIENCE", -1)
    assert list(progress.shown(console(single), STEPS[:1])) == [1]
    assert list(progress.shown(console(log), STEPS)) == [1, 2, 3]
    assert quick.getvalue() == single.getvalue() == log.getvalue() == ""
