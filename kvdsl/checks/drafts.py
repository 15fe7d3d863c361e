"""Rules on drafts: layers that a model must have, and what a draft takes of the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from kvdsl.checks.study import Fact, Study
from kvdsl.costs.estimate import Estimate
from kvdsl.diagnostics import Severity
from kvdsl.rules import Rule, rule
from kvdsl.units import BYTES, BYTES_PER_TOKEN, TOKENS, Quantity, percent, tidy


@rule(
    "KV240",
    "draft-beside-model",
    Severity.WARNING,
    "costs",
    "the draft {draft} takes {weights} of weights and {token} of cache on a GPU, and neither is "
    "in this plan",
    label="a second model in the same memory",
    notes=(
        "weights: {weights} on a GPU of the last stage",
        "cache: {token}, {share} of the model's own; with it the cache holds {after}, not {before}",
        "graphs: {graphs}",
    ),
    helps=("add {weights} to `reserve`, and count on {after}; graphs of the draft come on top",),
)
def draft_beside_model(study: Study) -> Iterator[Fact]:
    """A draft model has weights, a cache and graphs of its own.

    What it checks
        `draft` names a model: its weights and its cache of every token, cut as the layout cuts
        the model, and the tokens that are left of both caches.

    Why it matters
        The draft reads and keeps the same tokens as the model that it drafts for. Start-up logs
        show the loss: 120,576 tokens become 73,472 with a draft of a few layers.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 32 req }
          draft    { method = model; model = models.llama_3_1_8b; tokens = 3 }
        }

    Instead
        A draft that needs no memory of this size, or a reserve that has room for it.

        deployment better extends served { drop draft }
    """
    draft = study.subject.pool.draft
    if draft is None or draft.model is None or draft.method not in ("model", "eagle"):
        return
    if not study.costs.fits:
        return
    found = _drafting(study)
    if found is None:
        return
    weights = Fraction(found.values["memory.weights"].value)
    token = Fraction(found.values["kv.bytes_per_token_per_gpu"].value)
    yield Fact(
        draft.at or study.subject.place("deployment"),
        {
            "draft": draft.model.title,
            "weights": Quantity(tidy(weights), BYTES),
            "token": Quantity(tidy(token), BYTES_PER_TOKEN),
            "before": study.costs.values["kv.tokens"].quantity,
            "after": Quantity(_left(study, weights, token), TOKENS),
            "share": _share(token, study),
            "graphs": GRAPHS,
        },
        (
            ("weights of the draft", Quantity(tidy(weights), BYTES)),
            ("cache of the draft", Quantity(tidy(token), BYTES_PER_TOKEN)),
        ),
    )


GRAPHS = (
    "captured for the draft's steps too; no formula gives them, the start-up log does "
    "(`overhead { graphs }`)"
)


def _share(token: Fraction, study: Study) -> str:
    """A draft's bytes a token, of those of the model on the same GPU."""
    own = Fraction(study.costs.values["kv.bytes_per_token_per_gpu"].value)
    return percent(token / own) if own else "all"


@rule(
    "KV241",
    "draft-layers",
    Severity.INFO,
    "costs",
    "the draft of {layers:layers} takes {weights} of weights and {token} of cache on a GPU: the "
    "cache holds {after}, {before} without it",
    label="drafts by the model's own layers",
    notes=(
        "weights: {weights} on a GPU of the last stage, counted",
        "cache: {token}, {share} of the model's own, counted",
        "graphs: {graphs}",
    ),
)
def draft_layers(study: Study) -> Iterator[Fact]:
    """A model's own draft layers take weights, cache and graphs.

    What it checks
        `draft { method = mtp }` in a model that declares draft layers: the same plan without them.

    Why it matters
        They are loaded, cached and captured like any other layer. A log of GLM 5.1 with one draft
        layer has 1.3 % more bytes a token, 0.95 GiB more weights and 1.2 GiB more graphs.

    Example
        deployment served {
          model    = models.deepseek_v3
          weights  = formats.bf16
          kv       = formats.bf16
          on       = racks.gb200_nvl72.devices[0..15]
          layout   { attention { dp = 16 }; experts { ep = 16 } }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 512 req }
          draft    { method = mtp; layers = 1; tokens = 3 }
          allow KV121 because "the layout is what is planned"
        }

    Instead
        Nothing: this is information. The three are apart, so that a log can be laid beside them.
    """
    draft, found = study.subject.pool.draft, study.costs
    if draft is None or draft.method != "mtp" or not study.subject.model.mtp or not found.fits:
        return
    pool = study.subject.pool.model_copy(update={"draft": None})
    other = study.room_of(replace(study.subject, pool=pool))
    last = max(book.rank.stage for book in found.ledgers)
    own, bare = (
        next(book for book in each.ledgers if book.rank.stage == last) for each in (found, other)
    )
    weights = Fraction(own.weights.value) - Fraction(bare.weights.value)
    token = Fraction(own.token.value) - Fraction(bare.token.value)
    yield Fact(
        draft.at or study.subject.place("deployment"),
        {
            "layers": sum(
                p.layers for p in study.placed.parts if p.draft and p.form in ("gqa", "mla")
            ),
            "weights": Quantity(tidy(weights), BYTES),
            "token": Quantity(tidy(token), BYTES_PER_TOKEN),
            "share": percent(token / Fraction(bare.token.value)) if bare.token.value else "",
            "graphs": GRAPHS,
            "before": other.values["kv.tokens"].quantity,
            "after": found.values["kv.tokens"].quantity,
        },
        (
            ("weights of the draft", Quantity(tidy(weights), BYTES)),
            ("cache of the draft", Quantity(tidy(token), BYTES_PER_TOKEN)),
        ),
    )


def _drafting(study: Study) -> Estimate | None:
    """The draft alone, on the same ranks. It lies in one stage."""
    draft = study.subject.pool.draft
    if draft is None or draft.model is None:
        return None
    degrees = replace(study.subject.degrees, pp=1, stage_layers=None, name="")
    subject = replace(study.subject, model=draft.model, degrees=degrees)
    try:
        return study.room_of(subject)
    except (ValueError, KeyError):  # heads or layers that these ranks do not take
        return None


def _left(study: Study, weights: Fraction, token: Fraction) -> int:
    """Tokens of both caches in each holder, over all of them."""
    each = []
    last = max(book.rank.stage for book in study.costs.ledgers)
    for book in study.costs.ledgers:
        own = book.rank.stage == last
        room = Fraction(book.room.value) - (weights if own else 0)
        size = Fraction(book.token.value) + (token if own else 0)
        each.append(int(max(Fraction(0), room) // size) if size else 0)
    return min(each) * study.subject.degrees.holders


@rule(
    "KV227",
    "draft-without-layers",
    Severity.ERROR,
    "subject",
    "the draft is by `mtp`, and {model} has no draft layers",
    label="method = mtp",
    helps=("declare them (`mtp {{ … }}` in the model), or draft by `eagle`, `model` or `ngram`",),
)
def draft_without_layers(study: Study) -> Iterator[Fact]:
    """A draft by the model's own layers needs such layers.

    What it checks
        With `draft { method = mtp }` the model declares `mtp`.

    Why it matters
        Their weights and cache would count nothing, and no engine could load them.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
          draft    { method = mtp; tokens = 2 }
        }

    Instead
        Another method.

        deployment better extends served { draft { method = ngram } }
    """
    draft = study.subject.pool.draft
    if draft is None or draft.method != "mtp" or study.subject.model.mtp:
        return
    origin = draft.origin("method")
    yield Fact(origin.span if origin else draft.at or study.subject.place("deployment"),
               {"model": study.subject.model.title})  # fmt: skip


RULES: tuple[Rule, ...] = (draft_beside_model, draft_layers, draft_without_layers)
