"""Pages in headless Chromium: measured by a script, without a driver.

A harness page writes reports into frames of several widths, measures each, and leaves what it
found in its title; the browser hands the page over when the harness is done. Print and dark are
looked at by naming their media `all` in a copy of the report: a frame cannot emulate a medium.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
AXE = ROOT / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
HARNESS = (Path(__file__).parent / "harness.html").read_text(encoding="utf-8")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-dev-shm-usage", "--enable-logging=stderr",
    "--window-size=1600,1000", "--dump-dom", "--virtual-time-budget=120000",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def needed(found: object, name: str) -> None:
    """Skips where a tool is missing: on a developer's machine, never in CI."""
    if found:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{name} is missing; .ci/browser installs it")
    pytest.skip(f"no {name} here: run bash .ci/browser")


def browser() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


def printed(page: str) -> str:
    """The page as its print rules make it, on any medium."""
    page = page.replace("@media screen", "@media not all").replace("@media print", "@media all")
    return page.replace('<style media="screen">', '<style media="not all">')


def dark(page: str) -> str:
    return re.sub(r"\(prefers-color-scheme: ?dark\)", "(min-width: 0)", page)


def measured(folder: Path, views: dict[str, tuple[str, int]], *, audit: bool) -> dict[str, Any]:
    """What the harness finds of each view: a page and a width."""
    program = browser()
    needed(program, "chromium")
    assert program is not None
    if audit:
        needed(AXE.exists(), "axe-core")
    axe = AXE.read_bytes() if audit else b""
    pages = list(dict.fromkeys(page for page, _ in views.values()))
    asked = {name: [pages.index(page), width] for name, (page, width) in views.items()}
    text = HARNESS.replace("$VIEWS", json.dumps(asked)).replace("$AXE", _packed(axe))
    text = text.replace("$PAGES", json.dumps([_packed(page.encode()) for page in pages]))
    harness = folder / "harness.html"
    harness.write_text(text, encoding="utf-8")
    run = subprocess.run(
        [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", harness.as_uri()],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    title = re.search(r"<title>(\{.*?\})</title>", run.stdout, re.DOTALL)
    assert title, run.stderr[-2000:]
    found: dict[str, Any] = json.loads(html.unescape(title[1]))
    found["console"] = re.findall(r"CONSOLE[^\n]*", run.stderr)
    return found


def _packed(data: bytes) -> str:
    return b64encode(data).decode()
