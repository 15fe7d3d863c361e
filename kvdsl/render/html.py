"""The report: plans as one HTML page that fetches nothing and runs nothing.

Comes in: the plans of a spec's deployments. Goes out: a page with its styles, fonts and pictures
inside. Not its job: what a deployment's sections tell (chapters), or pages (pdf).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from kvdsl.plan import Plan
from kvdsl.plan.fleets import FleetPlan
from kvdsl.render import listing as spec_listing
from kvdsl.render.chapters import Chapter, chapter
from kvdsl.render.fleet_sheets import FleetSheet
from kvdsl.render.listing import Listing, Mark
from kvdsl.render.places import Places, addressed, cited, slugs
from kvdsl.render.svg import colours
from kvdsl.render.visible import visible
from kvdsl.resources import resource
from kvdsl.units import Quantity, counted, decimals, exact, grouped, shown, unit

if TYPE_CHECKING:
    from jinja2 import Environment

_INNER = ("memory.weights",)

FONTS = (
    ("Inter", 400, "inter-regular"),
    ("Inter", 600, "inter-semibold"),
    ("JetBrains Mono", 400, "jetbrains-mono-regular"),
    ("JetBrains Mono", 700, "jetbrains-mono-bold"),
)


def report_html(plans: Sequence[Plan], version: str, fleets: Sequence[FleetPlan] = ()) -> str:
    """One page for all the plans and fleets, which are of one spec. Raises ValueError for none."""
    if not (plans or fleets):
        raise ValueError("a report needs a plan")
    told = [*(plan.texts for plan in plans), *(fleet.texts for fleet in fleets)]
    texts = dict(text for each in told for text in each)
    names = [*(plan.name for plan in plans), *(fleet.name for fleet in fleets)]
    prefixes = [f"{name}-" for name in slugs(names)]
    several = len(plans) > 1
    chapters = tuple(
        chapter(plan, prefix if several else "", 3 if several else 2)
        for plan, prefix in zip(plans, prefixes, strict=False)
    )
    beside = {told.plan.name: told for told in chapters}
    sheets = tuple(
        FleetSheet(fleet, prefix, beside)
        for fleet, prefix in zip(fleets, prefixes[len(plans) :], strict=True)
    )
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            chapters=chapters,
            fleets=sheets,
            file=plans[0].file if plans else fleets[0].file,
            names=names[: len(plans)] or names,
            title=counted(len(plans), "deployments") if plans else _fleets_title(names),
            several=several,
            summary=_summary(plans),
            version=version,
            places=Places(tuple(texts)),
            listings=_listings(texts, [*chapters, *sheets]),
            style=_style(),
            dark=colours.dark_rules(),
        )
    )


def _fleets_title(names: Sequence[str]) -> str:
    return f"Fleet {names[0]}" if len(names) == 1 else counted(len(names), "fleets")


def _summary(plans: Sequence[Plan]) -> tuple[str, ...]:
    """The key figures that are set side by side: those of service, not how it comes about."""
    labels = (tile.label for plan in plans for tile in plan.tiles if tile.value not in _INNER)
    return tuple(dict.fromkeys(labels))


def _listings(
    texts: Mapping[str, str], told_of: Iterable[Chapter | FleetSheet]
) -> tuple[Listing, ...]:
    marks: dict[tuple[str, int], list[Mark]] = {}
    for told in told_of:
        for finding in told.standing:
            span = finding.diagnostic.span
            mark = Mark(finding.code, finding.severity.value, f"#{told.finding_id(finding)}")
            marks.setdefault((span.file.name, span.line), []).append(mark)
        for number, result in enumerate(told.plan.requirements, start=1):
            mark = Mark(result.status, result.status, f"#{told.prefix}requirement-{number}")
            marks.setdefault((result.span.file.name, result.span.line), []).append(mark)
    return tuple(
        spec_listing.listing(number, name, text, marks)
        for number, (name, text) in enumerate(texts.items())
    )


@cache
def _style() -> str:
    """The stylesheet with its fonts; the same for every report."""
    faces = []
    for family, weight, file in FONTS:
        data = b64encode(resource("templates", "fonts", f"{file}.woff2").read_bytes()).decode()
        faces.append(
            f"@font-face{{font-family:'{family}';font-weight:{weight};font-style:normal;"
            f"font-display:swap;src:url(data:font/woff2;base64,{data}) format('woff2')}}"
        )
    sheet = resource("templates", "report.css").read_text(encoding="utf-8")
    return "\n".join((*faces, sheet))


@cache
def _environment() -> Environment:
    import jinja2
    from markupsafe import Markup

    def finalize(value: object) -> object:
        """Every text that a template prints is made visible, whoever wrote it."""
        if isinstance(value, str) and not isinstance(value, Markup):
            return visible(value)
        return value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        ticked=_ticked,
        shown=_unbroken,
        exact=_exactly,
        hover=_hover,
        percent=_percent,
        number=_number,
        unit=_in_unit,
        linked=addressed,
        cited=cited,
    )
    return environment


def _unbroken(quantity: Quantity) -> str:
    """A quantity that no line end parts from its unit."""
    return shown(quantity).replace(" ", "\N{NO-BREAK SPACE}")


def _exactly(quantity: Quantity) -> str:
    return exact(quantity)


def _hover(quantity: Quantity) -> str:
    """The unrounded figure; empty where the printed one is no rounder."""
    text = shown(quantity)
    number, _, name = text.replace(",", "").partition(" ")
    known = unit(name) if name else (quantity.dimension, Fraction(1))
    try:
        same = known is not None and Fraction(number) * known[1] == quantity.value
    except ValueError:  # infinite
        same = True
    return "" if same else exact(quantity)


def _percent(quantity: Quantity) -> str:
    return f"{grouped(round(float(quantity.value) * 100, 2))}\N{NO-BREAK SPACE}%"


def _number(quantity: Quantity) -> str:
    """The number in whole base units: a share of a block's scales may be a part of a byte."""
    return grouped(round(quantity.value))


def _in_unit(quantity: Quantity, unit: str) -> str:
    """In a unit, with three decimals that stand in a column."""
    number = float(quantity.in_unit(unit))
    return "< 0.001" if 0 < number < 0.0005 else decimals(number, 3)


def _ticked(text: str) -> tuple[tuple[str, bool], ...]:
    """A sentence in runs of (text, whether it stood between backticks and is code)."""
    runs = text.split("`")
    if len(runs) % 2 == 0:  # an odd tick is a tick
        return ((_percents(text), False),)
    return tuple(
        (run if index % 2 else _percents(run), index % 2 == 1)
        for index, run in enumerate(runs)
        if run
    )


def _percents(text: str) -> str:
    """No line ends between a number and its percent sign."""
    return re.sub(r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", text)
