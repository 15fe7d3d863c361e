"""Rules on the format of a cache on its way between two pools: exact, one, and worth its codec."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvdsl.checks.handover import written
from kvdsl.checks.study import Fact, Suggestion, told_apart
from kvdsl.costs.codecs import gives_back, same_numbers
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.service import Service
from kvdsl.costs.transfer import Handover, sent_recipe
from kvdsl.diagnostics import Severity
from kvdsl.placement.cache import cache_parts
from kvdsl.rules import Rule, rule
from kvdsl.source import Span
from kvdsl.spec.formats import Format, Recipe
from kvdsl.units import BYTES, Quantity, tidy


def _word(form: Format) -> str:
    return form.title.rpartition(".")[2]


def _kept_in(pool: Estimate, recipe: Recipe) -> dict[str, Format]:
    """The format of each component of the cache, by its part and name."""
    return {
        f"{component.name.replace('_', ' ')} of {part.name}": component.format
        for part in cache_parts(pool.subject.model, recipe)
        for component in part.components
    }


@rule(
    "KV162",
    "lossy-exact-transfer",
    Severity.ERROR,
    "service",
    "the transfer is to be exact, but the {what} is kept in {kept} and {how} in {sent}",
    label="does not give back every bit",
    notes=("an error of the cache is read again by every later token",),
    helps=("send the cache as it is kept, or in a lossless codec of it: formats.splitzip_bf16",),
)
def lossy_exact_transfer(made: Service) -> Iterator[Fact]:
    """A format that loses bits on a transfer that must not.

    What it checks
        With `exact = true` the format of the transfer stores the same numbers as the cache of the
        pool that prefills, or is a lossless codec of them; and the pool that decodes keeps them in
        the same or in a wider format.

    Why it matters
        Both pools then give the tokens that one pool would give. SplitZip is made for this case.

    Example
        format int4 { bits = 4 bit }

        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
          pool prefill { on = 1 x nodes.hgx_h100 }
          pool decode  { on = 1 x nodes.hgx_h100 }
          transfer { over = links.infiniband_ndr; format = int4; exact = true }
        }

    Instead
        A lossless format, or none.

        deployment better extends served { transfer { format = formats.bf16 } }
    """
    moved = made.handover
    if moved is None or not moved.transfer.exact:
        return
    kept = _kept_in(moved.sender, moved.sender.subject.kv)
    sent = _kept_in(moved.sender, sent_recipe(moved.transfer, moved.sender))
    there = _kept_in(moved.receiver, moved.receiver.subject.kv)
    for what, form in kept.items():
        lost = sent.get(what, form)
        if not gives_back(lost, form):
            yield _lossy(made, moved, what, form, lost, "sent", written(moved, "format"))
            return
        end = there.get(what, form)
        if not same_numbers(end, form) and (end.bits or 0) <= (form.bits or 0):
            place = moved.receiver.subject.place("kv")
            yield _lossy(made, moved, what, form, end, "kept by the pool that decodes", place)
            return


def _lossy(
    made: Service, moved: Handover, what: str, kept: Format, sent: Format, how: str, place: Span
) -> Fact:
    raw = made.again(transfer=moved.transfer.model_copy(update={"format": None}))
    fills = {"what": what, "kept": _word(kept), "sent": _word(sent), "how": how}
    better = None
    if how == "sent":
        better = Suggestion("the cache sent as it is kept", f"format = {kept.title}", raw.shown(),
                            ("transfer.bytes", "transfer.time", "prefill.ttft"))  # fmt: skip
    return Fact(place, fills, (("bytes as sent", moved.size.quantity),), better)


@rule(
    "KV163",
    "slow-codec",
    Severity.WARNING,
    "service",
    "{format} takes {time} where the plain cache takes {plain}: the codec is slower than the link",
    label="a request in {time}",
    notes=("encoding {encode}, wire {wire}, decoding {decode}; {saved} saved on the wire",),
    flips="a slower link, or `pipelined = true` where the engine works chunk by chunk",
)
def slow_codec(made: Service) -> Iterator[Fact]:
    """A codec that takes longer than the bytes that it saves.

    What it checks
        The transfer's format is a codec with its speeds, and encoding, wire and decoding take
        longer than the wire alone with the plain format. Both are run. One after the other a codec
        pays when 1 / encode + 1 / decode < (1 - 1 / ratio) / link; pipelined, when each of its
        steps is faster than the plain wire.

    Why it matters
        A codec is for slow links. On a fast one the plain cache arrives first.

    Example
        format slow {
          of = formats.bf16; ratio = 4 / 3
          encode = 20 GB/s; decode = 40 GB/s
        }

        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
          pool prefill { on = 1 x nodes.hgx_h100 }
          pool decode  { on = 1 x nodes.hgx_h100 }
          transfer { over = links.infiniband_ndr; format = slow }
        }

    Instead
        The plain cache, or a faster codec.

        deployment better extends served { transfer { format = formats.bf16 } }
    """
    moved = made.handover
    form = moved.transfer.format if moved is not None else None
    if moved is None or form is None or form.of is None:
        return
    if moved.encode is None and moved.decode is None:
        return
    raw = made.again(transfer=moved.transfer.model_copy(update={"format": form.of}))
    plain = raw.handover
    if plain is None or float(plain.stream.value) >= float(moved.stream.value):
        return
    if not told_apart(plain.whole.quantity, moved.whole.quantity):
        return
    saved = Quantity(tidy(Fraction(plain.size.value) - Fraction(moved.size.value)), BYTES)
    yield Fact(
        written(moved, "format"),
        {
            "format": _word(form),
            "time": moved.whole.quantity,
            "plain": plain.whole.quantity,
            "encode": moved.encode.quantity if moved.encode else "none",
            "wire": moved.wire.quantity,
            "decode": moved.decode.quantity if moved.decode else "none",
            "saved": saved,
        },
        (("saved on the wire", saved),),
        Suggestion(f"format = {form.of.title}", f"format = {form.of.title}", raw.shown(),
                   ("transfer.time", "transfer.bytes", "prefill.ttft")),
    )  # fmt: skip


@rule(
    "KV176",
    "pools-keep-other-formats",
    Severity.WARNING,
    "service",
    "the pool that prefills keeps the {what} in {first}, the pool that decodes in {second}",
    label="converted on its way, which is not costed",
    helps=("keep the cache in one format, as engines ask: `kv` in the deployment",),
)
def pools_keep_other_formats(made: Service) -> Iterator[Fact]:
    """Pools that keep the cache in different formats.

    What it checks
        Each component of the cache has the same format in both pools. With `exact = true` KV162
        tells it.

    Why it matters
        SGLang refuses it, and where an engine converts, its time is nowhere here.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
          pool prefill { on = 1 x nodes.hgx_h100 }
          pool decode  { on = 1 x nodes.hgx_h100; kv = formats.fp8 }
          transfer { over = links.infiniband_ndr }
        }

    Instead
        One format.

        deployment better extends served { pool decode { kv = formats.bf16 } }
    """
    moved = made.handover
    if moved is None or moved.transfer.exact:
        return
    here = _kept_in(moved.sender, moved.sender.subject.kv)
    there = _kept_in(moved.receiver, moved.receiver.subject.kv)
    for what, form in here.items():
        other = there.get(what, form)
        if not same_numbers(form, other):
            fills = {"what": what, "first": _word(form), "second": _word(other)}
            yield Fact(moved.receiver.subject.place("kv"), fills)
            return


RULES: tuple[Rule, ...] = (lossy_exact_transfer, slow_codec, pools_keep_other_formats)
