"""Rule on quantized weights: a shard that ends inside a block with a scale of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from kvdsl.checks.refusals import POLICY_NOTE, policy, policy_label
from kvdsl.checks.splits import Splits, splits, widths
from kvdsl.checks.study import CACHE_VALUES, Fact, Study, Suggestion
from kvdsl.costs.weights import format_of, tensor_bytes
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import ExpertAxes
from kvdsl.placement.shares import Shard
from kvdsl.placement.tensor import Tensor
from kvdsl.placement.weight_blocks import CutBlock, block_of, cut_block
from kvdsl.rules import Rule, rule
from kvdsl.units import BYTES, Quantity, grouped, shown, tidy


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
           "each rank keeps {padded} of them: {more} on a GPU in all, and it is counted",
           "{engine_note}", "the same {devices:devices}: {splits}"),
    helps=("{fix}",),
)  # fmt: skip
def cut_weight_blocks(study: Study) -> Iterator[Fact]:
    """A rank's part of a quantized matrix holds whole blocks.

    What it checks
        Each matrix that a layout cuts, in a format with a scale for each block: the rank's rows
        or columns are a multiple of the block. Experts, shared experts, dense layers and
        attention each. An error where the engine's `partial_block` is `refuse`; with `pad` the
        parts are filled up to whole blocks and stored so; information without an engine.

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
    others: Splits | None = None
    for stage in study.placed.stages:
        for share in stage.shards:
            key = (share.tensor.module, share.tensor.part)
            found = _cut(study, share) if key not in told else None
            if found is None:
                continue
            told.add(key)
            if others is None:
                others = Splits(()) if study.closed else splits(study, widths(study))
            yield _fact(study, share, found, others, severity)


def _cut(study: Study, share: Shard) -> CutBlock | None:
    """Of the tensor as it lies on ranks; of the checkpoint's where the engine fills up what it cuts
    (experts that it widens before it cuts them are cut as they then are)."""
    own, engine = share.tensor, study.subject.engine
    if block_of(format_of(study.subject, own)) is None:  # however it is padded
        return None
    if engine is not None and engine.partial_block == "pad":
        own = next((t for t in study.placed.tensors if _same(t, own)), own)
    return cut_block(replace(share, tensor=own), format_of(study.subject, own))


def _same(one: Tensor, other: Tensor) -> bool:
    return (one.module, one.part, one.name, one.depths, one.draft) == (
        other.module,
        other.part,
        other.name,
        other.depths,
        other.draft,
    )


def _fact(study: Study, share: Shard, found: CutBlock, others: Splits, severity: Severity) -> Fact:
    subject, module = study.subject, share.tensor.module
    engine = subject.engine
    note, more = "", ""
    if engine is not None:
        note = POLICY_NOTE.format_map(policy(engine, "partial_block"))
    if severity is Severity.WARNING:
        more = shown(_padding(study, module))
    whole = _whole_experts(study) if module == "routed_experts" else None
    return Fact(
        subject.place("layout"),
        {
            "block": found.step,
            "format": found.form.title,
            "part": share.tensor.part or module,
            "size": found.size,
            "what": _what(share),
            "ways": found.ways,
            "each": grouped(tidy(found.each)),
            "padded": found.padded if more else "",
            "more": more,
            "engine_note": note,
            "devices": subject.degrees.devices,
            "splits": others.text,
            "fix": _smaller(study, found),
        },
        (("width", Quantity(found.size)), ("block", Quantity(found.step))),
        whole or others.best,
        policy_label(engine, "partial_block") if engine else (),
        severity,
    )


def _padding(study: Study, module: str) -> Quantity:
    """Bytes that whole blocks add to a module on a rank, at the most."""
    most = Fraction(0)
    for stage in study.placed.stages:
        more = Fraction(0)
        for share in stage.shards:
            found = _cut(study, share) if share.tensor.module == module else None
            if found is not None:
                kept = (
                    Fraction(tensor_bytes(study.subject, share.tensor, share.depths)) * share.held
                )
                more += kept * (1 - found.each / found.padded)
        most = max(most, more)
    return Quantity(tidy(most), BYTES)


def _what(shard: Shard) -> str:
    side = "columns" if shard.tensor.along == "columns" else "rows"
    word = shard.tensor.module.replace("_", " ")
    return f"{side} in its {word}" if shard.tensor.part else side


def _smaller(study: Study, found: CutBlock) -> str:
    """The widest cut that keeps blocks whole, of those that divide all else too."""
    size, block = found.size, found.step
    even = range(1, found.ways) if study.closed else widths(study)
    legal = [d for d in even if d < found.ways and size % d == 0 and size // d % block == 0]
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
