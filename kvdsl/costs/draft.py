"""Drafting: speculative decoding, as tokens verified in a step and tokens that it yields.

Comes in: a deployment's `draft`. Goes out: factors of a step. The draft's own time is the share of
the model that drafts, once for each drafted token. Leaves out: trees of drafts, and a draft model's
cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvdsl.arithmetic import real, smaller, where
from kvdsl.costs.origins import fixed
from kvdsl.formulas import Term, assumed, formula
from kvdsl.placement.subject import Subject
from kvdsl.placement.tensors import met, tensors
from kvdsl.spec.deployment import Draft
from kvdsl.spec.model import Model
from kvdsl.units import NONE, TIME

_LEVIATHAN = "Leviathan et al., Speculative Decoding, arXiv 2211.17192"


@formula("1 + drafted", NONE, _LEVIATHAN)
def verified_tokens(drafted: int) -> float:
    return 1 + real(drafted)


@formula("(1 - a^(drafted + 1)) / (1 - a)", NONE, _LEVIATHAN)
def yielded_tokens(accepted: float, drafted: int) -> float:
    a, n = smaller(real(accepted), 1.0), real(drafted)
    rest = where(a < 1, 1 - a, 1.0)
    return where(a < 1, (1 - a ** (n + 1)) / rest, n + 1)


@formula("time of the verifying step x (1 + drafted x share of the model)", TIME)
def drafted_step(verified: float, drafted: int, share: float) -> float:
    return real(verified) * (1 + real(drafted) * real(share))


@dataclass(frozen=True, slots=True)
class Drafting:
    """Tokens of a request that a step verifies, and those that it yields."""

    verified: Term
    yielded: Term
    drafted: Term | None = None
    share: Term | None = None

    def step(self, verified: Term) -> Term:
        """The time of a step with its drafts."""
        if self.drafted is None or self.share is None:
            return verified
        return drafted_step.derive(
            "time of a step with drafts", verified=verified, drafted=self.drafted,
            share=self.share,
        )  # fmt: skip


def drafting(subject: Subject) -> Drafting:
    """The drafting of a pool; without a draft each step yields one token a request."""
    draft = subject.pool.draft
    if draft is None:
        one = fixed("tokens a step", 1, "nothing is drafted")
        return Drafting(one, one)
    drafted = _leaf(draft, "tokens", "tokens drafted in a step", draft.tokens)
    if draft.acceptance is None:
        accepted = assumed("acceptance", 0, NONE,
                           "nothing says how often a draft is accepted, so none is")  # fmt: skip
    else:
        accepted = _leaf(draft, "acceptance", "acceptance", draft.acceptance)
    return Drafting(
        verified_tokens.derive("tokens verified in a step", drafted=drafted),
        yielded_tokens.derive("tokens that a step yields", accepted=accepted, drafted=drafted),
        drafted,
        _share(subject, draft),
    )


def _leaf(draft: Draft, name: str, label: str, value: int | Fraction) -> Term:
    origin = draft.origin(name)
    basis = "spec" if origin else "default"
    return Term(label, value, basis=basis, span=origin.span if origin else draft.at,
                note="" if origin else "the draft says nothing of it")  # fmt: skip


def _share(subject: Subject, draft: Draft) -> Term:
    """The part of a step's work that drafting one token takes."""
    model = subject.model
    if draft.method == "ngram":
        return fixed("share of the model that drafts", 0, "n-grams are looked up")
    if draft.model is not None:
        part = Fraction(_met(draft.model), _met(model))
        return fixed("share of the model that drafts", part, "parameters that a token meets")
    layers = draft.layers or sum(run.layers for run in model.mtp) or 1
    return fixed("share of the model that drafts", Fraction(layers, model.layers), "layers")


def _met(model: Model) -> int:
    return met(model, tensors(model))
