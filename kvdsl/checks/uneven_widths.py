"""Rules on widths that an engine cuts over ranks: feed-forward, experts, vocabulary, states.

Without an engine every module divides exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvdsl.checks.splits import Splits, splits, widths
from kvdsl.checks.study import Fact, Study
from kvdsl.diagnostics import Severity
from kvdsl.placement.shares import spread
from kvdsl.placement.storage import padded_rows
from kvdsl.placement.subject import Subject
from kvdsl.rules import Rule, rule
from kvdsl.spec.model import Gated, GatedDelta, Kda, Lightning, Mamba2, Moe, Plain
from kvdsl.units import Quantity


@dataclass(frozen=True, slots=True)
class Width:
    """A width that an axis cuts: whole on every rank or not."""

    what: str
    size: int
    ways: int


def cut_widths(subject: Subject) -> Iterator[Width]:
    """Every width that an engine cuts over ranks, beside the heads of attention."""
    model, degrees, engine = subject.model, subject.degrees, subject.engine
    used = {name for _, layer in model.sequence() for name in layer.parts}
    tp = degrees.attention.tp
    for name, part in model.parts.items():
        if name not in used:
            continue
        match part:
            case Gated() | Plain():
                yield Width(f"the width of `{name}`", part.intermediate,
                            spread("ffn", degrees, engine).tp)  # fmt: skip
            case Moe():
                yield Width(f"the width of an expert of `{name}`", part.intermediate,
                            degrees.experts.tp)  # fmt: skip
                if part.shared_width:
                    yield Width(f"the shared experts' width of `{name}`", part.shared_width,
                                spread("shared_experts", degrees, engine).tp)  # fmt: skip
            case GatedDelta():
                yield Width(f"the value heads of `{name}`", part.value_heads, tp)
                yield Width(f"the key heads of `{name}`", part.key_heads, tp)
            case Kda() | Lightning() | Mamba2():
                yield Width(f"the heads of `{name}`", part.heads, tp)
            case _:
                pass
    rows = padded_rows(model.vocab, engine)
    padded = f"the vocabulary, padded to {rows:,} rows," if rows > model.vocab else "the vocabulary"
    yield Width(padded, rows, spread("head", degrees, engine).tp)


@rule(
    "KV221",
    "uneven-width",
    Severity.ERROR,
    "subject",
    "{engine} refuses to start: {what} of {size} does not divide over {ways:ranks}",
    label="cut {ways:ways}",
    notes=(
        "{size} / {ways} is not whole; the engine gives every rank equal, whole parts",
        "the same {devices:devices}: {splits}",
    ),
    helps=("ways of {legal} divide it",),
)
def uneven_width(study: Study) -> Iterator[Fact]:
    """Widths, experts' widths, vocabulary and state heads divide over the ranks of an engine.

    What it checks
        With an engine: the width of each feed-forward part over its ways, an expert's width over
        the experts' `tp`, the padded vocabulary over its ways, heads of states over attention's
        `tp`. Without an engine every module divides exactly. Query and KV heads: KV102, KV103.

    Why it matters
        An engine stores equal parts on every rank, and stops at one that is not whole.

    Example
        model narrow {
          hidden = 2048; vocab = 32_000
          attention a = gqa { query_heads = 16; kv_heads = 8; head_dim = 128 }
          ffn f = gated { intermediate = 5460 }
          stack { 24 x layer { a; f } }
        }
        deployment served {
          model    = narrow
          weights  = formats.bf16
          kv       = formats.bf16
          engine   = engines.vllm_0_33
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        A TP that divides it, with the other devices as replicas or stages.

        deployment better extends served { layout = { tp = 4; replicas = 2 } }
    """
    engine = study.subject.engine
    if engine is None:
        return
    uneven = [width for width in cut_widths(study.subject) if width.size % width.ways]
    others = Splits(()) if study.closed or not uneven else splits(study, widths(study))
    for width in uneven:
        near = [d for d in range(1, width.ways + 1)
                if width.size % d == 0 and width.ways % d == 0][-2:]  # fmt: skip
        yield Fact(
            study.subject.place("layout"),
            {
                "engine": engine.title,
                "what": width.what,
                "size": width.size,
                "ways": width.ways,
                "legal": " or ".join(map(str, near)),
                "devices": study.subject.degrees.devices,
                "splits": others.text,
            },
            (("width", Quantity(width.size)), ("ways", Quantity(width.ways))),
            others.best,
        )


RULES: tuple[Rule, ...] = (uneven_width,)
