"""The same spec gives the same bytes, whatever the hash seed, the locale and the folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.pages import EXAMPLES, ROOT

PLACES = (
    ("here", {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC"}),
    ("other/far away", {"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo"}),
)


@pytest.mark.parametrize("example", ["llama_405b_tp16", "llama_70b_disaggregated"])
def test_a_page_is_the_same_under_other_seeds_locales_and_folders(
    example: str, tmp_path: Path
) -> None:
    made = []
    for name, settings in PLACES:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        shutil.copy(EXAMPLES[example], folder / "plan.kvspec")
        subprocess.run(
            [sys.executable, "-m", "kvdsl", "report", "plan.kvspec", "--output", "html=out.html"],
            cwd=folder, check=True, capture_output=True,
            env={**os.environ, **settings, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        made.append((folder / "out.html").read_bytes())
    assert made[0] == made[1]
    assert str(tmp_path).encode() not in made[0]


def test_a_pdf_is_the_same_under_another_seed_and_clock() -> None:
    """Of a short report: what could differ (fonts, ids, dates) is in it."""
    code = (
        "import sys; from kvdsl.render.html import report_html; "
        "from kvdsl.render.pdf import PdfUnavailable, report_pdf; "
        "from tests.test_report import bare\n"
        "try: sys.stdout.buffer.write(report_pdf(report_html([bare()], '0.1.0')))\n"
        "except PdfUnavailable: pass\n"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True,
            env={**os.environ, **settings, "PYTHONPATH": str(ROOT)},
        ).stdout
        for _, settings in PLACES
    ]  # fmt: skip
    if not made[0]:
        pytest.skip("no Pango here")
    assert made[0].startswith(b"%PDF")
    assert made[0] == made[1]
