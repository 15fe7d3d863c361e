"""A Plan: all that a renderer may show of one deployment, already computed.

Comes in: built by `planning`. Goes out: frozen records of quantities, texts and terms. A renderer
sees this module and nothing above floor 1; if a figure is missing here, it is added here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kvdsl.diagnostics import Diagnostic, Severity
from kvdsl.formulas import Term
from kvdsl.plan.flows import (
    Flow as Flow,
)
from kvdsl.plan.flows import (
    FlowPool as FlowPool,
)
from kvdsl.plan.flows import (
    MovedRow as MovedRow,
)
from kvdsl.plan.flows import (
    TierView as TierView,
)
from kvdsl.plan.flows import (
    TransferView as TransferView,
)
from kvdsl.plan.pictures import Box as Box
from kvdsl.plan.pictures import Cell as Cell
from kvdsl.plan.pictures import Picture as Picture
from kvdsl.plan.pictures import Wire as Wire
from kvdsl.plan.segments import Segment as Segment
from kvdsl.source import Span
from kvdsl.units import Quantity

FORMAT = 1
"""Version of the plan's JSON form."""

Status = Literal["holds", "fails", "unanswered", "skipped"]
Mood = Literal["good", "warning", "bad"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer in one sentence. `good`: fits and all requirements hold; `warning`: fits, but an
    `expect` fails or a warning stands; `bad`: does not fit, or a requirement fails."""

    mood: Mood
    sentence: str


@dataclass(frozen=True, slots=True)
class Tile:
    """One of the key figures of the strip: `1.40 M`, `KV tokens`, and a line below it."""

    label: str
    figure: str
    unit: str
    below: str = ""
    value: str = ""
    """The vocabulary's name of the value behind it, to link to its derivation."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader asks first, answered in a few sentences, a line each; `section` of a report
    tells more. An answer without a mood is neither good nor bad."""

    question: str
    lines: tuple[str, ...]
    mood: Mood | Literal[""]
    section: str


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """A `require` or `expect`, judged. `value`, `bound` and `margin` are what a comparison has;
    `largest` are the three largest terms of the value where it fails, `name` is what it is of,
    `operator` what compares it, `waived` the reason of the `allow` under which it may fail."""

    keyword: Literal["require", "expect"]
    text: str
    label: str
    because: str
    status: Status
    value: Quantity | None
    bound: Quantity | None
    margin: str
    note: str
    largest: tuple[Term, ...]
    span: Span
    name: str = ""
    waived: str = ""
    operator: str = ""


@dataclass(frozen=True, slots=True)
class Agreed:
    """What a policy wants of a deployment, judged."""

    policy: str
    result: RequirementResult


@dataclass(frozen=True, slots=True)
class Change:
    """What an alternative does to one value: its name, before, after, and how many times."""

    name: str
    label: str
    before: Quantity
    after: Quantity
    more: bool | None = None
    """Whether more is better; None where neither is."""

    @property
    def ratio(self) -> float:
        return float(self.after.value) / float(self.before.value) if self.before.value else 0.0

    @property
    def better(self) -> bool | None:
        """None where nobody can say, or where both are the same to two decimals."""
        if self.more is None or (self.before.value and abs(self.ratio - 1) < 0.005):
            return None
        return (self.after.value > self.before.value) == self.more


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another layout (or budget), run through the same function as the plan."""

    title: str
    text: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that fired: the sentence, its quantities, the alternative with its gain, and what
    would flip the advice. `waived` is the reason of the `allow` that silences it."""

    code: str
    name: str
    severity: Severity
    diagnostic: Diagnostic
    quantities: tuple[tuple[str, Quantity], ...] = ()
    alternative: Alternative | None = None
    flips: str = ""
    waived: str | None = None
    agreed: Agreed | None = None
    """What a policy wants and the deployment does not meet, where it is about that."""


@dataclass(frozen=True, slots=True)
class MemoryBar:
    """The memory of one rank class, every byte accounted for: weights by module, the cache that
    the workload fills, what is free for more, the reserve, and what may not be used."""

    title: str
    pool: str
    device: str
    devices: int
    memory: Quantity
    usable: Quantity
    segments: tuple[Segment, ...]
    room: Term
    tokens: Quantity


@dataclass(frozen=True, slots=True)
class CacheRow:
    """A part of the cache: how it is kept and what it costs."""

    pool: str
    name: str
    form: str
    layers: int
    record: str
    growth: str
    per_token: Quantity
    per_token_on_rank: Quantity
    copies: Quantity


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart: points of (x, y) in the chart's units."""

    label: str
    points: tuple[tuple[float, float], ...]
    main: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its axes named and in units; `marks` are vertical lines with a label."""

    name: str
    title: str
    alternative_text: str
    x_label: str
    x_unit: str
    y_label: str
    y_unit: str
    series: tuple[Series, ...]
    marks: tuple[tuple[float, str], ...] = ()
    log_x: bool = True
    log_y: bool = False


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One collective of a decode step or a prefill, over its widest group."""

    pool: str
    phase: Literal["decode", "prefill"]
    kind: str
    module: str
    axis: str
    ranks: int
    span: str
    link: str
    fast: bool
    stage: int
    count: int
    size: Quantity
    once: Quantity
    all: Quantity
    why: str
    term: Term
    algorithm: str = ""
    basis: str = "ideal"
    """What its constants are: fitted, borrowed, default, or ideal where it has none."""
    low: Quantity | None = None
    high: Quantity | None = None
    """What a measurement of one may say; None with ideal times."""
    lent: str = ""
    """The row of a library's tables that a device's generation borrows, as it has none."""


@dataclass(frozen=True, slots=True)
class StepBar:
    """A pass as a stack of times. `roofline` says what bounds it."""

    pool: str
    phase: Literal["decode", "prefill"]
    title: str
    segments: tuple[Segment, ...]
    whole: Quantity
    roofline: str
    limits: tuple[tuple[str, Quantity], ...] = ()
    """The roofline's roofs as times beside the stack: bytes over bandwidth, work over peak."""


@dataclass(frozen=True, slots=True)
class Column:
    """A layout beside others: its values, and which findings it would have."""

    name: str
    text: str
    values: Mapping[str, Quantity]
    findings: tuple[str, ...]
    fits: bool
    main: bool = False
    note: str = ""
    times: str = ""
    """`ideal` or `fitted`; empty where nobody says."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Layouts or deployments side by side. `rows` are value names with labels and whether more is
    better; `best` the columns that win each row (ties all win); `flips` what would turn the
    order. `unlike` is what deployments are asked and served by where it is not one for all: its
    name, a label, and a text a column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, str, bool], ...]
    best: Mapping[str, tuple[int, ...]]
    flips: str
    unlike: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class SweepTable:
    """All combinations of a sweep: the axes, the values shown, and a row a point. `reasons` has
    for each row why it cannot be planned, is not served or cannot be judged, or nothing. `holds`
    says of each row whether all that is required holds, None where there is nothing to judge; it is
    empty where nothing is required. `unserved` are rows whose rate cannot be served.
    Where the rows are too many for people, `told` are those that they are shown, each with why it
    is among them."""

    name: str
    axes: tuple[str, ...]
    shown: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Quantity | None, ...]], ...]
    reasons: tuple[str, ...] = ()
    told: tuple[tuple[int, str], ...] = ()
    holds: tuple[bool | None, ...] = ()
    unserved: frozenset[int] = frozenset()

    @property
    def people(self) -> tuple[tuple[int, str], ...]:
        """Rows for people, with what is said of each."""
        return self.told or tuple((number, "") for number in range(len(self.rows)))

    def reason(self, row: int) -> str:
        return self.reasons[row] if row < len(self.reasons) else ""

    def verdict(self, row: int) -> str:
        """`hold` or `fail`, of the requirements, or `not served`; empty where nothing says."""
        if row in self.unserved:
            return "not served"
        held = self.holds[row] if row < len(self.holds) else None
        return "" if held is None else "hold" if held else "fail"


@dataclass(frozen=True, slots=True)
class Entry:
    """An assumption (nobody wrote it) or a sourced figure that entered a value."""

    label: str
    figure: str
    note: str
    source: str
    span: Span | None


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a plan was made from: an attribute by its path, with its resolved value.

    `entry` is the catalog entry that says it (`devices.h200_sxm`, and the path is inside it), or
    empty where the spec does. `value` is canonical: equal texts mean the same. `written` is what
    stands in the file, where somebody wrote it."""

    entry: str
    path: str
    value: str
    written: str = ""
    quantity: Quantity | None = None
    source: str = ""
    span: Span | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.entry, self.path


@dataclass(frozen=True, slots=True)
class Input:
    """A text that the plan was made of, the catalog's too: its name, and the SHA-256 of its UTF-8
    bytes without a byte order mark and with `\\n` line ends."""

    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One deployment, planned. `values` has every name of the vocabulary that it answers; a term
    carries its derivation. `unplanned` says why there are no values, where there are none."""

    name: str
    doc: str
    file: str
    model: str
    layout: str
    layout_name: str
    hardware: str
    workload: str
    formats: str
    verdict: Verdict
    tiles: tuple[Tile, ...]
    values: Mapping[str, Term]
    requirements: tuple[RequirementResult, ...]
    findings: tuple[Finding, ...]
    pictures: tuple[Picture, ...]
    memory: tuple[MemoryBar, ...]
    cache: tuple[CacheRow, ...]
    charts: tuple[Chart, ...]
    collectives: tuple[CollectiveRow, ...]
    steps: tuple[StepBar, ...]
    comparison: Comparison | None
    sweeps: tuple[SweepTable, ...]
    assumptions: tuple[Entry, ...]
    sources: tuple[Entry, ...]
    texts: tuple[tuple[str, str], ...]
    """Files of the spec: name and text, the deployment's own first."""
    span: Span
    unplanned: str = ""
    inputs: tuple[Input, ...] = ()
    facts: tuple[Fact, ...] = ()
    flow: Flow | None = None
    answers: tuple[Answer, ...] = ()
    engine: str = ""
    """What serves it, by its makers' name and version; empty where nothing is named."""
    agreed: tuple[Agreed, ...] = ()
    """What policies want of it."""

    @property
    def times(self) -> str:
        """What its times are, `ideal` or `fitted`; empty where it has none."""
        return next((e.figure for e in self.assumptions if e.label == "times"), "")

    def value(self, name: str) -> Quantity:
        """A value of the vocabulary. Raises KeyError where the plan does not answer it."""
        return self.values[name].quantity


def meaning(name: str, term: Term) -> str:
    """What a value is, in words: its label, or those of the input that it is."""
    from kvdsl.spec.vocabulary import input_words

    return term.label if term.label != name else input_words(name)
