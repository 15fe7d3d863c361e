"""The machine in words: what a figure was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> str:
    """`Intel(R) Xeon(R) Processor, 2 cores, 23 GB, Linux, Python 3.11.7`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    words = [_processor(), f"{cores} cores", _memory(), platform.system()]
    return ", ".join(w for w in words if w) + f", Python {platform.python_version()}"


def _proc(file: str, key: str) -> str:
    path = Path("/proc") / file
    if not path.exists():
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def _processor() -> str:
    return _proc("cpuinfo", "model name") or platform.processor() or platform.machine()


def _memory() -> str:
    kibibytes = _proc("meminfo", "MemTotal").partition(" ")[0]
    return f"{int(kibibytes) * 1024 / 1e9:.0f} GB" if kibibytes else ""
