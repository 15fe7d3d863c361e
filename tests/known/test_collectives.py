"""Measured collectives, and what libraries of the catalog make of them.

`data/collectives` holds every few rows of the tables of aiconfigurator-core 0.12.0 (Apache-2.0,
collector/network, files in systems/data/*/comm; sizes in bytes, times in microseconds). The worked
example is that of one all-reduce in the decode of Llama 3.1 405B: batch x 32,768 B.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvdsl.formulas import Term
from kvdsl.pipeline import quoter
from kvdsl.planning.quotes import Question, Refused

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).parent / "data" / "collectives"
KIB = 1024

NCCL = ()
VLLM = ("libraries.vllm_kernels", "libraries.nccl")
CASES = [
    # hardware, ranks, batch, libraries, microseconds of the worked example
    ("nodes.hgx_h100", 8, 1, NCCL, 18),
    ("nodes.hgx_h100", 8, 32, NCCL, 29),
    ("nodes.hgx_h100", 8, 256, NCCL, 76),
    ("nodes.hgx_h100", 8, 1, VLLM, 5.2),
    ("racks.gb200_nvl72", 16, 1, NCCL, 46),
    ("racks.gb200_nvl72", 72, 64, NCCL, 202),
]


@pytest.mark.parametrize(("hardware", "ranks", "batch", "libraries", "micros"), CASES)
def test_the_worked_all_reduce(
    hardware: str, ranks: int, batch: int, libraries: tuple[str, ...], micros: float
) -> None:
    found = quoter().quote(hardware, Question("all_reduce", ranks, batch * 32 * KIB), libraries)
    assert found.time * 1e6 == pytest.approx(micros, rel=0.05)
    assert found.low < found.time < found.high


TWO = "kvspec 1\ncluster two { nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }\n"


@pytest.mark.parametrize(("batch", "micros"), [(1, 29), (32, 43), (256, 92)])
def test_the_worked_all_reduce_across_two_nodes(batch: int, micros: float) -> None:
    found = quoter(TWO).quote("two", Question("all_reduce", 16, batch * 32 * KIB))
    assert found.time * 1e6 == pytest.approx(micros, rel=0.05)
    assert "tree" in found.algorithms[0]


ACCURACY = {
    # median and 90th percentile in percent, share inside the band: those of the whole table
    "nccl.csv": (8, 22, 85),
    "custom_allreduce.csv": (9, 26, 80),
    "deepep_ll_multinode.csv": (4, 13, 90),
    "deepep_normal_multinode.csv": (11, 30, 85),
}


@pytest.mark.parametrize("table", ACCURACY)
def test_measured_rows_are_met_as_the_benchmark_prints(table: str) -> None:
    ran = subprocess.run(
        [sys.executable, "benchmarks/collectives.py", str(DATA / table)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    head = ran.stdout.splitlines()[0]
    assert head.endswith("refused 0"), ran.stdout
    line = next(each for each in ran.stdout.splitlines() if each.startswith("all "))
    median, _, p90, inside, _ = (float(word) for word in line.split()[2:])
    most, most_p90, least = ACCURACY[table]
    assert median <= most
    assert p90 <= most_p90
    assert inside >= least


def test_what_no_library_does_is_refused_with_the_reason() -> None:
    with pytest.raises(Refused, match="nccl does no dispatch"):
        quoter().quote("nodes.hgx_h100", Question("dispatch", 8, tokens=128, width=7168))
    with pytest.raises(Refused, match="has 8 devices, not 16"):
        quoter().quote("nodes.hgx_h100", Question("all_reduce", 16, KIB))


def test_deepep_counts_a_copy_for_each_expert_or_one_for_each_rank() -> None:
    """128 tokens of 7,168 values to 8 of 256 experts: 7,392 B in fp8 with a scale every 128."""
    asked = Question("dispatch", 8, tokens=128, width=7168, copies=8, backend="deepep_low_latency")
    found = quoter().quote("nodes.hgx_h100", asked, ("libraries.deepep",))
    sizes = [term.value for term in _all(found.term) if term.label == "bytes of a rank's tokens"]
    assert sizes[0] == 128 * 7392
    assert found.time * 1e6 == pytest.approx(39.8, rel=0.05)  # measured, deepep_ll_multinode.csv


def _all(term: Term) -> Iterator[Term]:
    yield term
    for each in term.inputs:
        yield from _all(each)
