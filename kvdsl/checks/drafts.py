"""Rules on drafts: what a second model takes of the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from kvdsl.checks.study import Fact, Study
from kvdsl.costs.estimate import Estimate
from kvdsl.diagnostics import Severity
from kvdsl.rules import Rule, rule
from kvdsl.units import BYTES, BYTES_PER_TOKEN, TOKENS, Quantity, tidy


@rule(
    "KV240",
    "draft-beside-model",
    Severity.WARNING,
    "costs",
    "the draft {draft} takes {weights} of weights and {token} of cache on a GPU, and neither is "
    "in this plan",
    label="a second model in the same memory",
    notes=("with it the cache holds {after}, not {before}",),
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


RULES: tuple[Rule, ...] = (draft_beside_model,)
