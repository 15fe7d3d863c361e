"""Rules on formats: what they save, what a device makes of them, what they may hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import prod

from kvdsl.checks.bounds import bounds
from kvdsl.checks.study import Fact, Study, Suggestion
from kvdsl.costs.weights import format_of
from kvdsl.diagnostics import Severity
from kvdsl.placement.subject import Subject
from kvdsl.rules import Rule, rule
from kvdsl.spec.formats import Format, Recipe, RecipeLine
from kvdsl.units import NONE, Quantity, grouped, tidy

UNMULTIPLIED = frozenset({"embedding", "norms", "tower"})
"""Modules that no matrix product reads."""


def _word(form: Format) -> str:
    return form.title.rpartition(".")[2]


def _cached_in(study: Study) -> list[Format]:
    """The formats of the cache, each once."""
    found = {c.format.title: c.format for part in study.placed.parts for c in part.components}
    return list(found.values())


def _multiplied_in(study: Study) -> list[Format]:
    """The formats of weights that are multiplied, each once."""
    found = {}
    for tensor in study.placed.tensors:
        if tensor.module not in UNMULTIPLIED and tensor.rows > 1:
            form = format_of(study.subject, tensor)
            found[form.title] = form
    return list(found.values())


def _narrow(form: Format, subject: Subject) -> bool:
    """Whether a value takes fewer bits than an activation."""
    wide = subject.activations.bits
    return form.bits is not None and wide is not None and form.bits < wide


@rule(
    "KV147",
    "inert-compression",
    Severity.INFO,
    "costs",
    "a cache in {format} decides nothing here: in {wide} all {asked} fit too",
    label="room for {fits} in {wide}",
    notes=("a token takes {tpot}, and {other} in {wide}; {free} would still be free on a GPU",),
    flips="more requests or longer ones, until the cache binds",
)
def inert_compression(study: Study) -> Iterator[Fact]:
    """A narrow cache that nothing needs.

    What it checks
        The cache is kept in fewer bits than activations and not losslessly; in the activations'
        format all requests in flight would fit, and every bound that holds would hold. Where the
        cache is sent between pools or kept in tiers it is not judged: there it saves bytes too.

    Why it matters
        A narrow cache may cost quality, which is not measured here. It is worth it where requests
        would queue, or a step be too slow, without it.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.fp8
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        Nothing: this is information. Keep the wide cache, or use the room.
    """
    subject, found = study.subject, study.costs
    narrow = [f for f in _cached_in(study) if _narrow(f, subject) and not f.lossless]
    if not narrow or found.load is None or found.crowded or not found.fits:
        return
    if subject.deployment.transfer is not None or subject.deployment.tiers:
        return
    wide = Recipe(lines=(RecipeLine(format=subject.activations),))
    other = study.other(replace(subject, kv=wide))
    if other is None or other.load is None or other.crowded or not other.fits:
        return
    if any(b.holds(found) and not b.holds(other) for b in bounds(study)):
        return
    yield Fact(
        subject.place("kv"),
        {
            "format": ", ".join(map(_word, narrow)),
            "wide": _word(subject.activations),
            "asked": found.load.asked.quantity,
            "fits": other.values["kv.sequences"].quantity,
            "tpot": found.values["decode.tpot"].quantity,
            "other": other.values["decode.tpot"].quantity,
            "free": other.values["memory.free"].quantity,
        },
        (("free on a GPU without it", other.values["memory.free"].quantity),),
        Suggestion(f"kv = {subject.activations.title}", f"kv = {subject.activations.title}", other,
                   ("kv.sequences", "decode.tpot", "memory.free")),
    )  # fmt: skip


# --- scales ------------------------------------------------------------------------------------


def _scaled(form: Format) -> Fraction:
    """Bits of a value with its share of a block's scale and zero point."""
    block = prod(form.block) if form.block else 0
    each = Fraction((form.scale or 0) + (form.zero or 0)) / block if block else Fraction(0)
    return 8 * (Fraction(form.bits or 0) + each)


def _without_scales(recipe: Recipe) -> Recipe:
    plain = {"scale": None, "zero": None, "block": None}
    lines = (
        line.model_copy(update={"format": line.format.model_copy(update=plain)})
        for line in recipe.lines
    )
    return recipe.model_copy(update={"lines": tuple(lines)})


@rule(
    "KV150",
    "nominal-saving",
    Severity.INFO,
    "costs",
    "{format} takes {bits:bits} a value with its scales, not {nominal}: it saves {saving} % of "
    "{wide}, not {hoped} %",
    label="scales are counted",
    notes=("without scales {value} would be {before}; it is {after}",),
)
def nominal_saving(study: Study) -> Iterator[Fact]:
    """Scales cost bits, so a narrow format saves less than its name says.

    What it checks
        Weights or cache are kept in a format with a scale for each block, and its saving against
        the activations' format differs from the nominal one in whole percent.

    Why it matters
        NVFP4 has an 8-bit scale for 16 values: 4.5 bits, 71.9 % saved and not 75 %. Capacities
        here count the scales; figures from elsewhere often do not.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.nvfp4
          on       = 1 x nodes.hgx_b200
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 128 ktok; concurrency = 128 req }
        }

    Instead
        Nothing: this is information. Quote the saving with scales.
    """
    subject = study.subject
    cached = replace(subject, kv=_without_scales(subject.kv))
    stored = replace(subject, weights=_without_scales(subject.weights))
    for word, formats, plain, value in (
        ("kv", _cached_in(study), cached, "kv.tokens"),
        ("weights", _multiplied_in(study), stored, "memory.weights"),
    ):
        for form in formats:
            yield from _told(study, word, form, plain, value)


def _told(study: Study, word: str, form: Format, plain: Subject, value: str) -> Iterator[Fact]:
    wide = study.subject.activations
    if form.bits is None or wide.bits is None or not _narrow(form, study.subject):
        return
    nominal, bits, most = 8 * Fraction(form.bits), _scaled(form), 8 * Fraction(wide.bits)
    hoped, saving = 100 * (1 - nominal / most), 100 * (1 - bits / most)
    if round(hoped) == round(saving):
        return
    yield Fact(
        study.subject.place(word),
        {
            "format": _word(form),
            "bits": grouped(float(bits)),
            "nominal": grouped(float(nominal)),
            "saving": grouped(float(saving)),
            "hoped": grouped(float(hoped)),
            "wide": _word(wide),
            "value": value,
            "before": study.room_of(plain).values[value].quantity,
            "after": study.costs.values[value].quantity,
        },
        (("bits a value", Quantity(tidy(bits), NONE)),),
    )


# --- devices -----------------------------------------------------------------------------------


@rule(
    "KV161",
    "emulated-format",
    Severity.WARNING,
    "costs",
    "{device} has no {arithmetic} arithmetic, so {format} is converted before it is used",
    label="native there: {native}",
    notes=("bytes are saved as said; products are counted at the device's wider arithmetic, and "
           "the conversion itself is not counted",),
    helps=("take a format that {device} computes in, or one whose `compute` says so",),
)  # fmt: skip
def emulated_format(study: Study) -> Iterator[Fact]:
    """A narrow format that the device does not compute in.

    What it checks
        Weights that are multiplied, and the cache, are kept in formats narrower than activations
        whose row of arithmetic the device's `compute` has. A device that names no rows is not
        judged, nor is a format whose `compute` names a row that is there (as awq_int4 does).

    Why it matters
        The kernel converts each value to a wider format first: memory is saved, time is not, and a
        kernel that fuses the conversion has to exist.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.fp8
          on       = 1 x nodes.hgx_a100_80gb
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        A native format, or a device that has it.

        deployment better extends served { on = 1 x nodes.hgx_h100 }
    """
    devices = {c.device.title: c.device for c in study.placed.classes}
    for word, formats in (("weights", _multiplied_in(study)), ("kv", _cached_in(study))):
        for form in formats:
            for device in devices.values():
                known = device.compute
                if not known or form.arithmetic in known or not _narrow(form, study.subject):
                    continue
                yield Fact(
                    study.subject.place(word),
                    {
                        "device": device.title,
                        "arithmetic": form.arithmetic,
                        "format": _word(form),
                        "native": ", ".join(known),
                    },
                    (("bits of a value", Quantity(tidy(8 * Fraction(form.bits or 0)), NONE)),),
                )


@rule(
    "KV165",
    "weight-format-for-cache",
    Severity.ERROR,
    "subject",
    "{format} holds weights only, and the cache would be kept in it",
    label="not a format of a cache",
    notes=("its scales or codes are made once, from weights at rest; a cache is written token by "
           "token",),
    helps=("take a format with `holds = any` or `kv`: formats.fp8, formats.nvfp4",),
)  # fmt: skip
def weight_format_for_cache(study: Study) -> Iterator[Fact]:
    """A format made for weights is not one for the cache.

    What it checks
        No line of `kv` is a format, or a codec of one, with `holds = weights`.

    Why it matters
        AWQ and GPTQ need the whole matrix, DFloat11 a code table from it. No kernel writes a cache
        in them.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.awq_int4
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        A format of the cache.

        deployment better extends served { kv = formats.fp8 }
    """
    told: set[str] = set()
    for line in study.subject.kv.lines:
        form: Format | None = line.format
        while form is not None and form.holds != "weights":
            form = form.of
        if form is not None and form.title not in told:
            told.add(form.title)
            yield Fact(study.subject.place("kv"), {"format": _word(form)})


RULES: tuple[Rule, ...] = (
    inert_compression,
    nominal_saving,
    emulated_format,
    weight_format_for_cache,
)
