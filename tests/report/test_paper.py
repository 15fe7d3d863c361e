"""A report on paper: pages, outline, links, fonts, repeated heads, and no figure cut in two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from io import BytesIO
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kvdsl.plan import Entry
from kvdsl.render.chapters import SECTIONS
from kvdsl.render.html import report_html
from kvdsl.render.pdf import PdfUnavailable, report_pdf
from tests.report.pages import page
from tests.sample_plan import PLAN

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
EXAMPLE = "llama_405b_tp16"
PAPERS = (EXAMPLE, "hostile")


def drawn(html: str) -> bytes:
    try:
        return report_pdf(html)
    except PdfUnavailable as missing:
        pytest.skip(str(missing))


@cache
def paper(name: str) -> Any:
    import pypdf

    return pypdf.PdfReader(BytesIO(drawn(page(name))))


@cache
def texts(name: str) -> tuple[str, ...]:
    return tuple(_plain(sheet.extract_text()) for sheet in paper(name).pages)


def _plain(text: str) -> str:
    """Without spaces: where a line or a kerned pair ends is the reader's guess."""
    return re.sub(r"\s+", "", text)


def _titles(outline: object) -> Iterator[str]:
    assert isinstance(outline, list)
    for item in outline:
        if isinstance(item, list):
            yield from _titles(item)
        else:
            yield item.title


def test_the_outline_has_the_deployment_and_its_sections() -> None:
    titles = list(_titles(paper(EXAMPLE).outline))
    wanted = [title for _, title, _ in SECTIONS if title in titles]
    assert titles[0] == "llama_405b"
    assert [t for t in titles if t in wanted] == wanted
    assert {"Verdict", "Findings", "Placement", "Derivations", "The spec"} <= set(titles)


@pytest.mark.parametrize("name", PAPERS)
def test_links_inside_lead_to_pages(name: str) -> None:
    reader = paper(name)
    links = [a.get_object() for sheet in reader.pages for a in sheet.get("/Annots", ())]
    inside = [link["/Dest"] for link in links if "/Dest" in link]
    assert len(inside) > 30
    assert set(inside) <= set(reader.named_destinations)


def test_contents_give_the_page_where_a_section_begins() -> None:
    first = texts(EXAMPLE)[0]
    for section, word in (
        ("Memory", "Memoryofonedevice(GB)"),
        ("Alternatives", "Layoutssidebyside"),
    ):
        said = re.search(rf"{section}[.]+(\d+)", first)
        assert said, section
        assert word in texts(EXAMPLE)[int(said[1]) - 1]


@pytest.mark.parametrize("name", PAPERS)
def test_every_page_bears_its_number_and_all_but_the_first_a_head(name: str) -> None:
    pages = texts(name)
    assert 4 < len(pages) < 24
    for number, text in enumerate(pages, start=1):
        assert f"{number}/{len(pages)}" in text
        assert ("Capacityreport" in text) or number > 1
    if name == EXAMPLE:
        assert all("llama_405b" in text and "Capacityreport" in text for text in pages)


def test_paper_promises_no_hover() -> None:
    told = "".join(texts(EXAMPLE))
    assert _plain("All are rounded here; the HTML report has them exact.") in told
    assert "hover" not in told


def test_a_long_table_repeats_its_head_on_every_page() -> None:
    import pypdf

    many = tuple(Entry(f"figure {i}", "1 B", "", f"source {i}", None) for i in range(90))
    plan = replace(PLAN, sources=many, values={}, findings=(), charts=(), pictures=(), texts=())
    pages = pypdf.PdfReader(BytesIO(drawn(report_html([plan], "0.1.0")))).pages
    holding = [t for sheet in pages if "figure 4" in (t := sheet.extract_text())]
    held = [t for sheet in pages if re.search(r"figure \d+", t := sheet.extract_text())]
    assert holding
    assert len(held) >= 2
    assert all(re.search(r"Source\s+Figure\s+Value\s+Where", text) for text in held)


@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_lies_on_one_page(name: str) -> None:
    """All words of a picture are on one page."""
    figures = re.findall(r"<svg .*?</svg>", page(name), re.DOTALL)
    assert len(figures) >= 5
    for figure in figures:
        root = ET.fromstring(figure)
        words = [_plain(e.text or "") for e in root.iter("{http://www.w3.org/2000/svg}text")]
        sheets = [t for t in texts(name) if all(word in t for word in words)]
        assert sheets, (root.get("id"), words[:4])


@pytest.mark.parametrize("name", PAPERS)
def test_all_fonts_are_the_reports_own_and_inside(name: str) -> None:
    fonts = {}
    for sheet in paper(name).pages:
        for font in sheet["/Resources"]["/Font"].values():
            inner = font.get_object()["/DescendantFonts"][0].get_object()
            fonts[inner["/BaseFont"]] = inner["/FontDescriptor"]
    assert all(f.get("/FontFile2") or f.get("/FontFile3") for f in fonts.values())
    families = {re.sub(r"^/\w+\+|-.*", "", font) for font in fonts}
    assert families == {"Inter", "JetBrains"}
