"""Rules on attention that is cut by sequence: over cp in decode, over pcp in prefill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kvdsl.checks.study import CACHE_VALUES, Fact, Fill, Study, Suggestion, softmax_parts
from kvdsl.costs.carried import causal_pairs
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.passes import attentions, slowest
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import AttentionAxes, Degrees
from kvdsl.rules import Rule, rule
from kvdsl.spec.model import Gqa
from kvdsl.units import NONE, TIME, TOKENS, Quantity


@rule(
    "KV111",
    "unmatched-sequence-cut",
    Severity.ERROR,
    "costs",
    "cp = {cp} does not go with {what}: {fault}",
    label="the sequence is cut by cp = {cp}",
    helps=("{fix}",),
    silences=("KV101",),
)
def unmatched_sequence_cut(study: Study) -> Iterator[Fact]:
    """A sequence is cut for decode as the heads, the pages and the engine allow.

    What it checks
        Where attention has cp > 1: TP is no wider than the KV heads, unless the ranks of a TP
        group are used (`cp_weights = split`, where further copies are a matter of KV101); the run
        of tokens (`interleave`) divides the engine's page or is one, as `cp_run` says; the pool
        decodes alone where `cp_roles` asks for it; and `overlap` is only written where the engine
        has it. That all blocks of a layout cut the same devices is KV080.

    Why it matters
        Cutting the sequence is there to end copies of the cache. A wider TP beside it keeps them,
        and the same ranks would have held another part of the sequence. The rest is refused by
        engines at the start, or promises time that they do not save.

    Example
        layout both { attention { tp = 16; cp = 2 } }

        deployment served {
          model    = models.llama_3_1_405b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = racks.gb200_nvl72.nodes[0..7]
          layout   = both
          budget   { reserve = 6 GB }
          workload { context = 128 ktok; concurrency = 16 req }
        }

    Instead
        TP as wide as the KV heads, and the rest of the ranks for the sequence.

        layout matched { attention { tp = 8; cp = 4 } }

        deployment better extends served { layout = matched }
    """
    a = study.subject.degrees.attention
    if a.cp == 1:
        return
    heads = [p.kv_heads for _, p in softmax_parts(study) if isinstance(p, Gqa)]
    engine = study.subject.engine
    reuses = engine is not None and engine.cp_weights == "split"
    if heads and a.tp > min(heads) and not reuses:
        yield _copied(study, min(heads))
    if engine is None:
        return
    run, page = a.interleave, engine.block
    if engine.cp_run == "block" and run != page:
        yield _refused(study, f"its pages hold {page} tok, and a run has {run}",
                       f"write `interleave = {page} tok`")  # fmt: skip
    elif engine.cp_run == "divides" and page % run:
        yield _refused(study, f"a run of {run} tok does not divide its page of {page}",
                       f"write an `interleave` that divides {page}")  # fmt: skip
    if engine.cp_roles == "decode" and study.subject.pool.role != "decode":
        yield _refused(study, "it cuts the sequence in pools that decode alone",
                       "give prefill a pool of its own: `pool prefill`, `pool decode`")  # fmt: skip
    if a.overlap and not engine.cp_overlap:
        yield _refused(study, "it does not run the exchange beside attention",
                       "leave `overlap` out: the exchange counts in full")  # fmt: skip


def _refused(study: Study, fault: str, fix: str) -> Fact:
    engine = study.subject.engine
    title = engine.title if engine is not None else ""
    fills: dict[str, Fill] = {
        "cp": study.subject.degrees.attention.cp,
        "what": title,
        "fault": fault,
        "fix": fix,
    }
    return Fact(study.subject.place("layout"), fills)


def _copied(study: Study, heads: int) -> Fact:
    degrees = study.subject.degrees
    a = degrees.attention
    more = a.tp // heads
    axes = replace(a, tp=heads, cp=a.cp * more)
    found = study.under(replace(degrees, attention=axes, name=""))
    made = None
    if found is not None and found.fits:
        title = f"TP={heads} and cp={a.cp * more}"
        made = Suggestion(title, found.subject.degrees.text(), found, CACHE_VALUES)
    return Fact(
        study.subject.place("layout"),
        {
            "cp": a.cp,
            "what": f"TP={a.tp} attention",
            "fault": f"{heads} KV heads are copied {more} times while the sequence is cut",
            "fix": f"write `attention {{ tp = {heads}; cp = {a.cp * more} }}`",
        },
        (("copies of a KV head", Quantity(more)),),
        made,
    )


# --- prompts cut over ranks ---------------------------------------------------------------------


def _ring(found: Estimate) -> CollectiveCost | None:
    """The passing round of keys and values whose blocks hide least."""
    exchanged = found.prefill.exchanges if found.prefill is not None else ()
    rings = [cost for cost in exchanged if cost.exchange.hides == "blocks"]
    return max(rings, key=lambda cost: float(cost.all.value), default=None)


@rule(
    "KV114",
    "exposed-ring",
    Severity.WARNING,
    "costs",
    "blocks of {block} are too short for a ring of {ranks}: passing them on shows {shown}",
    label="a prompt in {ranks} blocks",
    notes=("sending a block takes {send}, scoring one {score}; from {least} a block the ring is "
           "hidden",),
    helps=("fewer ranks, or longer prompts",),
)  # fmt: skip
def exposed_ring(study: Study) -> Iterator[Fact]:
    """A ring hides the passing of a block only behind the scoring of a long one.

    What it checks
        With `prompt = ring` and pcp > 1, whether sending a block of keys and values takes longer
        than attention over one block at the workload's prompt.

    Why it matters
        Scoring a block costs its square, sending it its length. Below peak / bandwidth tokens of
        a block with as many KV heads as query heads (1,040 on an A100 with NVLink: arXiv
        2310.01889, table 2) the ranks wait for one another. Fewer KV heads send less.

    Example
        layout ring {
          attention { pcp = 8; prompt = ring }
          ffn       { tp = 8 }
          vocab     { tp = 8 }
        }

        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_a100_80gb
          layout   = ring
          budget   { reserve = 3 GB }
          workload { prompt = 2 ktok; output = 128 tok; concurrency = 8 req }
        }

    Instead
        Longer blocks.

        layout short { attention { pcp = 2; tp = 4; prompt = ring } }

        deployment better extends served {
          layout   = short
          workload { prompt = 32 ktok; output = 128 tok; concurrency = 8 req }
        }
    """
    found = study.costs
    cost = _ring(found)
    if cost is None or not _exposed(found) or found.prefill is None:
        return
    ranks, stage = cost.group.size, cost.exchange.stage
    block = found.prefill.block
    score = float(attentions(slowest(found.prefill.times))[stage].value)
    each = score / ranks / (cost.exchange.count // (ranks - 1))
    send = float(cost.once.value)
    least = float(block.value) * send / each if each else 0.0
    yield Fact(
        study.subject.place("layout"),
        {
            "ranks": ranks,
            "block": block.quantity,
            "shown": cost.all.quantity,
            "send": Quantity(send, TIME),
            "score": Quantity(each, TIME),
            "least": Quantity(round(least), TOKENS),
        },
        (("shown of a prefill", cost.all.quantity),),
        _hidden_ring(study),
    )


def _fewer_ranks(
    study: Study, title: str, better: Callable[[Estimate, Estimate], bool]
) -> Suggestion | None:
    """Half as many ranks to a prompt, and twice the replicas on the same devices; and so on, as
    long as the next half is better than what it halves. None where nothing is gained."""
    best = study.costs
    while (other := halved(best.subject.degrees)) is not None:
        found = study.under(other)
        if found is None or not found.fits or found.prefill is None or not better(found, best):
            break
        best = found
    if best is study.costs:
        return None
    pcp = best.subject.degrees.attention.pcp
    shows = ("prefill.ttft", "prefill.throughput", "kv.tokens")
    return Suggestion(f"pcp={pcp} ({title})", best.subject.degrees.text(), best, shows)


def _exposed(found: Estimate) -> bool:
    cost = _ring(found)
    return cost is not None and float(cost.all.value) > 0


def _hidden_ring(study: Study) -> Suggestion | None:
    """The widest shorter ring that is hidden, or none round which anything is passed."""
    made = _fewer_ranks(study, "shorter ring", lambda _, best: _exposed(best))
    return made if made is not None and not _exposed(made.estimate) else None


def _prefills_more(found: Estimate, best: Estimate) -> bool:
    if found.prefill is None or best.prefill is None:
        return False
    return float(found.prefill.throughput.value) > float(best.prefill.throughput.value)


def halved(degrees: Degrees) -> Degrees | None:
    """The layout with half the ranks to a prompt and twice the replicas; None where a block does
    not halve."""
    a: AttentionAxes = degrees.attention
    widths = (degrees.ffn, degrees.shared, degrees.vocab)
    if a.pcp % 2 or any(w.tp % 2 for w in widths):
        return None
    ffn, shared, vocab = (replace(w, tp=w.tp // 2) for w in widths)
    e = degrees.experts
    if e.ep % 2 and e.tp % 2:
        return None
    experts = replace(e, ep=e.ep // 2) if e.ep % 2 == 0 else replace(e, tp=e.tp // 2)
    return replace(
        degrees,
        size=degrees.size // 2,
        attention=replace(a, pcp=a.pcp // 2),
        ffn=ffn,
        shared=shared,
        vocab=vocab,
        experts=experts,
        replicas=degrees.replicas * 2,
        name="",
    )


@rule(
    "KV190",
    "cp-by-length-alone",
    Severity.WARNING,
    "costs",
    "every prompt is cut by pcp = {pcp}, and {hits} of it is found in a cache: less serves more",
    label="one degree for all prompts",
    notes=("{left} pairs of query and key are left of {whole}: {new} to compute, {found} found",
           "by pcp = {other} prompts come at {after} instead of {before}, and the first token "
           "after {late} instead of {early}"),
    helps=("give prefill pools of several degrees, and choose among them by the cost of what is "
           "left to compute",),
    flips="prompts that no cache knows, or a bound on the first token that fewer ranks miss",
)  # fmt: skip
def cp_by_length_alone(study: Study) -> Iterator[Fact]:
    """A degree of context parallelism chosen by length ignores what a cache has saved.

    What it checks
        Prompts are cut over pcp > 1 ranks, some of each is found in a cache (`prefix_hits`), and
        half as many ranks, with twice the replicas, would prefill more tokens a second.

    Why it matters
        The work of a prompt is new x found + new (new + 1) / 2 pairs, not its length squared. A
        long prompt with a long prefix in the cache is a short one, and ranks that wait for one
        another over it are lost to others. Schedulers that weigh queue, time and GPU-time a
        request (arXiv 2609.04774) choose the degree anew for each.

    Example
        layout wide {
          attention { pcp = 4; tp = 2 }
          ffn   { tp = 8 }
          vocab { tp = 8 }
        }

        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   = wide
          budget   { reserve = 3 GB }
          workload {
            prompt      = 16 ktok
            output      = 256 tok
            rate        = 1 req/s
            prefix_hits = 90 %
          }
        }

    Instead
        A degree for what is left to compute.

        deployment better extends served { layout = { tp = 2; replicas = 4 } }
    """
    found, degrees = study.costs, study.subject.degrees
    hits = study.subject.workload.prefix_hits
    pools = study.subject.deployment.pools.values()
    several = sum(pool.role in ("prefill", "both") for pool in pools) > 1
    if degrees.attention.pcp == 1 or not hits or found.prefill is None or several:
        return
    made = _fewer_ranks(study, "more replicas", _prefills_more)
    if made is None or made.estimate.prefill is None:
        return
    before, after = found.prefill, made.estimate.prefill
    new, known = before.new.value, before.found.value
    prompt = new + known
    yield Fact(
        study.subject.place("layout"),
        {
            "pcp": degrees.attention.pcp,
            "other": made.estimate.subject.degrees.attention.pcp,
            "hits": Quantity(known, TOKENS),
            "left": Quantity(causal_pairs(new=new, found=known), NONE),
            "whole": Quantity(causal_pairs(new=prompt, found=0), NONE),
            "new": before.new.quantity,
            "found": before.found.quantity,
            "before": before.throughput.quantity,
            "after": after.throughput.quantity,
            "early": before.service.quantity,
            "late": after.service.quantity,
        },
        (("pairs left", Quantity(causal_pairs(new=new, found=known), NONE)),),
        made,
    )


RULES: tuple[Rule, ...] = (unmatched_sequence_cut, exposed_ring, cp_by_length_alone)
