"""`python -m benchmarks [RUNS]`: every benchmark in turn, printed as tables."""

from __future__ import annotations

import sys

from benchmarks import check_cost
from benchmarks.machine import machine


def main(arguments: list[str]) -> None:
    runs = int(arguments[0]) if arguments else 15
    print(machine())
    check_cost.run(runs)


if __name__ == "__main__":
    main(sys.argv[1:])
