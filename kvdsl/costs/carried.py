"""What a pass carries: new tokens, the cache that they read, and the pairs that they score.

Comes in: a placement and a load, or a prompt. Goes out: a `Carried`, of a decode step or of a
prefill. A query meets of each part of the cache what that part keeps, and of those entries what an
indexer selects. Not its job: any time (passes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import at_least, floored, over, smaller, times, where
from kvdsl.costs import cache
from kvdsl.costs.origins import fixed, of_layout, of_model
from kvdsl.formulas import Term, formula, total
from kvdsl.placement.cache import CachePart
from kvdsl.placement.placement import Placement, Stage
from kvdsl.placement.shares import CacheShard
from kvdsl.placement.subject import Subject
from kvdsl.spec.model import Model
from kvdsl.units import BYTES, NONE, TOKENS, counted

Number = int | Fraction | float


@dataclass(frozen=True, slots=True)
class Carried:
    """What a pass carries on a DP rank: `tokens` new tokens, those of them that the head scores
    (`sampled`: all of a step, the last of a prompt), the cache bytes to read by stage number (of
    the busiest rank), and pairs of query and key that attention scores where it meets them all."""

    what: str
    tokens: Term
    sampled: Term
    cache_bytes: tuple[Term, ...]
    pairs: Term
    expanded: bool
    """MLA keys and values in full, as in prefill, or absorbed into the latent, as in decode."""
    queries: Term
    before: Term
    """Requests of a step, with the tokens that each has in the cache; or new tokens of a prompt,
    with those that were found."""
    parts: int = 1
    """Ranks that a prompt's tokens are cut over, each with its part in `tokens`."""
    prompts: Term | None = None
    """Prompts of a prefill, where they are not one."""


@formula("requests x bytes of one at its length", BYTES)
def cache_bytes(requests: Number, each: Number) -> Number:
    return times(requests, each)


@formula(
    "whole rounds x run + the lesser of run and the rest",
    units.TOKENS,
    "runs of tokens go round the cp ranks",
)
def tokens_on_fullest(tokens: Number, ranks: int, run: int) -> Number:
    rounds = floored(tokens, ranks * run)
    rest = tokens - rounds * (ranks * run)
    return rounds * run + where(rest < run, rest, run)


# --- the cache that is read ----------------------------------------------------------------------


@formula(
    "bytes of a token on a rank x the lesser of context and queries x selected x tokens an entry",
    BYTES,
    "DeepSeek-V3.2, arXiv 2512.02556: a query attends to the entries that its indexer selects",
)
def selected_bytes(
    each: Number, context: Number, queries: Number, selected: int, every: int
) -> Number:
    return times(each, smaller(context, times(queries, selected, every)))


ONE_QUERY = fixed("queries", 1, "a step has one of each request")


def request_reads(
    placement: Placement, tokens: Term, ways: int = 1, queries: Term = ONE_QUERY
) -> tuple[Term, ...]:
    """Bytes that a pass reads of a request on a rank, by stage number. `tokens` are those that lie
    on a rank of `ways` of the sequence; each of `queries` selects for itself."""
    whole = times(tokens.value, ways)
    sizes = cache.requests_on_ranks(placement, whole)
    each = cache.stage_token_terms(placement)
    found: list[Term] = []
    for stage in placement.stages:
        label = f"cache of a request on a rank of stage {stage.number}"
        if not any(share.part.selected for share in stage.cache):
            found.append(
                Term(label, sizes[stage.number], BYTES, inputs=(tokens, each[stage.number]),
                     note="tokens x bytes a token on a rank")
            )  # fmt: skip
        elif stage.like != stage.number:
            found.append(found[stage.like].named(label))
        else:
            context = tokens
            if ways > 1:
                context = Term("tokens read of each", whole, TOKENS, inputs=(tokens,),
                               note=f"all {counted(ways, 'ranks')} as the fullest")  # fmt: skip
            found.append(
                total(label, list(_parts_read(placement.subject, stage, context, queries)))
            )
    return tuple(found)


def _parts_read(subject: Subject, stage: Stage, context: Term, queries: Term) -> Iterator[Term]:
    """What is read of each part of a stage's cache, some of them by selection."""
    for share in stage.cache:
        part = share.part
        label = f"{part.name}, read of a request"
        each = cache.shard_term(subject, share)
        if part.selected:
            kept = context
            if part.keep < 1:
                kept = Term("tokens kept", times(context.value, part.keep), TOKENS,
                            inputs=(context,))  # fmt: skip
            yield selected_bytes.derive(
                label,
                each=each,
                context=kept,
                queries=queries,
                selected=of_model(subject.model, "entries selected", part.selected),
                every=of_model(subject.model, "tokens of an entry", part.every),
            )
        else:
            size = cache.share_of_request(share, context.value)
            yield Term(label, size, BYTES, inputs=(context, each), note=cache.kept_note(part))


def step_bytes(
    placement: Placement, requests: Term, context: Term, queries: Term = ONE_QUERY
) -> tuple[Term, ...]:
    """Cache bytes that a pass reads on the fullest rank of each stage."""
    a = placement.degrees.attention
    kept = tokens_on_fullest.derive(
        "tokens on the fullest rank",
        tokens=context,
        ranks=of_layout(placement.subject, "ranks of the sequence", a.cp),
        run=of_layout(placement.subject, "run of tokens", a.interleave),
    )
    # A share is the mean over cp ranks; the fullest holds its run of tokens.
    reads = request_reads(placement, kept, a.cp, queries)
    return tuple(
        cache_bytes.derive(f"cache read in stage {stage.number}", requests=requests, each=each)
        for stage, each in zip(placement.stages, reads, strict=True)
    )


# --- pairs of query and key ----------------------------------------------------------------------


def most_met(model: Model, part: CachePart) -> Term | None:
    """The most entries of a part that a query meets; None where it meets all."""
    if part.growth == "window":
        return of_model(model, "window", part.limit, units.TOKENS)
    if part.growth == "request":
        return of_model(model, "entries of a request", part.limit, units.TOKENS)
    if part.selected:
        return of_model(model, "entries selected", part.selected, units.TOKENS)
    return None


@formula("new x found + new (new + 1) / 2", NONE, "causal pairs left after a prefix hit")
def causal_pairs(new: Number, found: Number) -> Number:
    return times(new, found) + over(times(new, new + 1), 2)


@formula(
    "the sum over new tokens of the lesser of the tokens before and most, / tokens of an entry",
    NONE,
    "causal pairs, each query with no more keys than it meets",
)
def bounded_pairs(new: Number, found: Number, most: Number, every: int) -> Number:
    reach = times(most, every)
    free = smaller(at_least(reach - found, 0), new)
    pairs = times(free, found) + over(times(free, free + 1), 2) + times(new - free, reach)
    return over(pairs, every)


@formula("queries x the lesser of tokens before / tokens of an entry and most", NONE)
def step_pairs(queries: Number, before: Number, most: Number, every: int) -> Number:
    return times(queries, smaller(over(before, every), most))


@formula("pairs x prompts / ranks of the sequence", NONE, "spread evenly")
def pairs_on_rank(pairs: Number, prompts: Number, ways: int) -> Number:
    return over(times(pairs, prompts), ways)


def pairs_with(placement: Placement, carried: Carried, share: CacheShard) -> Term:
    """Pairs of query and key that a rank scores in a part of the cache."""
    subject, part, attention = placement.subject, share.part, placement.degrees.attention
    most = most_met(subject.model, part)
    cut = share.tokens.size == attention.cp
    if most is None and part.every == 1 and cut:
        return carried.pairs
    label = f"pairs of query and key in {part.name}"
    entry = part.every if carried.expanded else over(part.every, part.keep)
    every = of_model(subject.model, "tokens of an entry", entry)
    if most is None:
        whole = times(carried.pairs.value, 1 if cut else attention.cp)
        return Term(label, over(whole, part.every), NONE, inputs=(carried.pairs, every),
                    note="pairs / tokens of an entry")  # fmt: skip
    if carried.expanded and part.growth != "request":
        pairs = bounded_pairs.derive(
            label, new=carried.queries, found=carried.before, most=most, every=every
        )
    else:
        before = carried.before if part.growth != "request" else most
        pairs = step_pairs.derive(
            label, queries=carried.queries, before=before, most=most, every=every
        )
    ways = share.tokens.size * (attention.pcp if carried.expanded else 1)
    return pairs_on_rank.derive(
        f"{label} on a rank",
        pairs=pairs,
        prompts=carried.prompts or fixed("prompts", 1, "one on each DP rank"),
        ways=of_layout(subject, "ranks of the sequence", ways),
    )


# --- a decode step and a prefill -----------------------------------------------------------------


def decode_carried(placement: Placement, requests: Term, context: Term) -> Carried:
    a = placement.degrees.attention
    pairs = Term(
        "pairs of query and key on a rank",
        over(times(requests.value, context.value, placement.subject.keep), a.cp),
        NONE,
        inputs=(requests, context),
        note="each request's new token with each cached one",
    )
    tokens = Term("tokens of a DP rank", requests.value, inputs=(requests,), note="one a request")
    read = step_bytes(placement, requests, context)
    return Carried(
        "decode step", tokens, tokens, read, pairs, expanded=False, queries=requests, before=context
    )


@formula("tokens of a prompt x prompts / parts of a prompt", NONE, "a prompt is cut evenly (pcp)")
def prompt_block(new: Number, prompts: Number, parts: int) -> Number:
    return over(times(new, prompts), parts)


def prefill_carried(
    placement: Placement, new: Term, found: Term, prompts: Term | None = None
) -> Carried:
    """So many prompts on each DP rank, or one: `new` tokens of each to compute, `found` in a cache
    already."""
    a = placement.degrees.attention
    ways = a.cp * a.pcp
    pairs = causal_pairs.derive("pairs of query and key", new=new, found=found)
    many = 1 if prompts is None else prompts.value
    on_rank = Term("pairs on a rank", over(times(pairs.value, many), ways), NONE, inputs=(pairs,),
                   note=f"over {counted(ways, 'ranks')} of the sequence")  # fmt: skip
    tokens = Term("tokens of a DP rank", over(new.value, a.pcp), inputs=(new,))
    one = fixed("requests", 1, "one prompt on each DP rank", units.REQUESTS)
    last = fixed("tokens that the head scores", 1, "the last of a prompt")
    if prompts is not None:
        parts = of_layout(placement.subject, "parts of a prompt", a.pcp)
        tokens = prompt_block.derive("tokens of a DP rank", new=new, prompts=prompts, parts=parts)
        one, last = prompts, prompts
    read = step_bytes(placement, one, found, new)
    return Carried(
        "prefill", tokens, last, read, on_rank, expanded=True, queries=new, before=found,
        parts=a.pcp, prompts=prompts,
    )  # fmt: skip
