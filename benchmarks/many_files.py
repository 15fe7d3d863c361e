"""`python -m benchmarks.many_files [RUNS]`: what checking a repository of many specs costs.

Each file is a deployment of its own: fourteen models, five nodes, seven layouts, three engines or
none, its own length and load, hardware imported from a file that others import too, and two
requirements. Times are of a first check, which keeps nothing: wall clock, and the seconds of
processor that it and its workers took, which a busy machine does not lengthen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import perf_counter

from benchmarks.machine import machine

ROOT = Path(__file__).resolve().parent.parent
COUNTS = (1, 100, 300, 1000)

MODELS = (
    "llama_3_1_8b", "llama_3_1_70b", "llama_3_1_405b", "qwen3_32b", "qwen3_235b_a22b",
    "gpt_oss_120b", "gpt_oss_20b", "deepseek_v3", "mistral_large_2411", "gemma_3_27b", "phi_4",
    "llama_4_scout", "qwen3_next_80b_a3b", "kimi_k2",
)  # fmt: skip
NODES = ("hgx_h100", "hgx_h200", "hgx_b200", "dgx_h200", "hgx_b300")
LAYOUTS = (
    "tp = 8", "tp = 4", "tp = 8; pp = 2", "tp = 16", "tp = 2; replicas = 4",
    "attention { dp = 8 }; ffn { tp = 8 }", "attention { tp = 4; dp = 2 }; ffn { tp = 8 }",
)  # fmt: skip
ENGINES = ("vllm_0_33", "sglang_0_5_23", "tensorrt_llm_1_2", "")

HARDWARE = """\
kvspec 1

cluster pair {{ nodes = 2 x nodes.{node}; fabric = links.infiniband_ndr }}
"""
SPEC = """\
kvspec 1

import "../hardware/{node}.kvspec"

## Serves team {number}.
deployment team_{number} {{
  model   = models.{model}
  weights = formats.fp8
  kv      = formats.{kv}
  on      = {node}.pair
{engine}
  layout   {{ {layout} }}
  budget   {{ utilization = {utilization} %; reserve = 6 GB }}
  workload {{ prompt = {prompt} tok; output = 400 tok; concurrency = {concurrency} req }}

  require kv.tokens >= 100 ktok because "a day of chats"
  expect  decode.tpot <= 50 ms
}}
"""


def spec(number: int) -> str:
    engine = ENGINES[number % len(ENGINES)]
    return SPEC.format(
        number=number,
        model=MODELS[number % len(MODELS)],
        node=NODES[number % len(NODES)],
        kv=("bf16", "fp8")[number % 2],
        layout=LAYOUTS[number // 3 % len(LAYOUTS)],
        engine=f"  engine  = engines.{engine}" if engine else "",
        utilization=85 + number % 10,
        prompt=1000 + 37 * (number % 211),
        concurrency=1 + number % 97,
    )


def repository(folder: Path, count: int) -> None:
    """So many specs below a folder, ten teams a folder."""
    (folder / "hardware").mkdir(parents=True)
    for node in NODES:
        (folder / "hardware" / f"{node}.kvspec").write_text(HARDWARE.format(node=node), "utf-8")
    for number in range(count):
        place = folder / f"area_{number // 10:03}"
        place.mkdir(exist_ok=True)
        (place / f"team_{number:04}.kvspec").write_text(spec(number), "utf-8")


def checked(folder: Path) -> tuple[float, float, str]:
    """Seconds of wall clock and of processor, and the closing line."""
    command = [sys.executable, "-m", "kvdsl", "check", "--no-cache", "--output", "concise", "."]
    before, start = getrusage(RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    wall, after = perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    if done.returncode > 1:
        raise SystemExit(done.stderr.decode()[-2000:])
    taken = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall, taken, done.stderr.decode().strip().splitlines()[-1]


def main(arguments: list[str]) -> None:
    runs = int(arguments[0]) if arguments else 3
    print(machine())
    print(f"{'files':>6}{'wall':>10}{'processor':>12}{'a file':>10}   {'load':<6}found")
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            repository(folder, count)
            found = [checked(folder) for _ in range(runs)]
        wall, taken = (median(each[i] for each in found) for i in (0, 1))
        each = f"{taken / count * 1000:.1f} ms"
        load = f"{os.getloadavg()[0]:.1f}"
        print(f"{count:>6}{wall:>8.1f} s{taken:>10.1f} s{each:>10}   {load:<6}{found[0][2]}")


if __name__ == "__main__":
    main(sys.argv[1:])
