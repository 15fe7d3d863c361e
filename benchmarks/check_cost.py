"""What a command costs beside a bare interpreter: check, plan, reports, and a large fleet.

`check` is measured twice: as a first check, which runs (`--no-cache`), and as a repeated one, which
is replayed because nothing has changed. The replay's cache is a folder of its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.side_by_side import table, timed

ROOT = Path(__file__).resolve().parent.parent
SPEC = "specs/examples/llama_405b_tp16.kvspec"
SLOW_RUNS = 5
"""Runs of what takes seconds."""

FLEET = """\
kvspec 1

cluster hall {
  nodes  = 12_500 x nodes.hgx_h100
  fabric = links.infiniband_ndr
}

deployment fleet {
  model    = models.llama_3_1_405b
  weights  = formats.fp8
  kv       = formats.bf16
  on       = hall
  layout   { tp = 8; pp = 2; replicas = 6250 }
  budget   { utilization = 92 %; reserve = 3 GB }
  workload { context = 8 ktok; concurrency = 100_000 req }
}
"""


def run(runs: int) -> None:
    """Prints the tables."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": folder}
        fleet = Path(folder) / "fleet.kvspec"
        fleet.write_text(FLEET, encoding="utf-8")
        os.chdir(ROOT)
        _start_up(runs, environment)
        _reports(min(runs, SLOW_RUNS), environment, Path(folder))
        _fleet(min(runs, SLOW_RUNS), environment, fleet)


def _start_up(runs: int, environment: Mapping[str, str]) -> None:
    kvdsl = ("-m", "kvdsl")
    commands = {
        "python -c pass": ("-c", "pass"),
        "kvdsl --version": (*kvdsl, "--version"),
        "kvdsl check, repeated": (*kvdsl, "check", SPEC),
        "kvdsl check, first": (*kvdsl, "check", "--no-cache", SPEC),
        "kvdsl plan": (*kvdsl, "plan", SPEC),
    }
    print(table("Start-up and check", timed(commands, runs, environment)))


def _reports(runs: int, environment: Mapping[str, str], folder: Path) -> None:
    report = ("-m", "kvdsl", "report", SPEC, "--to", str(folder))
    commands = {
        "python -c pass": ("-c", "pass"),
        "kvdsl report --output html": (*report, "--output", "html"),
        "kvdsl report --output pdf": (*report, "--output", "pdf"),
    }
    print(table("Reports", timed(commands, runs, environment)))


def _fleet(runs: int, environment: Mapping[str, str], fleet: Path) -> None:
    commands = {
        "kvdsl check, 16 GPUs": ("-m", "kvdsl", "check", "--no-cache", SPEC),
        "kvdsl check, 100,000 GPUs": ("-m", "kvdsl", "check", "--no-cache", str(fleet)),
        "kvdsl graph, 100,000 GPUs": ("-m", "kvdsl", "graph", str(fleet)),
    }
    print(table("A fleet in replicas", timed(commands, runs, environment)))
