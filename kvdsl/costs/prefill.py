"""Prefill: the time to the first token, with its queue.

Comes in: a placement and its ledgers. Goes out: the pass of one prompt on each DP rank, the mean
time to the first token and the throughput. A rate makes prompts queue; a concurrency
alone says nothing of arrivals, so nothing queues. With `context` it is one unqueued prefill.
At a rate prompts that wait share a pass, as clients' prompts do: it is what many of them take that
bounds the rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import at_least, real, some, times
from kvdsl.arithmetic import rate as rate_of
from kvdsl.costs import collectives, overlap, passes
from kvdsl.costs.carried import prefill_carried
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.load import arrivals_at
from kvdsl.costs.memory import Ledger, leaf
from kvdsl.costs.origins import fixed, of_layout
from kvdsl.costs.passes import RankTime
from kvdsl.costs.queues import queue_wait
from kvdsl.formulas import Term, assumed, formula, greatest, total
from kvdsl.placement.placement import Placement
from kvdsl.placement.subject import Subject
from kvdsl.units import REQUEST_RATE, TIME, TOKEN_RATE, tidy

Number = int | Fraction | float


@formula(
    "max(1, prompt x (1 - prefix hits))",
    units.TOKENS,
    "language: prefix_hits; a prompt's last token is always computed, it gives the first output",
)
def new_tokens(prompt: Number, hits: Number) -> Number:
    return at_least(times(prompt, 1 - hits), 1)


@formula("prompt - new tokens", units.TOKENS)
def found_tokens(prompt: Number, new: Number) -> Number:
    return prompt - new


@formula("arrivals / servers", REQUEST_RATE, "requests spread evenly")
def rate_of_server(rate: Number, servers: int) -> float:
    return real(rate) / servers


@formula("servers x prompt tokens / time of the slowest stage", TOKEN_RATE, "stages kept full")
def prompt_throughput(servers: int, prompt: Number, stage: float) -> float:
    return rate_of(servers * real(prompt), stage)


@dataclass(frozen=True, slots=True)
class PromptPass:
    """Prompts in one pass: `stages` are its times, `stage` that of the slowest, `block` the tokens
    that a rank works on."""

    times: tuple[RankTime, ...]
    exchanges: tuple[CollectiveCost, ...]
    stages: tuple[Term, ...]
    stage: Term
    block: Term


@dataclass(frozen=True, slots=True)
class Prefill:
    """`service` is the pass of one prompt on each DP rank, `stage` how long a prompt keeps the
    slowest stage busy: at a rate among many that share its passes."""

    times: tuple[RankTime, ...]
    exchanges: tuple[CollectiveCost, ...]
    service: Term
    stage: Term
    ttft: Term
    throughput: Term
    new: Term
    found: Term
    block: Term
    """Tokens to compute and found of a prompt; the part of it that a rank works on."""
    alone: Term
    held: Term
    """The slowest stage with one prompt on each DP rank; the time to the first token without what
    is waited for a place."""
    chunk: Term | None = None
    full: Term | None = None
    """At an engine's pace: prompt tokens of a DP rank in a step under the load, or where prompts
    queue, and the throughput if every DP rank always had a prompt of its own."""

    @property
    def saturated(self) -> bool:
        """Whether the queue for prefill only grows, under every load."""
        return not some(self.held.value < float("inf"))

    @property
    def endless(self) -> bool:
        """Whether that queue, or the one for a place in the cache, does."""
        return not some(self.ttft.value < float("inf"))

    def placed(self, wait: Term | None) -> Prefill:
        """The same with a wait for a place."""
        if wait is None:
            return self
        return replace(self, ttft=total("time to the first token", [self.held, wait]))


def prefill(placement: Placement, books: tuple[Ledger, ...]) -> Prefill:
    subject = placement.subject
    new, found = prompt_terms(subject)
    made = pass_of_prompts(placement, books)
    service = total("prefill of a prompt", list(made.stages))
    workload, stage = subject.workload, made.stage
    if workload.rate is not None and workload.context is None:
        stage = _among_many(placement, books)
    ttft = _ttft(placement, service, made.stage, stage)
    return Prefill(
        made.times,
        made.exchanges,
        service,
        stage,
        ttft,
        throughput(placement, new, stage),
        new,
        found,
        made.block,
        made.stage,
        ttft,
    )


MANY = 4096
"""Prompts in a pass that more would hardly make cheaper: what a pass reads once is a thousandth of
what it computes."""


@formula("time of the slowest stage / prompts in the pass", TIME, "prompts that wait share a pass")
def time_among(stage: float, prompts: int) -> float:
    return real(stage) / real(prompts)


def _among_many(placement: Placement, books: tuple[Ledger, ...]) -> Term:
    """How long a prompt keeps the slowest stage busy where many wait."""
    prompts = fixed("prompts in a pass", MANY, "as many as wait", units.REQUESTS)
    stage = pass_of_prompts(placement, books, prompts).stage
    return time_among.derive("time of a prompt among many", stage=stage, prompts=prompts)


def _servers(placement: Placement) -> Term:
    return of_layout(
        placement.subject,
        "prompts at once (DP ranks of all replicas)",
        placement.degrees.holders,
    )


def throughput(placement: Placement, tokens: Term, stage: Term) -> Term:
    """Tokens a second, where the slowest stage takes so long for those of a pass."""
    return prompt_throughput.derive(
        "prefill throughput", servers=_servers(placement), prompt=tokens, stage=stage
    )


def pass_of_prompts(
    placement: Placement, books: tuple[Ledger, ...], prompts: Term | None = None
) -> PromptPass:
    """So many prompts on each DP rank at once, or one."""
    new, found = prompt_terms(placement.subject)
    carried = prefill_carried(placement, new, found, prompts)
    times = passes.rank_times(placement, books, carried)
    exchanged = collectives.costs(
        placement, carried.tokens, carried.sampled, "prefill", pairs=carried.pairs, found=found
    )
    slow = passes.setters(times)
    exchanged = overlap.exposed(exchanged, passes.attentions(slow))
    taken = {stage.number: [slow[stage.number].time] for stage in placement.stages}
    for cost in exchanged:
        taken[cost.exchange.stage].append(cost.all)
    stages = tuple(total(f"prefill in stage {number}", terms) for number, terms in taken.items())
    return PromptPass(times, exchanged, stages, greatest("slowest stage", stages), carried.tokens)


def prompt_terms(subject: Subject) -> tuple[Term, Term]:
    """Tokens of a prompt to compute, and those found in a cache."""
    workload = subject.workload
    word = "context" if workload.context is not None else "prompt"
    if workload.classes:
        mean = sum(
            (Fraction(c.share) * (c.context or c.prompt or 0) for c in workload.classes.values()),
            start=Fraction(0),
        )
        prompt = Term("prompt", tidy(mean), units.TOKENS, note="the mean over classes")
    else:
        prompt = leaf(workload, word, word, workload.prompt_tokens, units.TOKENS)
    hits = leaf(workload, "prefix_hits", "prefix hits", workload.prefix_hits, units.NONE)
    if "prefix_hits" not in workload.origins:
        hits = Term("prefix hits", 0, basis="default", note="the workload says none")
    new = new_tokens.derive("tokens to compute", prompt=prompt, hits=hits)
    return new, found_tokens.derive("tokens found", prompt=prompt, new=new)


def _ttft(placement: Placement, service: Term, alone: Term, many: Term) -> Term:
    workload = placement.subject.workload
    if workload.context is not None:
        return service.named("time to the first token")
    rate = arrivals_at(placement.subject)
    if rate is None:
        waited = assumed("wait before prefill", 0.0, TIME,
                         "a concurrency says nothing of arrivals, so nothing queues")  # fmt: skip
        return total("time to the first token", [service, waited])
    return queued(placement, service, alone, many, rate)


def queued(placement: Placement, service: Term, alone: Term, many: Term, rate: Term) -> Term:
    """The time to the first token where prompts arrive at the pool at a rate."""
    each = rate_of_server.derive("arrivals at a server", rate=rate, servers=_servers(placement))
    wait = queue_wait.derive("wait before prefill", arrivals=each, alone=alone, many=many)
    return total("time to the first token", [service, wait])
