"""Rules on reading from a tier: whether a fetch pays, in place, and whether its time is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.checks.study import Fact, Suggestion, told_apart
from kvdsl.checks.tiers import place_of, tiers_of, title_of
from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.reuse import Kept
from kvdsl.costs.service import Service
from kvdsl.diagnostics import Severity
from kvdsl.formulas import Term
from kvdsl.rules import Rule, rule
from kvdsl.units import Quantity, grouped


@rule(
    "KV164",
    "slow-fetch",
    Severity.WARNING,
    "service",
    "a prompt waits {fetch} for {found} from `{name}`, which are computed in {recompute}",
    label="{below}",
    notes=("{size} at {rate}", "{latency} of it before the first byte"),
    flips="{flips}",
)
def slow_fetch(made: Service) -> Iterator[Fact]:
    """A prefix that is computed sooner than it is fetched.

    What it checks
        The visible time to bring what a prompt finds in the tier is longer than the time to compute
        those tokens before the new ones, through the same passes. The break-even is the length from
        which fetching is faster. Whether it pays is run against a workload without hits.

    Why it matters
        A short prefix, a slow path or a long setup makes a hit cost more than a miss. LMCache and
        vLLM's offloading load every hit; py-kvcache found the mean request below break-even.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload {
            prompt = 2 ktok; output = 500 tok
            rate = 2 req/s; prefix_hits = 50 %
          }
          tiers {
            disk {
              tier = tiers.nvme_gen5
              capacity = 15 TB per node
              count = 1
            }
          }
        }

    Instead
        A faster tier, or none for short prompts.

        deployment better extends served {
          tiers { disk { tier = tiers.ddr5; capacity = 1 TB per node } }
        }
    """
    for each, kept in tiers_of(made):
        if kept.fetch is None or kept.recompute is None:
            continue
        if float(kept.fetch.value) <= float(kept.recompute.value):
            continue
        if not told_apart(kept.fetch.quantity, kept.recompute.quantity):
            continue
        even = kept.break_even
        below = "no length pays here"
        if even is not None:
            below = f"pays from {grouped(int(even.value))} tok"
        yield Fact(
            place_of(kept, "tier"),
            {
                "fetch": kept.fetch.quantity,
                "found": each.found.quantity,
                "name": kept.tier.name,
                "recompute": kept.recompute.quantity,
                "below": below,
                "size": _found_bytes(kept),
                "rate": kept.tier.one.quantity if kept.tier.one else "",
                "latency": kept.tier.latency.quantity if kept.tier.latency.value else "",
                "flips": f"longer prefixes: {below}" if even is not None else "a faster tier",
            },
            (("fetched", kept.fetch.quantity), ("computed", kept.recompute.quantity)),
            _computed(made, each.pool),
        )


def _found_bytes(kept: Kept) -> Quantity | str:
    sizes = [t for t in _below(kept.fetch) if t.label.startswith("bytes of ")]
    return sizes[0].quantity if sizes else ""


def _below(term: Term | None) -> Iterator[Term]:
    if term is not None:
        yield term
        for one in term.inputs:
            yield from _below(one)


def _computed(made: Service, pool: Estimate) -> Suggestion | None:
    """The pool with nothing found in a cache."""
    workload = pool.subject.workload.model_copy(update={"prefix_hits": 0})
    found = estimate(replace(pool.subject, workload=workload))
    if "prefill.ttft" not in found.values or "prefill.ttft" not in made.all:
        return None
    return Suggestion("every prompt computed", "prefix_hits = 0 %", found, ("prefill.ttft",))


@rule(
    "KV168",
    "slow-in-place",
    Severity.WARNING,
    "service",
    "reading the cache of a request in place in `{name}` takes {load}, longer than a step of "
    "{tpot}",
    label="{rate} to the devices of a request",
    helps=("bring it to the devices instead: `in_place = false`, or a faster path (`over`)",),
    flips="a path as fast as NVLink-C2C; over PCIe the tier only adds capacity",
)
def slow_in_place(made: Service) -> Iterator[Fact]:
    """Kernels that read the cache where a slow path reaches it.

    What it checks
        A tier is read in place in every step, and the cache of one request takes longer over its
        path than a whole step of decode.

    Why it matters
        DirectKV reads host memory over NVLink-C2C without a copy. Over PCIe the same read holds up
        every step.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 32 ktok; output = 500 tok; rate = 2 req/s }
          tiers {
            host {
              tier = tiers.ddr5
              capacity = 1 TB per node
              in_place = true
            }
          }
        }

    Instead
        A faster path, or blocks that are brought back whole.

        deployment better extends served { tiers { host { in_place = false } } }
    """
    for _, kept in tiers_of(made):
        tpot = made.all.get("decode.tpot")
        if not kept.tier.use.in_place or kept.load is None or tpot is None:
            continue
        longer = float(kept.load.value) > float(tpot.value)
        if longer and told_apart(kept.load.quantity, tpot.quantity):
            rate = kept.tier.path or kept.tier.one
            yield Fact(
                place_of(kept, "in_place"),
                {
                    "name": kept.tier.name,
                    "load": kept.load.quantity,
                    "tpot": tpot.quantity,
                    "rate": rate.quantity if rate is not None else "",
                },
                (("read in place", kept.load.quantity),),
            )


@rule(
    "KV169",
    "tier-without-rate",
    Severity.INFO,
    "service",
    "nothing says how fast `{name}` is read: its times are left out",
    label="{tier} has no `read` and no `link`",
)
def tier_without_rate(made: Service) -> Iterator[Fact]:
    """A tier whose times cannot be told.

    What it checks
        Each tier has a read rate, or a link whose rate it takes.

    Why it matters
        Its capacity counts; no time of it enters any figure.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload {
            prompt = 8 ktok; output = 500 tok
            rate = 2 req/s; prefix_hits = 50 %
          }
          tiers    { slow { tier = tiers.optane_pmem; capacity = 1 TB per node } }
        }

    Instead
        Nothing: this is information. `tier mine extends tiers.optane_pmem { read = 6 GB/s }` says
        it.
    """
    for _, kept in tiers_of(made):
        if kept.tier.one is None:
            tier = title_of(kept.tier.use.tier.title)
            yield Fact(place_of(kept, "tier"), {"name": kept.tier.name, "tier": tier})


RULES: tuple[Rule, ...] = (slow_fetch, slow_in_place, tier_without_rate)
