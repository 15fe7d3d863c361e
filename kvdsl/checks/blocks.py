"""Rule on quantized weights: a shard that ends inside a block with a scale of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import prod

from kvdsl.checks.refusals import POLICY_NOTE, policy, policy_label
from kvdsl.checks.study import CACHE_VALUES, Fact, Study, Suggestion
from kvdsl.costs.weights import format_of
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import ExpertAxes
from kvdsl.placement.shares import Shard
from kvdsl.placement.subject import Subject
from kvdsl.rules import Rule, rule
from kvdsl.spec.formats import Format
from kvdsl.units import Quantity, grouped, tidy

UNQUANTIZED = ("embedding", "head", "norms", "router", "tower")
"""Modules that engines keep in 16 bits whatever the checkpoint's scheme: their blocks cut nothing.
Source: ignored layers of published FP8 and 4-bit checkpoints."""


def _block(form: Format) -> tuple[int, int] | None:
    """Rows and columns of a block with a scale of its own."""
    inner = form.of or form
    if inner.block is None or inner.scale is None:
        return None
    return (1, inner.block[0]) if len(inner.block) == 1 else (inner.block[0], inner.block[1])


def _cut_block(subject: Subject, shard: Shard) -> tuple[int, int, int, str] | None:
    """(width, ways, block, format) where a rank's part of a tensor ends inside a block."""
    tensor = shard.tensor
    if tensor.module in UNQUANTIZED or tensor.made or tensor.rows == 1:
        return None
    if tensor.cut in ("norm", "indexer"):  # small tables and whole matrices
        return None
    form = format_of(subject, tensor)
    block = _block(form)
    cuts = [c for c in shard.cuts if c.dimension != "experts" or c.axis == "experts.tp"]
    ways = prod(c.size for c in cuts if c.axis != "experts.ep")
    if block is None or ways == 1:
        return None
    size, step = (
        (tensor.columns, block[1]) if tensor.along == "columns" else (tensor.rows, block[0])
    )
    if step == 1:
        return None
    part = Fraction(size) * prod((c.held for c in cuts if c.axis != "experts.ep"),
                                 start=Fraction(1))  # fmt: skip
    return (size, ways, step, form.title) if part % step else None


@rule(
    "KV220",
    "cut-weight-blocks",
    Severity.WARNING,
    "placement",
    "blocks of {block} in {format} are cut: `{part}` has {size} {what}, and {size} / {ways} = "
    "{each} on a rank",
    also=(Severity.ERROR, Severity.INFO),
    label="cut {ways:ways}",
    notes=("{each} is no multiple of {block}, and a block's scale stands for all of it",
           "{engine_note}"),
    helps=("{fix}",),
)  # fmt: skip
def cut_weight_blocks(study: Study) -> Iterator[Fact]:
    """A rank's part of a quantized matrix holds whole blocks.

    What it checks
        Each matrix that a layout cuts, in a format with a scale for each block: the rank's rows
        or columns are a multiple of the block. Experts, shared experts, dense layers and
        attention each. An error where the engine's `partial_block` is `refuse`, information
        without an engine.

    Why it matters
        Engines stop at the first cut block, or pad it: then the padding has to be stored.

    Example
        recipe fp8_blocks {
          default   = formats.fp8_block128
          embedding = formats.bf16; head = formats.bf16
          norms     = formats.bf16; router = formats.bf16
        }
        engine house {
          family  = vllm
          version = "0.33.0"
          overhead { activations = 3 GB }
        }
        deployment served {
          model    = models.qwen3_30b_a3b
          weights  = fp8_blocks
          kv       = formats.bf16
          engine   = house
          on       = 1 x nodes.hgx_h100
          layout   { tp = 4; replicas = 2 }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        Experts whole on a rank (`ep`), or a smaller TP.

        layout whole { tp = 4; experts { ep = 4 }; replicas = 2 }

        deployment better extends served { layout = whole }
    """
    subject, told = study.subject, set[tuple[str, str]]()
    engine = subject.engine
    severity = Severity.INFO
    if engine is not None:
        severity = Severity.ERROR if engine.partial_block == "refuse" else Severity.WARNING
    for stage in study.placed.stages:
        for shard in stage.shards:
            key = (shard.tensor.module, shard.tensor.part)
            found = _cut_block(subject, shard) if key not in told else None
            if found is None:
                continue
            told.add(key)
            size, ways, block, title = found
            note = ""
            if engine is not None:
                note = POLICY_NOTE.format_map(policy(engine, "partial_block"))
            yield Fact(
                subject.place("layout"),
                {
                    "block": block,
                    "format": title,
                    "part": shard.tensor.part or shard.tensor.module,
                    "size": size,
                    "what": _what(shard),
                    "ways": ways,
                    "each": grouped(tidy(Fraction(size, ways))),
                    "engine_note": note,
                    "fix": _smaller(size, ways, block),
                },
                (("width", Quantity(size)), ("block", Quantity(block))),
                _whole_experts(study) if shard.tensor.module == "routed_experts" else None,
                policy_label(engine, "partial_block") if engine else (),
                severity,
            )


def _what(shard: Shard) -> str:
    side = "columns" if shard.tensor.along == "columns" else "rows"
    word = shard.tensor.module.replace("_", " ")
    return f"{side} in its {word}" if shard.tensor.part else side


def _smaller(size: int, ways: int, block: int) -> str:
    legal = [d for d in range(1, ways) if size % d == 0 and size // d % block == 0]
    if not legal:
        return "store these layers in a format without blocks, or pad the checkpoint"
    return f"cut {legal[-1]} ways: {grouped(size)} / {legal[-1]} = {grouped(size // legal[-1])}"


def _whole_experts(study: Study) -> Suggestion | None:
    """Experts whole on a rank: all of their ways as `ep`."""
    degrees = study.subject.degrees
    e = degrees.experts
    other = study.under(replace(degrees, experts=ExpertAxes(ep=e.size, redundant=e.redundant),
                                name=""))  # fmt: skip
    if other is None or not other.fits:
        return None
    return Suggestion(f"experts {{ ep = {e.size} }}", other.subject.degrees.text(), other,
                      CACHE_VALUES)  # fmt: skip


RULES: tuple[Rule, ...] = (cut_weight_blocks,)
