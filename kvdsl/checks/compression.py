"""Rules on caches that are made smaller: what that does to a step, and who reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from kvdsl.checks.bounds import bounds
from kvdsl.checks.study import Fact, Study, Suggestion
from kvdsl.costs.estimate import Estimate
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import Degrees, uniform
from kvdsl.rules import Rule, rule
from kvdsl.spec.formats import Format, Recipe, RecipeLine
from kvdsl.units import BYTES, TIME, Quantity, tidy


def narrow_formats(study: Study) -> list[Format]:
    """Formats of the cache in which a value takes fewer bits than an activation."""
    wide = study.subject.activations.bits or 0
    found = {c.format.title: c.format for part in study.placed.parts for c in part.components}
    return [f for f in found.values() if f.bits is not None and f.bits < wide]


def in_activations(study: Study) -> Estimate | None:
    """The same with the cache in the activations' format, all tokens kept."""
    wide = Recipe(lines=(RecipeLine(format=study.subject.activations),))
    return study.other(replace(study.subject, kv=wide, keep=Fraction(1)))


@rule(
    "KV148",
    "compression-against-time",
    Severity.WARNING,
    "costs",
    "a smaller cache lets {more} share a step, and a token takes {tpot}: more than {bound}",
    label="{how}",
    notes=("in {wide} {fewer} share it, and a token takes {other}",),
    helps=("a time a token is bought with more devices to a replica, not with a smaller cache; or "
           "ask for fewer requests at once",),
    flips="a bound on cost instead of time",
)  # fmt: skip
def compression_against_time(study: Study) -> Iterator[Fact]:
    """A smaller cache admits more requests, and each of them waits for the others.

    What it checks
        The cache is kept in fewer bits than activations, or in part (`keep`); a requirement on
        `decode.tpot` fails; and with the whole, wide cache fewer requests would share a step and a
        token take less time.

    Why it matters
        Compression is cheap a token because more requests share a step, and that is what makes a
        token slower: by 8 to 93 % in the study of TP against compression that names both levers.
        More devices to a replica shorten a token instead.

    Example
        deployment served {
          model    = models.llama_2_7b
          weights  = formats.bf16
          kv       = formats.int8
          on       = 1 x nodes.hgx_a100_80gb
          layout   { tp = 4; replicas = 2 }
          budget   { reserve = 3 GB }
          workload { prompt = 3840 tok; output = 256 tok; concurrency = 480 req }
          expect decode.tpot <= 70 ms
        }

    Instead
        A bound that the time keeps, or more devices to a replica.

        deployment better extends served {
          layout   { tp = 8; replicas = 1 }
          workload { prompt = 3840 tok; output = 256 tok; concurrency = 250 req }
        }
    """
    subject, found = study.subject, study.costs
    narrow = narrow_formats(study)
    failed = [b for b in bounds(study) if b.name == "decode.tpot" and b.holds(found) is False]
    if not failed or found.load is None or not (narrow or subject.keep < 1):
        return
    other = in_activations(study)
    if other is None or other.load is None or not other.fits:
        return
    fewer = other.load.served.value < found.load.served.value
    if not fewer or other.number("decode.tpot") >= found.number("decode.tpot"):
        return
    said = [f.title.rpartition(".")[2] for f in narrow]
    said += [f"{100 * subject.keep} % of the tokens"] if subject.keep < 1 else []
    yield Fact(
        subject.place("kv"),
        {
            "more": found.load.served.quantity,
            "fewer": other.load.served.quantity,
            "tpot": found.values["decode.tpot"].quantity,
            "other": other.values["decode.tpot"].quantity,
            "bound": failed[0].value,
            "how": f"kept in {', '.join(said)}",
            "wide": subject.activations.title.rpartition(".")[2],
        },
        (("more time a token", Quantity(found.number("decode.tpot") - other.number("decode.tpot"),
                                        TIME)),),
        _wider(study),
    )  # fmt: skip


def _wider(study: Study) -> Suggestion | None:
    """Twice the TP on the same devices, where a token then takes less time."""
    degrees = study.subject.degrees
    if degrees.replicas % 2 or degrees.attention.tp != degrees.size:
        return None
    other: Degrees = uniform(degrees.size * 2, degrees.pp, degrees.replicas // 2)
    found = study.under(other)
    now = study.costs.number("decode.tpot")
    if found is None or not found.fits or found.number("decode.tpot") >= now:
        return None
    shows = ("decode.tpot", "kv.sequences", "cost.per_mtok")
    return Suggestion(f"TP={other.size}", other.text(), found, shows)


@rule(
    "KV151",
    "unfused-cache",
    Severity.WARNING,
    "costs",
    "{engine} has no attention that reads {format}: the cache is widened before it is read",
    label="saves memory, costs time",
    notes=(
        "reading it takes {read} a step as counted here; writing and reading the wide copy adds "
        "{more}",
    ),
    helps=("its attention reads {known}",),
)
def unfused_cache(study: Study) -> Iterator[Fact]:
    """A cache in a format that no attention kernel reads is widened first.

    What it checks
        The engine says which formats its attention reads (`kv_formats`), and a component of the
        cache is narrower than activations and in none of them.

    Why it matters
        A kernel that fuses the conversion reads the narrow bytes alone. Without one a wide copy of
        the cache is written and read in every step, so that time is lost where it should be won.

    Example
        engine house {
          family     = vllm
          version    = "0.33.0"
          kv_formats = [bf16, fp8]
        }

        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.int8
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          engine   = house
          time     = ideal
          budget   { reserve = 3 GB }
          workload { context = 128 ktok; concurrency = 48 req }
        }

    Instead
        A format that is read as it is kept.

        deployment better extends served { kv = formats.fp8 }
    """
    engine, found = study.subject.engine, study.costs
    if engine is None or not engine.kv_formats or "decode.kv_read" not in found.values:
        return
    wide = study.subject.activations.bits or 0
    for form in narrow_formats(study):
        word = form.title.rpartition(".")[2]
        if word in engine.kv_formats or not form.bits:
            continue
        read = found.number("decode.kv_read")
        more = 2 * read * float(Fraction(wide) / Fraction(form.bits))
        yield Fact(
            study.subject.place("kv"),
            {
                "engine": engine.title,
                "format": word,
                "read": Quantity(read, TIME),
                "more": Quantity(more, TIME),
                "known": ", ".join(engine.kv_formats),
            },
            (("bytes of a wide value", Quantity(tidy(Fraction(wide)), BYTES)),),
        )


RULES: tuple[Rule, ...] = (compression_against_time, unfused_cache)
