"""Rules on an engine's start: the longest request, and what lies beside the share of the cache."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvdsl.checks.refusals import POLICY_NOTE, policy
from kvdsl.checks.study import Fact, Study
from kvdsl.costs import cache, pages
from kvdsl.costs.memory import Ledger, fullest, overheads
from kvdsl.diagnostics import Severity
from kvdsl.rules import Rule, rule
from kvdsl.units import BYTES, BYTES_PER_TOKEN, REQUESTS, TOKENS, Quantity, percent, shown, tidy

# --- the longest request ------------------------------------------------------------------------


def _requests(study: Study, book: Ledger, length: int, *, whole_model: bool = False) -> int:
    """Requests of so many tokens that a rank has room for."""
    placed, subject = study.placed, study.subject
    stage = placed.stages[book.rank.stage]
    pool = pages.pool(subject, stage)
    room = max(Fraction(0), Fraction(book.room.value))
    if pool is None or not pool.page:
        size = subject.engine.block if subject.engine else 1
        taken = Fraction(cache.request_on_rank(stage, length, size))
        return int(room // taken) if taken else WITHOUT_CACHE
    lost = subject.engine.lost_blocks if subject.engine else 0
    page = pool.page
    if whole_model:
        every = (pages.pool(subject, other) for other in placed.stages)
        page = sum((p.page for p in every if p is not None), start=Fraction(0))
    blocks = pool.blocks(length)
    return int((room // page - lost) // blocks) if blocks else WITHOUT_CACHE


WITHOUT_CACHE = 1
"""A request that takes no cache on a rank: it fits."""


def _at_once(study: Study, length: int) -> Quantity:
    """Requests of so many tokens that fit at once, over all ranks and replicas that hold any."""
    each = min(_requests(study, book, length) for book in study.costs.ledgers)
    return Quantity(each * study.subject.degrees.holders, REQUESTS)


def _longest_that_fits(study: Study, most: int, *, whole_model: bool) -> int:
    """The longest request up to `most` that finds room on every rank."""

    def fits(length: int) -> bool:
        books = study.costs.ledgers
        return all(_requests(study, book, length, whole_model=whole_model) for book in books)

    if fits(most):
        return most
    low, high = 0, most - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


@rule(
    "KV223",
    "longest-request-without-room",
    Severity.WARNING,
    "costs",
    "one request of {longest}, {whose}, finds no room: {most} fit at the most",
    also=(Severity.ERROR,),
    label="{room} for the cache on the fullest device",
    notes=(
        "of that length {full} fit at once, of half of it {half}",
        "{engine_note}",
        "{all_layers}",
    ),
    helps=("{fix}",),
)
def longest_request_without_room(study: Study) -> Iterator[Fact]:
    """The longest request that is let in fits alone.

    What it checks
        A request of `limits { context = … }` fits into the cache of every rank. An engine whose
        `longest` is `refuse` takes the model's `max_context` where no limit is given, and refuses
        to start: an error. With `longest_over = model` it counts all layers in every stage. The
        finding shows the longest that fits and how many of that length fit at once.

    Why it matters
        A request that nothing has room for can never be served, and the engine stops at the start.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_a100_80gb
          layout   { tp = 2; replicas = 4 }
          budget   { utilization = 95 %; reserve = 3 GB }
          limits   { context = 128 ktok }
          workload { context = 2 ktok; concurrency = 8 req }
        }

    Instead
        A limit that fits, more ways, or a smaller format of the cache.

        deployment better extends served { limits { context = 8 ktok } }
    """
    subject, found = study.subject, study.costs
    engine = subject.engine
    refuses = engine is not None and engine.longest == "refuse"
    longest = subject.longest if refuses else subject.limits.context
    if longest is None or not found.fits:
        return
    whole = engine is not None and engine.longest_over == "model" and subject.degrees.pp > 1
    most = _longest_that_fits(study, longest, whole_model=whole)
    if most >= longest:
        return
    truly = _longest_that_fits(study, longest, whole_model=False) if whole else most
    note = POLICY_NOTE.format_map(policy(engine, "longest")) if engine and refuses else ""
    said = subject.limits.origin("context")
    layers = ""
    if whole and engine is not None:
        layers = (
            f"this version counts all {subject.model.layers} layers in every stage, policy "
            f"`longest_over = model`; by its stages {shown(Quantity(truly, TOKENS))} would fit"
        )
    yield Fact(
        said.span if said else subject.place("budget"),
        {
            "longest": Quantity(longest, TOKENS),
            "whose": "the limit" if said else f"the longest of {subject.model.title}",
            "most": Quantity(most, TOKENS),
            "full": _at_once(study, most) if most else "",
            "half": _at_once(study, max(1, most // 2)),
            "room": fullest(found.ledgers).room.quantity,
            "engine_note": note,
            "all_layers": layers,
            "fix": f"write `limits {{ context = {most} tok }}`, or make room" if most
            else "make room: not one page is left",
        },
        (("longest that fits", Quantity(most, TOKENS)),),
        severity=Severity.ERROR if refuses else None,
    )  # fmt: skip


# --- beside the share of the cache --------------------------------------------------------------


@rule(
    "KV225",
    "crowded-remainder",
    Severity.WARNING,
    "costs",
    "activations and graphs take {need} of a device, and the share leaves {left}",
    label="{share} of the free memory is weights and cache",
    notes=(POLICY_NOTE, "nothing is measured at the start, so it runs out of memory later"),
    helps=("a utilization of {enough} leaves them room",),
)
def crowded_remainder(study: Study) -> Iterator[Fact]:
    """What an engine does not measure has room beside its share.

    What it checks
        With `budget_of = free`: the overheads of activations and graphs fit into what utilization
        leaves of the memory that is free before loading.

    Why it matters
        Such an engine fills its share with weights and cache at the start and takes activations
        and graphs from the rest. What does not fit fails under load, not at the start.

    Example
        engine house extends engines.sglang_0_5_23 {
          overhead { activations = 9 GiB; graphs = 3 GiB }
        }
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          engine   = house
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { utilization = 93 % }
          workload { context = 8 ktok; concurrency = 32 req }
        }

    Instead
        A smaller share, or smaller steps.

        deployment better extends served { budget { utilization = 84 % } }
    """
    engine, found = study.subject.engine, study.costs
    if engine is None or engine.budget_of != "free" or engine.overhead is None:
        return
    if study.subject.budget.kv is not None or not found.fits:
        return
    parts = overheads(engine.overhead)
    need = Fraction(parts["activations"].value) + Fraction(parts["graphs"].value)
    book = min(found.ledgers, key=lambda b: Fraction(b.memory.value))
    memory, before = Fraction(book.memory.value), Fraction(book.reserve.value)
    left = memory - Fraction(book.usable.value)
    if need <= left:
        return
    share = (Fraction(book.usable.value) - before) / (memory - before)
    enough = (memory - before - need) / (memory - before)
    yield Fact(
        study.subject.place("budget"),
        {
            **policy(engine, "budget_of"),
            "need": Quantity(tidy(need), BYTES),
            "left": Quantity(tidy(left), BYTES),
            "share": percent(share),
            "enough": percent(Fraction(int(enough * 1000), 1000)),
        },
        (("needed", Quantity(tidy(need), BYTES)), ("left", Quantity(tidy(left), BYTES))),
    )


@rule(
    "KV226",
    "undersized-token",
    Severity.WARNING,
    "costs",
    "{engine} sizes its pool for {counted} a GPU, and a token takes {taken}",
    label="TP={tp} is past the KV heads",
    notes=("pages for {tokens} are {over} more than the room that was measured", POLICY_NOTE),
    helps=("give the tokens outright, at most {most}; or keep TP within the KV heads",),
)
def undersized_token(study: Study) -> Iterator[Fact]:
    """An engine's estimate of a token counts the copies of KV heads.

    What it checks
        With `sizing = even`: KV heads divide over TP, or what the pool was sized for is less than
        what it takes.

    Why it matters
        The estimate says KV heads / TP, the pool stores a whole head on every rank. It asks for
        more memory than was found free.

    Example
        deployment served {
          model    = models.qwen3_30b_a3b
          weights  = formats.bf16
          kv       = formats.bf16
          engine   = engines.tensorrt_llm_1_2
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8; experts { ep = 8 } }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        TP within the KV heads.

        layout within { tp = 4; experts { ep = 4 }; replicas = 2 }

        deployment better extends served { layout = within }
    """
    engine, found, placed = study.subject.engine, study.costs, study.placed
    if engine is None or engine.sizing == "held" or not found.fits:
        return
    for book in found.ledgers:
        stage = placed.stages[book.rank.stage]
        pool = pages.pool(study.subject, stage, counted=True)
        if pool is None or not pool.uniform:
            continue
        counted, taken = pool.page / pool.tokens, Fraction(book.token.value)
        if counted >= taken:
            continue
        room = Fraction(book.room.value)
        tokens = int(room // pool.page) * pool.tokens
        yield Fact(
            study.subject.place("layout"),
            {
                **policy(engine, "sizing"),
                "counted": Quantity(tidy(counted), BYTES_PER_TOKEN),
                "taken": Quantity(tidy(taken), BYTES_PER_TOKEN),
                "tp": study.subject.degrees.attention.tp,
                "tokens": Quantity(tokens, TOKENS),
                "over": Quantity(tidy(tokens * taken - room), BYTES),
                "most": Quantity(int(room // taken), TOKENS),
            },
            (("tokens that fit", Quantity(int(room // taken), TOKENS)),),
        )
        return


RULES: tuple[Rule, ...] = (
    longest_request_without_room,
    crowded_remainder,
    undersized_token,
)
