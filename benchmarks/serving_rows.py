"""Rows of measured serving: read, copies dropped, known traps repaired, suspicious rows set aside.

Comes in: a CSV with the columns of aiconfigurator's `silicon_sample.csv`. Goes out: `Row`s, and how
many lines each repair or doubt took, by reason. Not its job: predicting, or knowing a model's
bytes. No rule names a row: each is a property of the columns.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, log
from pathlib import Path
from statistics import median

EQUAL = 1.03
"""Times of two runs of one layout differ by less, at the median of several points."""

POINTS = 2
"""Points that two layouts have to share, for one to be told by the other."""

LENGTH_STEP = 128
"""Sweeps use lengths that are multiples of this; runs by hand do not."""

SPECULATIVE = 1.3
"""A batch so many times faster than its twins at small concurrency drafted tokens, unmarked."""

REPLICA = 64
"""Devices of one aggregated replica past which a layout column means something else."""

SMALL = 32
"""Requests in flight up to which drafting pays enough to be seen."""


@dataclass(frozen=True, slots=True)
class Width:
    """A replica's layout: `tp` x `dp` devices, `moe_tp` x `ep` of them for experts, `pp` stages."""

    tp: int = 1
    dp: int = 1
    moe_tp: int = 1
    ep: int = 1
    pp: int = 1

    @property
    def devices(self) -> int:
        return self.tp * self.dp * self.pp

    @property
    def text(self) -> str:
        said = [f"tp{self.tp}"] + [f"{w}{n}" for w, n in (("dp", self.dp), ("ep", self.ep),
                                                          ("pp", self.pp)) if n > 1]  # fmt: skip
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. `workers` are the decode workers of a disaggregated one, None where they
    are not said. `precision` is fp4, fp8, bf16 or int4; `drawn` says that lengths were drawn from
    80 to 100 % of the nominal ones. `ttft` and `tpot` in milliseconds."""

    id: str
    engine: str
    version: str
    measured: str
    model: str
    system: str
    precision: str
    mode: str
    isl: int
    osl: int
    layout: Width
    concurrency: int
    ttft: float
    tpot: float
    drawn: bool
    workers: int | None = None
    prefill: Width | None = None
    prefill_workers: int | None = None
    filled: int = 0
    doubled: bool = False
    """Whether TP and the DP width both held the width, so that the columns do not tell which."""

    @property
    def shape(self) -> str:
        return shape(self.model)

    @property
    def configuration(self) -> tuple[object, ...]:
        """What has to be equal for two rows to be twins, their build apart."""
        return (self.shape, self.system, self.engine, self.precision, self.mode, self.isl,
                self.osl, self.layout, self.workers, self.concurrency)  # fmt: skip

    @property
    def load(self) -> tuple[object, ...]:
        """What two layouts have to be asked alike, to be compared."""
        return (self.shape, self.system, self.engine, self.precision, self.mode, self.isl,
                self.osl, self.workers, self.concurrency)  # fmt: skip

    @property
    def batch(self) -> tuple[str, ...]:
        """Rows that were measured together, by one build."""
        return (self.shape, self.system, self.engine, self.precision, self.mode, self.version,
                self.measured)  # fmt: skip

    @property
    def prompt(self) -> int:
        return round(self.isl * 0.9) if self.drawn else self.isl

    @property
    def output(self) -> int:
        return round(self.osl * 0.9) if self.drawn else self.osl


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that is not scored, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file gave: `rows` to predict, `aside` suspicious ones (predicted, not scored),
    `refused` lines that say too little, and the repairs by reason."""

    lines: int
    rows: tuple[Row, ...]
    aside: tuple[tuple[Row, str], ...]
    refused: tuple[Refused, ...]
    repairs: Mapping[str, int] = field(default_factory=dict)


# --- names ---------------------------------------------------------------------------------------

_MARKS = re.compile(
    r"[-_.](nvfp4|mxfp4|fp4|fp8|bf16|fp16|int4|int8|w4a16|w8a8|awq|gptq|quantized|block|dynamic|kv"
    r"|v\d+|hf|instruct|thinking|base|chat|it|\d{4})$",
    re.IGNORECASE,
)
"""Endings of a repository's name that say a format or a tuning, not a shape."""


def stem(path: str) -> str:
    """A repository's name without owner, format and tuning: `nvidia/Llama-3.1-8B-Instruct-FP8` is
    `llama_3_1_8b`."""
    name = path.rstrip("/").rpartition("/")[2]
    while True:
        shorter = _MARKS.sub("", name)
        if shorter in (name, ""):
            break
        name = shorter
    name = name.removeprefix("Meta-").removeprefix("NVIDIA-")
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


SHAPES: Mapping[str, str] = {"deepseek_r1": "deepseek_v3", "deepseek": "deepseek_v3"}
"""Names of one shape: copies of one run are filed under both."""


def shape(path: str) -> str:
    """The name that all checkpoints of one shape share."""
    found = stem(path)
    return SHAPES.get(found, found)


# --- reading -------------------------------------------------------------------------------------


def read(paths: Iterable[Path]) -> Reading:
    """All files as one list of measurements."""
    lines: list[Mapping[str, str]] = []
    for path in paths:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines.extend(_said(line) for line in csv.DictReader(file))
    repairs: Counter[str] = Counter()
    rows: list[Row] = []
    refused: list[Refused] = []
    for line in lines:
        made = _row(line, repairs)
        if isinstance(made, Row):
            rows.append(made)
        else:
            refused.append(made)
    kept = list(_without_copies(_undoubled(rows, repairs), repairs))
    spoken = _speculative(kept)
    clean, aside = [], []
    for row in kept:
        doubt = _doubt(row) or spoken.get(row.batch, "")
        (aside.append((row, doubt)) if doubt else clean.append(row))
    return Reading(len(lines), tuple(clean), tuple(aside), tuple(refused), dict(repairs))


_NOTHING = frozenset({"nan", "none", "null", "na", "n/a", "-"})
"""What tables write into a cell that says nothing."""


def _said(line: Mapping[str, str]) -> Mapping[str, str]:
    """The cells of a line that say something; those beyond the header are dropped."""
    cells = {name: (text or "").strip() for name, text in line.items() if isinstance(text, str)}
    return {name: "" if text.lower() in _NOTHING else text for name, text in cells.items()}


def _number(line: Mapping[str, str], name: str) -> int:
    """A whole number; blank and 0 are 0."""
    text = line.get(name) or ""
    return int(float(text)) if text else 0


def _row(line: Mapping[str, str], repairs: Counter[str]) -> Row | Refused:
    name = line.get("id") or ""
    try:
        mode = _MODES.get(line["mode"].lower(), line["mode"])
        isl, osl = _number(line, "isl"), _number(line, "osl")
        ttft = float(line.get("silicon_ttft_ms") or 0)
        tpot = float(line["silicon_tpot_ms"])
        backend = re.sub(r"[^a-z]", "", line["backend"].lower())
        path, system = line["model_path"], line["system"]
        sizes = [_number(line, column) for column in line if _SIZE.search(column)]
    except (KeyError, ValueError, OverflowError) as fault:
        return Refused(name, f"a column is missing or no number: {fault}")
    if min(sizes, default=0) < 0 or not isfinite(tpot) or not isfinite(ttft):
        return Refused(name, "a size or time is negative or endless")
    if isl <= 0 or osl <= 1 or tpot <= 0:
        return Refused(name, "no prompt, output or time of a token")
    swept = _swept(name)
    side = "decode_" if mode == "disagg" else ""
    layout = _layout(line, side, repairs, swept=swept)
    if isinstance(layout, str):
        return Refused(name, layout)
    concurrency = _number(line, "silicon_concurrency")
    if not concurrency:
        concurrency = _number(line, f"{side}batch_size") * max(1, layout.dp)
        repairs["concurrency was blank: batch x DP width"] += 1
    if not concurrency:
        return Refused(name, "neither concurrency nor batch is given")
    prefill = _layout(line, "prefill_", Counter(), swept=swept) if mode == "disagg" else None
    return Row(
        name,
        _BACKENDS.get(backend, line["backend"]),
        line.get("backend_version") or "",
        line.get("measured") or "",
        path,
        system,
        _precision(line, repairs),
        mode,
        isl,
        osl,
        layout,
        concurrency,
        ttft,
        tpot,
        swept,
        _number(line, "decode_num_workers") or None,
        prefill if isinstance(prefill, Width) else None,
        _number(line, "prefill_num_workers") or None,
        sum(1 for value in line.values() if value),
        layout.dp == layout.ep > 1 and _number(line, f"{side}tp_size") > 1 == layout.tp,
    )


_MODES = {"aggregated": "agg", "disaggregated": "disagg"}
_BACKENDS = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "tensorrtllm": "trtllm"}
_SIZE = re.compile(r"_(size|workers)$|^silicon_concurrency$")
"""Columns of whole numbers."""


def _swept(name: str) -> bool:
    """Whether the InferenceMAX client measured it: dumps by date, or rows of its database."""
    return bool(re.match(r"20\d\d_\d\d_\d\d_", name) or re.search(r"_cfg\d+$", name))


def _precision(line: Mapping[str, str], repairs: Counter[str]) -> str:
    said = line.get("precision") or ""
    if said:
        return _WORDS.get(said.lower(), said.lower())
    for mark in reversed(re.split(r"[-_./]", line["model_path"].lower())):
        if mark in _NARROW:
            repairs["precision was blank: as the repository's name says"] += 1
            return _WORDS.get(mark, mark)
    repairs["precision was blank: bf16"] += 1
    return "bf16"


_WORDS = {
    "nvfp4": "fp4", "w4a4": "fp4", "w4a16": "int4", "w4a8": "int4", "awq": "int4", "gptq": "int4",
    "int4_wo": "int4", "w8a8": "int8", "w8a16": "int8", "int8_wo": "int8", "fp8_block": "fp8",
    "fp8_static": "fp8", "w4a16_mxfp4": "mxfp4", "bfloat16": "bf16", "float16": "fp16",
    "half": "fp16",
}  # fmt: skip
"""What else a precision is called."""

_NARROW = frozenset(
    {"nvfp4", "mxfp4", "fp4", "fp8", "int4", "int8", "awq", "gptq", "w4a16", "w8a8"}
)
"""Marks in a repository's name that say a precision."""


def _layout(
    line: Mapping[str, str], side: str, repairs: Counter[str], *, swept: bool
) -> Width | str:
    """The layout of a replica or worker, or why it cannot be read. In some dumps tp (or the DP
    width) holds TP x EP; the experts' columns and the id tell."""
    tp, dp = (_number(line, f"{side}{n}") for n in ("tp_size", "attention_dp_size"))
    moe_tp, ep = (_number(line, f"{side}{n}") for n in ("moe_tp_size", "moe_ep_size"))
    pp = max(1, _number(line, f"{side}pp_size"))
    tp, dp, moe_tp, ep = (max(1, n) for n in (tp, dp, moe_tp, ep))
    if swept and moe_tp > 1 and ep > 1:
        repairs["tp held TP x EP: width is the experts' tp"] += 1
        width = moe_tp
        tp, dp = (1, width) if tp == 1 and dp > 1 else (width, 1)
        moe_tp, ep = max(1, width // ep), min(ep, width)
    elif tp == dp > 1 and ep == tp * dp and moe_tp == 1:
        tp, ep = 1, dp  # unless its twins tell otherwise: `_undoubled`
    width = tp * dp
    if moe_tp * ep == 1:
        moe_tp = width
    if moe_tp * ep != width:
        return f"layout columns disagree: {width} devices, {moe_tp} x {ep} for experts"
    return Width(tp, dp, moe_tp, ep, pp)


def _undoubled(rows: Iterable[Row], repairs: Counter[str]) -> Iterator[Row]:
    """Rows whose TP and DP width both held the width. A launch may have left the flag of DP
    attention unheard: the times of such a batch are those of TP on as many devices, at every
    load, which those of DP attention never are."""
    every = list(rows)
    plain: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for row in every:
        if row.layout.dp == 1:
            plain[(*row.load, row.layout.devices)].append(row.tpot)
    apart: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in every:
        if row.doubled:
            twins = plain.get((*row.load, row.layout.devices), ())
            apart[row.batch].extend(abs(log(row.tpot / time)) for time in twins)
    for row in every:
        if not row.doubled:
            yield row
            continue
        found = apart[row.batch]
        unheard = len(found) >= POINTS and median(found) <= log(EQUAL)
        word = "TP, as fast as its twins" if unheard else "DP attention"
        repairs[f"tp and DP width both held the width: {word}"] += 1
        width = row.layout.devices
        yield replace(row, layout=Width(width, 1, 1, width)) if unheard else row


def _without_copies(rows: Iterable[Row], repairs: Counter[str]) -> Iterator[Row]:
    """One row a measurement: times equal to 0.01 ms at equal lengths are one run. The copy that
    says most is kept."""
    found: dict[tuple[object, ...], Row] = {}
    for row in rows:
        key = (row.isl, row.osl, round(row.ttft, 2), round(row.tpot, 2), row.system, row.shape)
        known = found.get(key)
        if known is not None:
            repairs["copies of a measurement dropped"] += 1
        if known is None or row.filled > known.filled:
            found[key] = _completed(row, known)
        else:
            found[key] = _completed(known, row)
    yield from found.values()


def _completed(row: Row, copy: Row | None) -> Row:
    """The row, with what only its copy says."""
    if copy is None:
        return row
    return replace(row, version=row.version or copy.version,
                   measured=row.measured or copy.measured,
                   workers=row.workers or copy.workers)  # fmt: skip


# --- doubts --------------------------------------------------------------------------------------


def _doubt(row: Row) -> str:
    if row.isl % LENGTH_STEP or row.osl % LENGTH_STEP:
        return "run by hand: lengths are no multiple of 128, clients stay in step"
    if row.mode == "agg" and row.layout.devices > REPLICA:
        return "the layout does not describe one replica"
    if row.mode == "agg" and row.ttft > row.tpot * row.osl:
        return "starved: the first token takes longer than all others"
    if row.mode == "disagg" and row.workers is None:
        return "disaggregated, and the decode workers are not told"
    return ""


def _speculative(rows: Iterable[Row]) -> dict[tuple[str, ...], str]:
    """Batches far faster than their twins at small concurrency."""
    twins: dict[tuple[object, ...], dict[tuple[str, ...], list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        if row.concurrency <= SMALL and not _doubt(row):
            twins[row.configuration][row.batch].append(row.tpot)
    ratios: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for group in twins.values():
        slowest = max(median(times) for times in group.values())
        for batch, times in group.items():
            if len(group) > 1:
                ratios[batch].append(slowest / median(times))
    return {
        batch: "drafts tokens, unmarked: twins of another build are 1.3 times slower"
        for batch, found in ratios.items()
        if median(found) >= SPECULATIVE
    }
