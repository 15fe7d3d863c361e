"""Attention over the cache: the work of scoring a key and using it, by part of the cache.

Comes in: a model's parts as a stage keeps them, and what a pass carries. Goes out: heads and values
of a score, and the time of all scores on a rank. An indexer scores every key; the attention that it
selects for scores those selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvdsl.arithmetic import times
from kvdsl.costs.carried import Carried, pairs_with
from kvdsl.costs.origins import fixed, of_layout, of_model
from kvdsl.costs.roofline import computed, peak_of
from kvdsl.formulas import Term, formula, total
from kvdsl.placement.cache import CachePart
from kvdsl.placement.placement import Placement, Stage
from kvdsl.placement.subject import Subject
from kvdsl.spec.hardware import Device
from kvdsl.spec.model import Gqa, Indexer, Mla
from kvdsl.units import TIME, WORK, tidy

Number = int | Fraction | float


@formula(
    "layers x 2 x values a score and its use x heads on a rank x pairs of query and key",
    WORK,
    "Dao et al., FlashAttention, arXiv 2205.14135, counts alike",
)
def attention_work(layers: int, values: int, heads: Number, pairs: Number) -> Number:
    return times(layers, 2, values, heads, pairs)


@dataclass(frozen=True, slots=True)
class Scoring:
    """Heads on a rank, and the values of a score and its use in each: of keys as they are cached,
    and of a prompt's (MLA keys and values in full)."""

    heads: Fraction
    cached: int
    expanded: int


def scoring(subject: Subject, part: CachePart) -> Scoring | None:
    """None where nothing is scored: states, and keys of an index that nobody asks."""
    spec = subject.model.parts.get(part.name.removesuffix(" index").removesuffix(" compressed"))
    if not isinstance(spec, Gqa | Mla):
        return None
    if part.form == "indexer":
        if not isinstance(spec.indexer, Indexer):
            return None
        return Scoring(Fraction(spec.indexer.heads), spec.indexer.key_dim, spec.indexer.key_dim)
    heads = max(Fraction(1), Fraction(spec.query_heads, subject.degrees.attention.tp))
    if isinstance(spec, Gqa):
        return Scoring(heads, spec.head_dim + spec.value_width, spec.head_dim + spec.value_width)
    return Scoring(
        heads, 2 * spec.kv_rank + spec.rope_dim, spec.nope_dim + spec.rope_dim + spec.value_dim
    )


def peak_of_keys(subject: Subject, part: CachePart, device: Device) -> Term | None:
    """The peak at which a cached part is scored: kernels multiply an fp8 cache in fp8 where the
    device does; other narrow formats are widened first."""
    forms = [component.format for component in part.components]
    if forms and all(f.arithmetic == "fp8" for f in forms) and "fp8" in device.compute:
        return peak_of(device, forms[0])
    return peak_of(device, subject.activations)


def attention_time(placement: Placement, stage: Stage, device: Device, carried: Carried) -> Term:
    """The time of all scores of a pass on a rank of the stage, at the peak of the activations; of
    an index at that of its keys."""
    subject = placement.subject
    peak = peak_of(device, subject.activations)
    terms = []
    for share in stage.cache:
        made = scoring(subject, share.part)
        if made is None:
            continue
        values = made.expanded if carried.expanded else made.cached
        work = attention_work.derive(
            f"scores of {share.part.name}",
            layers=of_model(subject.model, "layers", share.layers),
            values=of_model(subject.model, "values a score and its use", values),
            heads=of_layout(subject, "query heads on a rank", tidy(made.heads)),
            pairs=pairs_with(placement, carried, share),
        )
        own = peak_of_keys(subject, share.part, device) if share.part.form == "indexer" else peak
        terms.append(computed(device, "attention computed", work, own))
    if not terms:
        return fixed("attention computed", 0.0, "nothing of the kind here", TIME)
    return total("attention computed", terms)
