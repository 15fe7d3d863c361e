"""The report: plans as one HTML page that fetches nothing and runs nothing.

Comes in: the plans of a spec's deployments. Goes out: a page with its styles, fonts and pictures
inside. Sections are those of `SECTIONS`, in that order; one that a plan has nothing for is left
out. Not its job: computing a figure, or pages (pdf).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kvdsl.plan import Chart, CollectiveRow, Finding, Plan, StepBar
from kvdsl.render import listing as spec_listing
from kvdsl.render.chains import Step, chains
from kvdsl.render.listing import Listing, Mark
from kvdsl.render.places import Places, slug, slugs
from kvdsl.render.svg import colours
from kvdsl.render.svg.curves import curves
from kvdsl.render.svg.memory import memory
from kvdsl.render.svg.placement import placement
from kvdsl.render.svg.step import exchanges, step
from kvdsl.render.visible import visible
from kvdsl.resources import resource
from kvdsl.units import Quantity, exact, grouped, shown, tidy

if TYPE_CHECKING:
    from jinja2 import Environment

_ADDRESS = re.compile(r"https?://[^\s<>\"')]*[^\s<>\"'),.;]")

FONTS = (
    ("Inter", 400, "inter-regular"),
    ("Inter", 600, "inter-semibold"),
    ("JetBrains Mono", 400, "jetbrains-mono-regular"),
    ("JetBrains Mono", 700, "jetbrains-mono-bold"),
)


def _charts(plan: Plan, *rooms: str) -> tuple[Chart, ...]:
    """The charts whose name begins with one of these rooms: `cache.capacity`."""
    return tuple(chart for chart in plan.charts if chart.name.split(".")[0] in rooms)


def _values(plan: Plan, *rooms: str) -> tuple[str, ...]:
    return tuple(name for name in plan.values if name.split(".")[0] in rooms)


_HOMED = ("cache", "kv", "capacity", "sweep", "sweeps", "transfer", "tier", "tiers", "cost")


def _time_charts(plan: Plan) -> tuple[Chart, ...]:
    """Charts of time, and those that name no other section."""
    return tuple(chart for chart in plan.charts if chart.name.split(".")[0] not in _HOMED)


def _always(_plan: Plan) -> bool:
    return True


def _allowed(plan: Plan) -> tuple[Finding, ...]:
    return tuple(f for f in plan.findings if f.waived is not None)


def _standing(plan: Plan) -> tuple[Finding, ...]:
    return tuple(f for f in plan.findings if f.waived is None)


SECTIONS: tuple[tuple[str, str, Callable[[Plan], object]], ...] = (
    ("verdict", "Verdict", _always),
    ("requirements", "Requirements", lambda p: p.requirements or _allowed(p)),
    ("findings", "Findings", _standing),
    ("placement", "Placement", lambda p: p.pictures),
    ("memory", "Memory", lambda p: p.memory),
    ("cache", "Cache", lambda p: p.cache or _charts(p, "cache", "kv", "capacity")),
    ("communication", "Communication", lambda p: p.collectives),
    ("time", "Time", lambda p: p.steps or _time_charts(p)),
    ("alternatives", "Alternatives", lambda p: p.comparison),
    ("sweeps", "Sweeps", lambda p: p.sweeps or _charts(p, "sweep", "sweeps")),
    ("transfer", "Transfer and tiers", lambda p: _values(p, "transfer", "tier")),
    ("cost", "Cost", lambda p: _values(p, "cost")),
    ("derivations", "Derivations", lambda p: p.values),
    ("sources", "Assumptions and sources", lambda p: p.assumptions or p.sources),
)
"""Key (its template's name), title, and whether a plan has anything for it; in reading order."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """One deployment of a report. `prefix` begins every id in it, `level` is its sections' heading
    level (one deeper where a report has several deployments)."""

    plan: Plan
    prefix: str
    level: int
    sections: tuple[tuple[str, str], ...]
    chains: tuple[tuple[str, Step], ...]

    @property
    def standing(self) -> tuple[Finding, ...]:
        return _standing(self.plan)

    @property
    def allowed(self) -> tuple[Finding, ...]:
        return _allowed(self.plan)

    @property
    def pools(self) -> tuple[str, ...]:
        plan = self.plan
        named = [row.pool for row in plan.memory] + [row.pool for row in plan.cache]
        named += [row.pool for row in plan.collectives] + [row.pool for row in plan.steps]
        return tuple(dict.fromkeys(named))

    def finding_id(self, finding: Finding) -> str:
        return f"{self.prefix}finding-{self.plan.findings.index(finding) + 1}"

    def derivation_id(self, value: str) -> str:
        """The id of a value's chain; empty where the plan has none."""
        return f"{self.prefix}value-{slug(value)}" if value in self.plan.values else ""

    def chart_list(self, section: str) -> tuple[Chart, ...]:
        if section == "cache":
            return _charts(self.plan, "cache", "kv", "capacity")
        if section == "sweeps":
            return _charts(self.plan, "sweep", "sweeps")
        if section in ("transfer", "cost"):
            return _charts(self.plan, *(("cost",) if section == "cost" else _HOMED[5:8]))
        return _time_charts(self.plan)

    def value_names(self, *rooms: str) -> tuple[str, ...]:
        return _values(self.plan, *rooms)

    def step_of(self, pool: str, phase: str) -> StepBar | None:
        steps = (s for s in self.plan.steps if s.pool == pool and s.phase == phase)
        return next(steps, None)

    def algorithm(self, row: CollectiveRow) -> str:
        """The formula that gives the time of one: below the one that multiplies it by a count."""
        terms = (row.term, *row.term.inputs)
        names = [term.formula.name for term in terms if term.formula is not None]
        return names[-1] if names else ""

    def picture(self, number: int, title: str) -> str:
        return placement(f"{self.prefix}picture-{number}", title, self.plan.pictures[number])

    def memory_bars(self, pool: str, title: str) -> str:
        rows = [row for row in self.plan.memory if row.pool == pool]
        return memory(f"{self.prefix}memory-{self.pools.index(pool)}", title, rows)

    def exchanges(self, pool: str, phase: str, title: str) -> str:
        bar = self.step_of(pool, phase)
        if bar is None:
            return ""
        rows = [r for r in self.plan.collectives if r.pool == pool and r.phase == phase]
        name = f"{self.prefix}exchanges-{phase}-{self.pools.index(pool)}"
        return exchanges(name, title, rows, bar.whole)

    def step(self, bar: StepBar) -> str:
        return step(f"{self.prefix}step-bar-{self.plan.steps.index(bar)}", bar)

    def chart(self, chart: Chart) -> str:
        return curves(f"{self.prefix}chart-{self.plan.charts.index(chart)}", chart)


def report_html(plans: Sequence[Plan], version: str) -> str:
    """One page for all the plans, which are deployments of one spec. Raises ValueError for none."""
    if not plans:
        raise ValueError("a report needs a plan")
    texts = dict(text for plan in plans for text in plan.texts)
    prefixes = [f"{name}-" for name in slugs(plan.name for plan in plans)]
    several = len(plans) > 1
    chapters = tuple(
        _chapter(plan, prefix if several else "", 3 if several else 2)
        for plan, prefix in zip(plans, prefixes, strict=True)
    )
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            chapters=chapters,
            first=plans[0],
            several=several,
            version=version,
            places=Places(tuple(texts)),
            listings=_listings(texts, chapters),
            style=_style(),
        )
    )


def _chapter(plan: Plan, prefix: str, level: int) -> Chapter:
    sections = tuple((key, title) for key, title, filled in SECTIONS if filled(plan))
    return Chapter(plan, prefix, level, sections, chains(prefix, plan.values))


def _listings(texts: Mapping[str, str], chapters: Iterable[Chapter]) -> tuple[Listing, ...]:
    marks: dict[tuple[str, int], list[Mark]] = {}
    for chapter in chapters:
        for finding in chapter.standing:
            span = finding.diagnostic.span
            mark = Mark(finding.code, finding.severity.value, f"#{chapter.finding_id(finding)}")
            marks.setdefault((span.file.name, span.line), []).append(mark)
        for number, result in enumerate(chapter.plan.requirements, start=1):
            mark = Mark(result.status, result.status, f"#{chapter.prefix}requirement-{number}")
            marks.setdefault((result.span.file.name, result.span.line), []).append(mark)
    return tuple(
        spec_listing.listing(number, name, text, marks)
        for number, (name, text) in enumerate(texts.items())
    )


@cache
def _style() -> str:
    """The stylesheet with fonts and the pictures' dark colours; the same for every report."""
    faces = []
    for family, weight, file in FONTS:
        data = b64encode(resource("templates", "fonts", f"{file}.woff2").read_bytes()).decode()
        faces.append(
            f"@font-face{{font-family:'{family}';font-weight:{weight};font-style:normal;"
            f"font-display:swap;src:url(data:font/woff2;base64,{data}) format('woff2')}}"
        )
    sheet = resource("templates", "report.css").read_text(encoding="utf-8")
    return "\n".join((*faces, sheet, colours.dark_rules()))


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
        number=_number,
        unit=_in_unit,
        linked=_linked,
    )
    return environment


def _unbroken(quantity: Quantity) -> str:
    """A quantity that no line end parts from its unit."""
    return shown(quantity).replace(" ", "\N{NO-BREAK SPACE}")


def _exactly(quantity: Quantity) -> str:
    return exact(quantity)


def _number(quantity: Quantity) -> str:
    """The number in base units, grouped and unrounded where it is whole."""
    value = quantity.value if isinstance(quantity.value, float) else tidy(quantity.value)
    return grouped(value) if isinstance(value, int) else f"{float(value):,.2f}"


def _in_unit(quantity: Quantity, unit: str) -> str:
    """In a unit, with three decimals that stand in a column."""
    return f"{float(quantity.in_unit(unit)):,.3f}"


def _ticked(text: str) -> tuple[tuple[str, bool], ...]:
    """A sentence in runs of (text, whether it stood between backticks and is code)."""
    runs = text.split("`")
    if len(runs) % 2 == 0:  # an odd tick is a tick
        return ((text, False),)
    return tuple((run, index % 2 == 1) for index, run in enumerate(runs) if run)


def _linked(text: str) -> tuple[tuple[str, str], ...]:
    """A source's words in runs of (text, address); the address is empty for plain words."""
    runs = re.split(f"({_ADDRESS.pattern})", text)
    return tuple((run, run if _ADDRESS.match(run) else "") for run in runs if run)
