"""The fonts hold every sign that reports print, and are small enough to carry inline."""

from __future__ import annotations

from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

FONTS = Path(__file__).resolve().parent.parent / "templates" / "fonts"
PROSE = "0123456789 AZaz .,:;%×·≤≥≈→←↑↓±ΔΣµ–—…√∞½−≠“”‘’•✓✗■□●○▲▼⁻³₂€éß"
SPECS = '0123456789 AZaz {}[]()=<>#_"|~+-×·≤≥≈→±Δµ–…─│┌┐└┘├┤┬┴┼█▓▒░▁▂▃▄▅▆▇✓✗∈⌈⌉⌊⌋'


@pytest.mark.parametrize(
    ("name", "signs"),
    [
        ("inter-regular", PROSE),
        ("inter-semibold", PROSE),
        ("jetbrains-mono-regular", SPECS),
        ("jetbrains-mono-bold", SPECS),
    ],
)
def test_a_font_holds_what_reports_print(name: str, signs: str) -> None:
    path = FONTS / f"{name}.woff2"
    known = TTFont(path).getBestCmap()
    assert "".join(sign for sign in signs if ord(sign) not in known) == ""
    assert path.stat().st_size < 40_000


def test_figures_of_the_text_font_can_stand_in_columns() -> None:
    for name in ("inter-regular", "inter-semibold"):
        features = TTFont(FONTS / f"{name}.woff2")["GSUB"].table.FeatureList.FeatureRecord
        assert "tnum" in {record.FeatureTag for record in features}


def test_specs_print_as_they_were_typed() -> None:
    """No ligatures: `<=` stays two signs."""
    for name in ("jetbrains-mono-regular", "jetbrains-mono-bold"):
        features = TTFont(FONTS / f"{name}.woff2")["GSUB"].table.FeatureList.FeatureRecord
        assert {"liga", "calt"}.isdisjoint(record.FeatureTag for record in features)


def test_every_font_comes_with_its_licence() -> None:
    for family in ("inter", "jetbrains-mono"):
        assert "SIL OPEN FONT LICENSE" in (FONTS / f"{family}-OFL.txt").read_text(encoding="utf-8")
