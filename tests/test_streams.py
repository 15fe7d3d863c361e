"""Streams that are closed or full: told in one line and with 2, never a trace nor a fault."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = "specs/examples/adaptive_cp_h20.kvspec"
ROOT = Path(__file__).resolve().parent.parent
CLOSED = "error: cannot write the output: stdout is closed\n"
FULL = "error: cannot write the output: No space left on device\n"
FULL_DEVICE = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")


def ran(words: str, streams: str) -> tuple[int, str, str]:
    command = f"{shlex.quote(sys.executable)} -m kvdsl {words} {streams}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True,
                          check=False)  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        f"get {EXAMPLE} adaptive.kv.tokens", f"check --no-cache {EXAMPLE}", f"check {EXAMPLE}",
        f"plan {EXAMPLE}", "rule KV215", "-V", "check --help",
    ],
)  # fmt: skip
def test_a_closed_stdout_is_told(words: str) -> None:
    assert ran(words, ">&-") == (2, "", CLOSED)
    assert ran(words, ">&- 2>&-") == (2, "", "")


@FULL_DEVICE
@pytest.mark.parametrize("words", [f"plan {EXAMPLE}", f"check {EXAMPLE}", "rule KV215", "-V"])
def test_a_full_device_is_told_as_one(words: str) -> None:
    assert ran(words, ">/dev/full") == (2, "", FULL)


@FULL_DEVICE
def test_talk_that_cannot_be_written_ends_with_2() -> None:
    assert ran("dance", "2>/dev/full") == (2, "", "")


def test_what_writes_nothing_needs_no_stdout() -> None:
    assert ran(f"fmt --check {EXAMPLE}", ">&-") == (0, "", "")


def test_without_a_stderr_data_comes_all_the_same() -> None:
    with_it = ran(f"get {EXAMPLE} adaptive.kv.tokens", "")
    assert with_it[0] == 0
    assert ran(f"get {EXAMPLE} adaptive.kv.tokens", "2>&-") == (0, with_it[1], "")


def test_a_closed_stdin_is_told() -> None:
    code, out, err = ran("check -", "<&-")
    assert (code, err) == (2, "1 error in 1 file\n")
    assert out.startswith("error[KV020]: cannot read `<stdin>`: stdin is closed\n")
    assert ran("import hf -", "<&-") == (
        2, "", "error: cannot read standard input: stdin is closed\n",
    )  # fmt: skip
