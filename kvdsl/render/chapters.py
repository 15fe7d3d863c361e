"""What a report tells of one deployment: its sections, and each section's rows, told once.

Comes in: a plan. Goes out: a `Chapter` for the templates. It sorts, groups and leaves out; it
computes no figure. Not its job: the page around it (html).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kvdsl.diagnostics import Severity
from kvdsl.plan import (
    Chart,
    Column,
    Entry,
    Finding,
    MemoryBar,
    Plan,
    Segment,
    StepBar,
    SweepTable,
    Tile,
)
from kvdsl.render.chains import Chain, chains
from kvdsl.render.places import slug
from kvdsl.render.plan_tables import few_told
from kvdsl.render.svg.curves import curves
from kvdsl.render.svg.flow import flow
from kvdsl.render.svg.memory import memory
from kvdsl.render.svg.placement import placement
from kvdsl.render.svg.step import step
from kvdsl.render.svg.traffic import Traffic, traffic, traffic_bars
from kvdsl.units import Quantity, shown

_SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_LONGEST_BAR = 88  # neighbours that are both the largest stay apart
_MOST_BESIDE = 2
"""Rank classes whose memory stands side by side; more stand one below the other."""

_ECHOES: Mapping[str, str] = MappingProxyType(
    {
        "kv.bytes_per_token_unbounded": "kv.bytes_per_token",
        "kv.tokens_per_rank": "kv.tokens",
        "decode.kv_read_mean": "decode.kv_read",
    }
)
"""Values that say something only where they differ from another."""


_WRITTEN = ("layout", "replicas", "workload", "budget")
"""Values that only say what the spec does; it stands in the report, defaults among assumptions."""

PARTS = frozenset({"balance.prefill", "balance.decode"})
"""Values that are parts of a whole, and told in percent."""


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
    """Errors first, then warnings, then notes; each kind in the plan's order."""
    standing = (f for f in plan.findings if f.waived is None)
    return tuple(sorted(standing, key=lambda f: _SEVERITIES.index(f.severity)))


def _runs(plan: Plan) -> bool:
    """Whether a request can run at all: if not, times and prices are of nothing."""
    room = plan.values.get("memory.kv")
    return room is None or room.value > 0


SECTIONS: tuple[tuple[str, str, Callable[[Plan], object]], ...] = (
    ("verdict", "Verdict", _always),
    ("requirements", "Requirements", lambda p: p.requirements or _allowed(p)),
    ("findings", "Findings", _standing),
    ("placement", "Placement", lambda p: p.pictures or p.flow),
    ("memory", "Memory", lambda p: p.memory),
    ("cache", "Cache", lambda p: p.cache or _charts(p, "cache", "kv", "capacity")),
    ("communication", "Communication", lambda p: p.collectives and _runs(p)),
    ("time", "Time", lambda p: (p.steps or _time_charts(p)) and _runs(p)),
    ("alternatives", "Alternatives", lambda p: p.comparison),
    ("sweeps", "Sweeps", lambda p: p.sweeps or _charts(p, "sweep", "sweeps")),
    ("transfer", "Transfer and tiers", lambda p: p.flow or _values(p, "transfer", "tier")),
    ("cost", "Cost", lambda p: _values(p, "cost") and _runs(p)),
    ("derivations", "Derivations", lambda p: p.values),
    ("sources", "Assumptions and sources", lambda p: p.assumptions or p.sources),
)
"""Key (its template's name), title, and whether a plan has anything for it; in reading order."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A kind of bytes over all rank classes; None where a class has none of it."""

    label: str
    group: str
    segments: tuple[Segment | None, ...]


@dataclass(frozen=True, slots=True)
class Chapter:
    """One deployment of a report. `prefix` begins every id in it, `level` is its sections' heading
    level (one deeper where a report has several deployments)."""

    plan: Plan
    prefix: str
    level: int
    sections: tuple[tuple[str, str], ...]
    chains: tuple[Chain, ...]

    def has(self, section: str) -> bool:
        return any(key == section for key, _ in self.sections)

    def tile(self, label: str) -> Tile | None:
        """A key figure by its label; None where this plan has none."""
        return next((tile for tile in self.plan.tiles if tile.label == label), None)

    # --- findings ---

    @property
    def standing(self) -> tuple[Finding, ...]:
        return _standing(self.plan)

    @property
    def weighty(self) -> tuple[Finding, ...]:
        """Errors and warnings: each gets a card."""
        return tuple(f for f in self.standing if f.severity is not Severity.INFO)

    @property
    def remarks(self) -> tuple[tuple[Finding, ...], ...]:
        """Notes, those of one rule together."""
        found: dict[str, list[Finding]] = {}
        for finding in self.standing:
            if finding.severity is Severity.INFO:
                found.setdefault(finding.code, []).append(finding)
        return tuple(tuple(same) for same in found.values())

    @property
    def allowed(self) -> tuple[Finding, ...]:
        return _allowed(self.plan)

    def untold(self, finding: Finding) -> tuple[tuple[str, Quantity], ...]:
        """The quantities that neither the finding's words nor its alternative tell already."""
        told = " ".join((finding.diagnostic.headline, *finding.diagnostic.notes))
        shows = finding.alternative.changes if finding.alternative else ()
        seen = {shown(q) for change in shows for q in (change.before, change.after)}
        return tuple(
            (label, quantity)
            for label, quantity in finding.quantities
            if shown(quantity) not in seen and not _says(told, shown(quantity))
        )

    def finding_id(self, finding: Finding) -> str:
        return f"{self.prefix}finding-{self.plan.findings.index(finding) + 1}"

    def finding_of(self, code: str) -> str:
        """The id of the first finding of a rule; empty where none of it has a place."""
        found = next((f for f in self.plan.findings if f.code == code), None)
        return self.finding_id(found) if found is not None else ""

    # --- values ---

    @property
    def parts(self) -> frozenset[str]:
        return PARTS

    def derivation_id(self, value: str) -> str:
        """The id of a value's chain; empty where the plan has none."""
        told = value in self.plan.values and value.split(".", maxsplit=1)[0] not in _WRITTEN
        return f"{self.prefix}value-{slug(value)}" if told else ""

    def worded(self, condition: str) -> tuple[tuple[str, str], ...]:
        """A condition in runs of (text, name of the value that it is, or nothing)."""
        return worded(condition, self.derivation_id)

    def value_names(self, *rooms: str) -> tuple[str, ...]:
        """The values of a section: without parts of others, zeros, and those that only repeat."""
        return tuple(name for name in _values(self.plan, *rooms) if self._worth(name))

    def _worth(self, name: str) -> bool:
        value, echoed = self.plan.values[name].value, self.plan.values.get(_ECHOES.get(name, ""))
        return name.count(".") == 1 and bool(value) and (echoed is None or echoed.value != value)

    @property
    def derived(self) -> tuple[Chain, ...]:
        every = (chain for chain in self.chains if not (chain.plain or chain.told))
        return tuple(chain for chain in every if self.derivation_id(chain.name))

    @property
    def given(self) -> tuple[Chain, ...]:
        """Values with nothing to derive: counts, and what another chain tells."""
        every = (chain for chain in self.chains if chain.plain or chain.told)
        return tuple(chain for chain in every if self.derivation_id(chain.name))

    @property
    def cited(self) -> tuple[tuple[str, tuple[Entry, ...]], ...]:
        """The sourced figures by their source."""
        found: dict[str, list[Entry]] = {}
        for entry in self.plan.sources:
            found.setdefault(entry.source, []).append(entry)
        return tuple((source, tuple(entries)) for source, entries in found.items())

    # --- pools, tables and pictures ---

    @property
    def pools(self) -> tuple[str, ...]:
        plan = self.plan
        named = [row.pool for row in plan.memory] + [row.pool for row in plan.cache]
        named += [row.pool for row in plan.collectives] + [row.pool for row in plan.steps]
        return tuple(dict.fromkeys(named))

    def chart_list(self, section: str) -> tuple[Chart, ...]:
        if section == "cache":
            return _charts(self.plan, "cache", "kv", "capacity")
        if section == "sweeps":
            return _charts(self.plan, "sweep", "sweeps")
        if section in ("transfer", "cost"):
            return _charts(self.plan, *(("cost",) if section == "cost" else _HOMED[5:8]))
        return _time_charts(self.plan)

    def algorithms(self, both: Traffic) -> str:
        """How it is done in either phase, and what its constants are unless they are fitted or
        there are none."""
        rows = [row for row in (both.decode, both.prefill) if row is not None]
        names = " or ".join(dict.fromkeys(row.algorithm for row in rows))
        known = all(row.basis in ("ideal", "fitted") for row in rows)
        lent = rows[0].lent
        return names + (
            "" if known else f", {rows[0].basis} constants{f' ({lent})' if lent else ''}"
        )

    def picture(self, number: int, title: str) -> str:
        return placement(f"{self.prefix}picture-{number}", title, self.plan.pictures[number])

    def flow_picture(self, title: str) -> str:
        """The pools, what joins them and the tiers; empty where there are none to show."""
        flow_of = self.plan.flow
        return flow(f"{self.prefix}flow", title, flow_of) if flow_of is not None else ""

    def step_title(self, bar: StepBar) -> str:
        what = "a decode step" if bar.phase == "decode" else f"a {bar.title}"
        return f"Time of {what}" + (f", pool {bar.pool}" if bar.pool else "")

    def bars_of(self, pool: str) -> tuple[MemoryBar, ...]:
        return tuple(row for row in self.plan.memory if row.pool == pool)

    def memory_bars(self, pool: str, title: str) -> str:
        return memory(f"{self.prefix}memory-{self.pools.index(pool)}", title, self.bars_of(pool))

    def memory_rows(self, pool: str) -> tuple[MemoryRow, ...]:
        """The bytes of a pool's classes side by side; none where there are too many classes."""
        bars = self.bars_of(pool)
        return _memory_rows(bars) if len(bars) <= _MOST_BESIDE else ()

    def traffic(self, pool: str) -> tuple[Traffic, ...]:
        return traffic(row for row in self.plan.collectives if row.pool == pool)

    def traffic_bars(self, pool: str, title: str) -> str:
        wholes: dict[str, Quantity] = {
            bar.phase: bar.whole for bar in self.plan.steps if bar.pool == pool
        }
        name = f"{self.prefix}exchanges-{self.pools.index(pool)}"
        return traffic_bars(name, title, self.traffic(pool), wholes)

    def step(self, bar: StepBar) -> str:
        return step(f"{self.prefix}step-bar-{self.plan.steps.index(bar)}", bar)

    def chart(self, chart: Chart) -> str:
        return curves(f"{self.prefix}chart-{self.plan.charts.index(chart)}", chart)

    @property
    def same(self) -> tuple[tuple[str, Quantity], ...]:
        """Rows of the comparison in which all layouts are equal: told below it in a line."""
        comparison = self.plan.comparison
        if comparison is None:
            return ()
        return tuple(
            (label, comparison.columns[0].values[name])
            for name, label, _ in comparison.rows
            if _equal(comparison.columns, name)
        )

    def differs(self, name: str) -> bool:
        comparison = self.plan.comparison
        return comparison is None or not _equal(comparison.columns, name)

    def few_told(self, sweep: SweepTable) -> str:
        """What a table leaves out, and where it is."""
        return few_told(sweep)

    def share(self, sweep: SweepTable, column: int, figure: Quantity | None) -> int:
        """How long a figure's bar is, in percent of its column: the largest has `_LONGEST_BAR`."""
        found = [figures[column] for _, figures in sweep.rows]
        most = max((float(q.value) for q in found if q is not None), default=0.0)
        return (
            round(float(figure.value) / most * _LONGEST_BAR)
            if figure is not None and most > 0
            else 0
        )


def chapter(plan: Plan, prefix: str, level: int) -> Chapter:
    sections = tuple((key, title) for key, title, filled in SECTIONS if filled(plan))
    return Chapter(plan, prefix, level, sections, chains(prefix, plan.values))


def worded(condition: str, known: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    """A condition in runs of (text, name of the value that it is where that is known)."""
    runs = re.split(r"([a-z_]\w*(?:\.\w+)+|\bgpus\b|\bpower\b)", condition)
    return tuple((run, run if known(run) else "") for run in runs if run)


def _says(text: str, figure: str) -> bool:
    """Whether the words have this figure, and not as a part of a longer one."""
    at = text.find(figure)
    if at < 0:
        return False
    before, after = text[max(0, at - 1) : at], text[at + len(figure) : at + len(figure) + 1]
    return not (before.isalnum() or before in (".", ",") or after.isalnum())


def _memory_rows(bars: Sequence[MemoryBar]) -> tuple[MemoryRow, ...]:
    """The rows that any class has, in the order of the first that has them."""
    order: list[tuple[str, str]] = []
    for bar in bars:
        at = 0
        for segment in bar.segments:
            key = (segment.group, segment.label)
            if key in order:
                at = order.index(key) + 1
            else:
                order.insert(at, key)
                at += 1
    held = [{(s.group, s.label): s for s in bar.segments} for bar in bars]
    return tuple(
        MemoryRow(label, group, tuple(one.get((group, label)) for one in held))
        for group, label in order
    )


def _equal(columns: Sequence[Column], name: str) -> bool:
    found = [column.values.get(name) for column in columns]
    return len(found) > 1 and found[0] is not None and all(q == found[0] for q in found)
