"""Prefill: the time to the first token, with its queue.

Comes in: a placement and its ledgers. Goes out: the pass of one prompt on each DP rank, the mean
time to the first token and the throughput. A rate makes prompts queue as in M/D/1; a concurrency
alone says nothing of arrivals, so nothing queues. With `context` it is one unqueued prefill.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from kvdsl import units
from kvdsl.arithmetic import at_least, real, some, times, where
from kvdsl.arithmetic import rate as rate_of
from kvdsl.costs import collectives, overlap, passes
from kvdsl.costs.carried import prefill_carried
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.memory import Ledger, leaf
from kvdsl.costs.origins import of_layout
from kvdsl.costs.passes import RankTime
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


@formula(
    "service + R D^2 / (2 (1 - R D))", TIME, "M/D/1 as Zhong et al., DistServe, arXiv 2401.09670"
)
def queued_time(service: float, rate: float, stage: float) -> float:
    busy = rate * stage
    waited = rate * stage**2 / (2 * where(busy < 1, 1 - busy, 1))
    return service + where(busy < 1, waited, inf)


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
    chunk: Term | None = None
    full: Term | None = None
    """Where others are decoded beside: prompt tokens of a DP rank in a step under the load, and the
    throughput if every DP rank always had a prompt of its own."""

    @property
    def saturated(self) -> bool:
        """Whether a queue only grows, under every load."""
        return not some(self.ttft.value < float("inf"))


def prefill(placement: Placement, books: tuple[Ledger, ...]) -> Prefill:
    subject = placement.subject
    new, found = prompt_terms(subject)
    made = pass_of_prompts(placement, books)
    stages = list(made.stages)
    service = total("prefill of a prompt", stages)
    slowest = made.stage
    servers = _servers(placement)
    return Prefill(
        made.times,
        made.exchanges,
        service,
        slowest,
        _ttft(subject, service, slowest, servers),
        throughput(placement, new, slowest),
        new,
        found,
        made.block,
    )


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


def _ttft(subject: Subject, service: Term, stage: Term, servers: Term) -> Term:
    workload = subject.workload
    if workload.context is not None:
        return service.named("time to the first token")
    if workload.rate is None:
        waited = assumed("wait before prefill", 0.0, TIME,
                         "a concurrency says nothing of arrivals, so nothing queues")  # fmt: skip
        return total("time to the first token", [service, waited])
    rate = leaf(workload, "rate", "arrivals", workload.rate, REQUEST_RATE)
    share = subject.pool.share
    if share is not None and share != 1:
        own = tidy(Fraction(workload.rate) * Fraction(share))
        rate = Term("arrivals in the pool", own, REQUEST_RATE, inputs=(rate,),
                    note="the pool's share")  # fmt: skip
    each = rate_of_server.derive("arrivals at a server", rate=rate, servers=servers)
    return queued_time.derive("time to the first token", service=service, rate=each, stage=stage)
