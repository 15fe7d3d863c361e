"""Same text and catalog, same bytes: whatever the hash seed, and in whatever folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SPECS = ("llama_405b_tp16", "deepseek_v3_dp_attention")
COMMANDS = (
    ("plan", "--output", "json"),
    ("check", "--output", "json"),
    ("graph", "--form", "json"),
)


def told(command: tuple[str, ...], spec: str, folder: Path, seed: int) -> bytes:
    """What a command writes to stdout, run in `folder` with its own copy of the spec."""
    folder.mkdir(parents=True)
    text = (ROOT / "specs" / "examples" / f"{spec}.kvspec").read_bytes()
    (folder / "prod.kvspec").write_bytes(text)
    # A cache of its own: a check that is replayed would prove nothing.
    own = {
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": str(seed),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    verb, *options = command
    run = subprocess.run(
        [sys.executable, "-m", "kvdsl", verb, "prod.kvspec", *options],
        cwd=folder,
        env={**os.environ, **own},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    assert run.stdout
    return run.stdout


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_two_runs_under_two_hash_seeds_in_two_folders_write_the_same_bytes(
    command: tuple[str, ...], spec: str, tmp_path: Path
) -> None:
    first = told(command, spec, tmp_path / "here", seed=1)
    second = told(command, spec, tmp_path / "there" / "deeper", seed=2)
    assert first == second
