"""Rules on what tiers below the devices' memory hold: room and rates for the workload, formats."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvdsl.checks.study import Fact, Fill, Suggestion
from kvdsl.costs.cache import held_tokens
from kvdsl.costs.reuse import Kept, Reuse, room_in_all
from kvdsl.costs.service import Service
from kvdsl.diagnostics import Severity
from kvdsl.rules import Rule, rule
from kvdsl.source import Span
from kvdsl.spec.formats import Format
from kvdsl.units import NONE, TIME, TOKENS, Quantity, tidy


def _word(form: Format) -> str:
    return form.title.rpartition(".")[2]


def place_of(kept: Kept, word: str) -> Span:
    origin = kept.tier.use.origin(word) or kept.tier.use.origin("tier")
    if origin is not None:
        return origin.span
    return kept.tier.pool.subject.place("deployment")


def tiers_of(made: Service) -> Iterator[tuple[Reuse, Kept]]:
    """Each tier under each pool that prefills; one that refuses its format is told alone."""
    for each in made.reuse:
        for kept in each.kept:
            if not kept.tier.refused:
                yield each, kept


def _formats(kept: Kept) -> str:
    forms = {c.format.title: c.format for part in kept.tier.parts for c in part.components}
    return ", ".join(map(_word, forms.values()))


def _without(made: Service, kept: Kept) -> Service | None:
    """The same without the tier; None where it is the only one."""
    left = {n: use for n, use in made.deployment.tiers.items() if n != kept.tier.name}
    return made.again(tiers=left) if left else None


def title_of(title: str) -> str:
    return title.rpartition(".")[2]


@rule(
    "KV160",
    "tier-below-demand",
    Severity.ERROR,
    "service",
    "the tier `{name}` cannot serve the workload in {format}: {what} {needed}, and it {has} "
    "{present}",
    label="{capacity} of {tier}",
    notes=("{rate} arrive, each finds {found} and adds {new}",),
    helps=("a narrower format ({times}) would do, or a tier above it",),
)
def tier_below_demand(made: Service) -> Iterator[Fact]:
    """A tier that is too small or too slow for what is asked of it.

    What it checks
        A request of the workload's length fits into what its devices share of the tier. The bytes a
        second that prompts find there, by its share of the prefixes, are at most what its units and
        paths read; what is stored or evicted into it is at most what they write. A tier without a
        rate is not judged by it.

    Why it matters
        Below the demand loads queue without end, and evictions hold up what evicts.

    Example
        tier slow { read = 100 GB/s; write = 8 GB/s }

        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload {
            prompt = 8 ktok; output = 500 tok
            rate = 20 req/s; prefix_hits = 50 %
          }
          tiers    { disk { tier = slow; capacity = 15 TB per node } }
        }

    Instead
        More or faster units, or a smaller format.

        deployment better extends served { tiers { disk { tier = tiers.ddr5 } } }
    """
    for each, kept in tiers_of(made):
        wanted = _lacking(kept)
        if wanted is None:
            continue
        what, has, needed, present = wanted
        word = "capacity" if has == "holds" else "tier"
        times = float(needed.value) / float(present.value) if present.value else 0.0
        fills: dict[str, Fill] = {
            "name": kept.tier.name,
            "format": _formats(kept),
            "what": what,
            "has": has,
            "needed": needed,
            "present": present,
            "capacity": kept.tier.capacity.quantity,
            "tier": title_of(kept.tier.use.tier.title),
            "rate": made.arrivals.quantity if made.arrivals else "",
            "found": each.found.quantity,
            "new": each.new.quantity,
            "times": f"{times:.3g}x" if times else "",
        }
        without = _without(made, kept)
        better = None
        if without is not None:
            better = Suggestion(f"without `{kept.tier.name}`", f"drop tiers.{kept.tier.name}",
                                without.shown(), ("prefill.ttft",))  # fmt: skip
        yield Fact(place_of(kept, word), fills, ((what, needed), (has, present)), better)


def _lacking(kept: Kept) -> tuple[str, str, Quantity, Quantity] | None:
    """What is asked of a tier beyond what it has."""
    length = held_tokens(kept.tier.pool.subject)
    room = kept.tier.tokens
    places = kept.tier.tokens.inputs[0].value
    if Fraction(room.value) < Fraction(places) * length and Fraction(room.value) < length:
        return "a request takes", "holds", Quantity(length, TOKENS), room.quantity
    pairs = (
        ("prompts read", "reads", kept.asked, kept.tier.read),
        ("prefixes write", "writes", kept.stored, kept.tier.write),
    )
    for what, has, asked, present in pairs:
        if asked is None or present is None:
            continue
        if float(asked.value) > float(present.value):
            return what, has, asked.quantity, present.quantity
    return None


@rule(
    "KV166",
    "tier-refuses-format",
    Severity.ERROR,
    "service",
    "the tier `{name}` does not hold {refused}",
    label="{tier} accepts {accepts}",
    helps=("give it a format that it accepts: `format = {first}` in the tier",),
)
def tier_refuses_format(made: Service) -> Iterator[Fact]:
    """A tier that is given a format that it may not hold.

    What it checks
        Each component's format, as it is kept in the tier, is one that the tier accepts, and not
        one that holds weights only.

    Why it matters
        What a tier stores may be fixed in its hardware, as in a CXL device that compresses.

    Example
        tier coded extends tiers.ddr5 { accepts = [formats.fp8] }

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
          tiers    { host { tier = coded; capacity = 1 TB per node } }
        }

    Instead
        A format that it holds.

        deployment better extends served { tiers { host { format = formats.fp8 } } }
    """
    for each in made.reuse:
        for kept in each.kept:
            if not kept.tier.refused:
                continue
            accepts = kept.tier.use.tier.accepts
            yield Fact(
                place_of(kept, "format"),
                {
                    "name": kept.tier.name,
                    "refused": ", ".join(map(_word, kept.tier.refused)),
                    "tier": title_of(kept.tier.use.tier.title),
                    "accepts": ", ".join(map(_word, accepts)) or "formats of a cache",
                    "first": accepts[0].title if accepts else "formats.fp8",
                },
            )


@rule(
    "KV167",
    "prefixes-beyond-tiers",
    Severity.WARNING,
    "service",
    "prefixes take {working} while they are asked again, and all memory together holds {room}",
    label="at most {share} of them are found",
    notes=("{new} are new, each asked again for {reuse}",),
    helps=("{missing} more, or a smaller format, would hold them all",),
)
def prefixes_beyond_tiers(made: Service) -> Iterator[Fact]:
    """Prefixes that are gone before they are asked again.

    What it checks
        New tokens a second times `workload.reuse` are the tokens that prefixes take. The devices'
        room beside the requests in flight and all tiers hold them together.

    Why it matters
        The workload's `prefix_hits` assume that what was kept is still there.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload {
            prompt = 8 ktok; output = 500 tok; rate = 6 req/s
            prefix_hits = 50 %; reuse = 1 h
          }
          tiers    { host { tier = tiers.ddr5; capacity = 1 TB per node } }
        }

    Instead
        More memory for the cache, or a shorter reuse.

        deployment better extends served {
          tiers { host { capacity = 20 TB per node } }
        }
    """
    for each in made.reuse:
        if each.working is None or not each.found.value or _percent(each) == "100 %":
            continue
        working, room = float(each.working.value), float(room_in_all(each))
        again = each.pool.subject.workload.reuse
        yield Fact(
            each.pool.subject.place("workload"),
            {
                "working": each.working.quantity,
                "room": Quantity(tidy(Fraction(room_in_all(each))), TOKENS),
                "share": _percent(each),
                "new": each.working.inputs[0].quantity,
                "reuse": Quantity(float(again or 0), TIME),
                "missing": Quantity(int(-(-(working - room) // 1)), TOKENS),
            },
            (("held of them", Quantity(1 - each.missing, NONE)),),
        )


def _percent(each: Reuse) -> str:
    """Of the prefixes, those that some memory holds."""
    return f"{100 * (1 - each.missing):.3g} %"


RULES: tuple[Rule, ...] = (tier_below_demand, tier_refuses_format, prefixes_beyond_tiers)
