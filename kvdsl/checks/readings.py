"""Rules on figures that an engine takes and prints: shares of a memory, tokens of a start-up log,
windows that a cache manager knows or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TypeGuard

from kvdsl.checks.refusals import POLICY_NOTE, policy
from kvdsl.checks.study import Fact, Study
from kvdsl.costs import cache, footprint, pages
from kvdsl.costs.memory import fullest
from kvdsl.diagnostics import Severity
from kvdsl.placement.placement import Stage
from kvdsl.placement.subject import Subject
from kvdsl.rules import Rule, rule
from kvdsl.spec.model import AnyPart, Gqa, Mla
from kvdsl.units import BYTES, BYTES_PER_TOKEN, TOKENS, Quantity, percent, shown, tidy

SAME_SHARE = Fraction(1, 1000)
"""Two shares of a memory that nobody would tell apart."""


@rule(
    "KV228",
    "share-of-another-memory",
    Severity.INFO,
    "costs",
    "{share} is of {what} under {engine}; as a share of the whole memory this budget is {total}",
    label="of the {memory} of a device",
    notes=(POLICY_NOTE, "the same {share} of the whole memory would leave the cache {other}, not "
           "{room}",
           "that room as a share: {total} of the memory, {free} of what is free before loading, "
           "{rest} of what weights and overheads leave"),
)  # fmt: skip
def share_of_another_memory(study: Study) -> Iterator[Fact]:
    """A utilization means what its engine takes it of.

    What it checks
        A written utilization under an engine whose `budget_of` is `free` or `rest`.

    Why it matters
        90 % of the whole memory (vLLM's `gpu-memory-utilization`), of what is free before loading
        (SGLang's `mem-fraction-static`) and of what weights leave (TensorRT-LLM's
        `free_gpu_memory_fraction`, LMDeploy's `cache-max-entry-count`) are three budgets. A figure
        that is carried from one engine to another changes its meaning; the finding says what it
        would be under each.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          engine   = engines.tensorrt_llm_1_2
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { utilization = 90 %; reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 32 req }
        }

    Instead
        Nothing: this is information. Compare engines by the room that they leave for the cache.
    """
    engine, found = study.subject.engine, study.costs
    share = study.subject.budget.utilization
    if engine is None or engine.budget_of == "total" or share is None or not found.fits:
        return
    if study.subject.budget.kv is not None:
        return
    book = fullest(found.ledgers)
    memory, room = Fraction(book.memory.value), Fraction(book.room.value)
    reserve, held = Fraction(book.reserve.value), Fraction(book.weights.value)
    rest = reserve + held
    if abs((room + rest) / memory - Fraction(share)) < SAME_SHARE:
        return
    other = Fraction(share) * memory - rest
    origin = study.subject.budget.origin("utilization")
    yield Fact(
        origin.span if origin else study.subject.place("budget"),
        {
            **policy(engine, "budget_of"),
            "share": f"{float(share) * 100:g} %",
            "what": "what is free before loading" if engine.budget_of == "free"
            else "what weights and overheads leave",
            "total": percent((room + rest) / memory),
            "free": percent((room + held) / (memory - reserve)),
            "rest": percent(room / (memory - rest)),
            "memory": book.memory.quantity,
            "other": Quantity(tidy(other), BYTES) if other > 0 else "nothing",
            "room": book.room.quantity,
        },
        (
            ("as a share of the whole", Quantity((room + rest) / memory)),
            ("of what is free before loading", Quantity((room + held) / (memory - reserve))),
            ("of what weights leave", Quantity(room / (memory - rest))),
        ),
    )  # fmt: skip


@rule(
    "KV229",
    "printed-is-no-capacity",
    Severity.INFO,
    "costs",
    "{engine} prints {printed} at the start; at {length} a request it holds {tokens}",
    label="requests of {length}",
    notes=(
        "{why}",
        "a request takes {fixed} of a GPU and {slope} more: {far} of {longest} fit, {near} of "
        "{length}",
        "{paged}",
    ),
)
def printed_is_no_capacity(study: Study) -> Iterator[Fact]:
    """The figure of a start-up log is no capacity where tokens cost unlike.

    What it checks
        Under an engine, for a cache with windows, states or a pool for each: the figure that it
        prints differs by more than 1 % from what fits at the workload's length. The finding gives
        a request's bytes as a fixed part and a slope.

    Why it matters
        The log counts requests of the longest length, or one pool of two. Windows and states cost
        a request about the same however long it is, so that short requests have fewer tokens.

    Example
        deployment served {
          model    = models.gemma_3_1b
          weights  = formats.bf16
          kv       = formats.bf16
          engine   = engines.vllm_0_33
          on       = 1 x nodes.hgx_h200
          layout   { tp = 1; replicas = 8 }
          budget   { reserve = 3 GB }
          workload { context = 2 ktok; concurrency = 64 req }
        }

    Instead
        Nothing: this is information. Ask `kv.sequences`, or `kv.tokens` at your lengths.
    """
    found, engine = study.costs, study.subject.engine
    printed, held = found.values.get("kv.printed"), found.values["kv.tokens_per_rank"]
    if engine is None or printed is None or not found.fits:
        return
    if all(s.part.even for stage in study.placed.stages for s in stage.cache):
        return
    if abs(float(printed.value) - float(held.value)) <= 0.01 * float(held.value):
        return
    subject = study.subject
    why = "the log counts the tokens of one pool; windows and states have their own"
    if engine.printed == "longest" and subject.longest is not None:
        why = f"the log counts requests of {shown(Quantity(subject.longest, TOKENS))}"
    length = cache.held_tokens(subject)
    longest = subject.longest if subject.longest not in (None, length) else 2 * length
    book = fullest(found.ledgers)
    stage = study.placed.stages[book.rank.stage]
    line = footprint.line(subject, stage)
    yield Fact(
        subject.place("workload"),
        {
            "engine": engine.title,
            "printed": printed.quantity,
            "length": Quantity(length, TOKENS),
            "tokens": held.quantity,
            "why": why,
            "fixed": Quantity(round(line.fixed), BYTES),
            "slope": Quantity(tidy(line.slope), BYTES_PER_TOKEN),
            "longest": Quantity(longest, TOKENS),
            "far": _at_once(study, longest),
            "near": found.values["kv.sequences"].quantity,
            "paged": _raised(study, stage),
        },
        (
            ("printed", printed.quantity),
            ("at the workload's length", held.quantity),
            ("fixed part of a request", Quantity(tidy(line.fixed), BYTES)),
            ("slope of a request", Quantity(tidy(line.slope), BYTES_PER_TOKEN)),
        ),
    )


def _at_once(study: Study, length: int) -> Quantity:
    """Requests of so many tokens that fit at once."""
    workload = study.subject.workload.model_copy(
        update={"context": length, "prompt": None, "output": None, "classes": {}}
    )
    found = study.room_of(replace(study.subject, workload=workload))
    return found.values["kv.sequences"].quantity


def _raised(study: Study, stage: Stage) -> str:
    """Pages of attention that are raised until one holds a state."""
    pool, engine = pages.pool(study.subject, stage), study.subject.engine
    full = next((k for k in pool.kinds if not k.state and not k.limit), None) if pool else None
    if pool is None or full is None or engine is None:
        return ""
    if full.block <= pages.page_tokens(engine, stage) or not any(k.state for k in pool.kinds):
        return ""
    return (
        f"pages of attention are raised to {full.block:,} tok, so that one holds a state of "
        f"{shown(Quantity(tidy(pool.page / _groups(pool)), BYTES))}"
    )


def _groups(pool: pages.Pool) -> int:
    """Layers that a page id stands for."""
    return max(-(-kind.layers // kind.groups) for kind in pool.kinds)


# --- windows ------------------------------------------------------------------------------------


@rule(
    "KV230",
    "window-by-manager",
    Severity.INFO,
    "costs",
    "with windows kept as windows the cache holds {aware}, with every token of them kept {blind}",
    label="{layers:layers} with a window, {others} without",
    notes=("{policy_note}", "which manager is active decides: {requests} of {length} fit by the "
           "first, {fewer} by the second"),
    also=(Severity.WARNING,),
)  # fmt: skip
def window_by_manager(study: Study) -> Iterator[Fact]:
    """Windowed layers save memory only under a cache manager that knows windows.

    What it checks
        A model with layers that attend to a window or a chunk: tokens that fit if such layers keep
        their window alone, and if they keep every token like the rest. Differences of up to 1 %
        are not told. A warning under an engine whose `hybrid` is `full`, which keeps all.

    Why it matters
        Engines have managers of both kinds, with a switch between them. An estimate by the other
        one is wrong by the share of windowed layers: three times over for five of six.

    Example
        deployment served {
          model    = models.gemma_3_27b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 32 ktok; concurrency = 8 req }
        }

    Instead
        Nothing: this is information. Ask the start-up log which manager is active.
    """
    found, engine = study.costs, study.subject.engine
    shares = study.placed.stages[0].cache
    if not found.fits or all(s.part.growth != "window" for s in shares):
        return
    blind_now = engine is not None and engine.hybrid == "full"
    other = study.room_of(_aware(study.subject) if blind_now else _blind(study.subject))
    ways = (other, found) if blind_now else (found, other)
    aware, blind = (one.values["kv.tokens"].quantity for one in ways)
    if float(aware.value) <= 1.01 * float(blind.value):
        return
    note = POLICY_NOTE.format_map(policy(engine, "hybrid")) if engine is not None else ""
    parts = [p for p in study.placed.parts if not p.draft and p.form in ("gqa", "mla")]
    windows = [
        p for p in parts if p.growth == "window" and _windowed(study.subject.model.parts[p.name])
    ]
    yield Fact(
        study.subject.place("model"),
        {
            "aware": aware,
            "blind": blind,
            "layers": sum(p.layers for p in windows),
            "others": sum(p.layers for p in parts) - sum(p.layers for p in windows),
            "policy_note": note,
            "requests": ways[0].values["kv.sequences"].quantity,
            "fewer": ways[1].values["kv.sequences"].quantity,
            "length": Quantity(cache.held_tokens(study.subject), TOKENS),
        },
        (("tokens, windows kept as windows", aware), ("tokens, every token kept", blind)),
        severity=Severity.WARNING if blind_now else None,
    )


def _windowed(part: AnyPart) -> TypeGuard[Gqa | Mla]:
    """Whether a part keeps a window and nothing beside it: entries for runs of tokens stand in for
    what a window has lost, and no manager keeps both."""
    if not isinstance(part, Gqa | Mla) or (part.window is None and part.chunk is None):
        return False
    return not (isinstance(part, Gqa) and part.compress is not None)


def _blind(subject: Subject) -> Subject:
    """The same with every token of windowed layers kept."""
    plain = {
        name: part.model_copy(update={"window": None, "chunk": None}) if _windowed(part) else part
        for name, part in subject.model.parts.items()
    }
    return replace(subject, model=subject.model.model_copy(update={"parts": plain}))


def _aware(subject: Subject) -> Subject:
    """The same under a manager that keeps windows as windows."""
    engine = subject.engine
    if engine is None:
        return subject
    return replace(subject, engine=engine.model_copy(update={"hybrid": "one_pool"}))


RULES: tuple[Rule, ...] = (share_of_another_memory, printed_is_no_capacity, window_by_manager)
