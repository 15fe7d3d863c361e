"""The report on paper: the same page, printed.

Comes in: a report's HTML. Goes out: a PDF with page numbers, bookmarks and a linked contents list,
the same bytes for the same page. Not its job: looks; they are in the stylesheet.
"""

from __future__ import annotations

import re


class PdfUnavailable(Exception):
    """The libraries that draw PDFs are missing; the message says in one line what to install."""


_MISSING = (
    "PDF needs Pango, which is not installed; on Debian and Ubuntu: "
    "apt-get install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
)


_HOVERS = re.compile(r'<span class="q" title="[^"<]*">([^<]*)</span>')
"""A figure that is exact on hover. Paper has no hover, and each element costs time to lay out."""


def report_pdf(html: str) -> bytes:
    """Raises PdfUnavailable where Pango is missing. Nothing is fetched: a report holds it all."""
    try:
        from weasyprint import HTML
    except OSError as error:
        raise PdfUnavailable(_MISSING) from error
    made = HTML(string=_HOVERS.sub(r"\1", html)).write_pdf(
        pdf_identifier=b"kvdsl report", pdf_tags=True
    )
    assert isinstance(made, bytes)
    return made
