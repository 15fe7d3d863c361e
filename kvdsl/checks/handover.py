"""Rules on what is handed over between two pools: its format, its codec, its link, its layout."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvdsl.checks.study import Fact, Suggestion, told_apart
from kvdsl.costs.codecs import gives_back, same_numbers
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.service import Service
from kvdsl.costs.transfer import Handover, handover, sent_recipe
from kvdsl.diagnostics import Severity
from kvdsl.placement.cache import cache_parts
from kvdsl.rules import Rule, rule
from kvdsl.source import Span
from kvdsl.spec.formats import Format, Recipe
from kvdsl.units import BYTES, NONE, Quantity, shown, tidy


def _word(form: Format) -> str:
    return form.title.rpartition(".")[2]


def written(moved: Handover, word: str) -> Span:
    """Where the transfer says something, else where it stands."""
    origin = moved.transfer.origin(word) or moved.transfer.origin("over")
    if origin is not None:
        return origin.span
    return moved.sender.subject.place("deployment")


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
    "KV171",
    "link-below-demand",
    Severity.ERROR,
    "service",
    "the requests hand over {needed}, and what joins the pools carries {present}",
    label="{lanes} a request",
    notes=("{rate} of {size} each",),
)
def link_below_demand(made: Service) -> Iterator[Fact]:
    """A link that cannot keep up with the requests.

    What it checks
        Arrivals times the bytes of a request are at most what the lanes of all requests carry.

    Why it matters
        Past it handovers queue without end, whatever a single one takes.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
          pool prefill { on = 1 x nodes.hgx_h100 }
          pool decode  { on = 1 x nodes.hgx_h100 }
          transfer { over = links.roce_100; lanes = 1 }
        }

    Instead
        More lanes, a faster link, or a smaller format.

        deployment better extends served { transfer { lanes = 8 } }
    """
    moved, needed = made.handover, made.needed
    if moved is None or needed is None or made.arrivals is None:
        return
    if float(needed.value) <= float(moved.present.value):
        return
    ratio = float(needed.value) / float(moved.present.value)
    lanes = int(-(-float(moved.lanes.value) * ratio // 1))
    more = made.again(transfer=moved.transfer.model_copy(update={"lanes": lanes}))
    yield Fact(
        written(moved, "over"),
        {
            "needed": needed.quantity,
            "present": moved.present.quantity,
            "lanes": _lanes(moved),
            "rate": made.arrivals.quantity,
            "size": moved.size.quantity,
        },
        (("asked of the link", needed.quantity), ("carried by it", moved.present.quantity)),
        Suggestion(f"lanes = {lanes}", f"lanes = {lanes}", more.shown(),
                   ("transfer.bandwidth", "transfer.time", "prefill.ttft")),
    )  # fmt: skip


def _lanes(moved: Handover) -> str:
    count = float(moved.lanes.value)
    return f"{count:g} lane{'s' if count != 1 else ''}"


@rule(
    "KV172",
    "converted-layout",
    Severity.WARNING,
    "service",
    "prefill holds a request {sender} and decode {receiver}: the cache is converted on its way",
    also=(Severity.INFO,),
    label="{size} a request, {beyond}",
    notes=("each byte is pulled by {copies:devices}", "{uneven}"),
)
def converted_layout(made: Service) -> Iterator[Fact]:
    """Pools that cut the cache in different ways.

    What it checks
        Tensor parallelism of attention, sequence ways and stages agree between the pools. Where
        they do not, each device that decodes pulls its own part: split heads cost no more bytes,
        and the finding is information; a latent, or heads with copies, is sent once a device. Two
        degrees of which neither divides the other cut heads apart.

    Why it matters
        Engines convert on the way or refuse: vLLM's NIXL connector wants one degree to divide the
        other, and each decode rank pulls the whole latent of MLA.

    Example
        deployment served {
          model    = models.gpt_2
          weights  = formats.bf16
          kv       = formats.bf16
          budget   { reserve = 3 GB }
          workload { prompt = 512 tok; output = 256 tok; rate = 100 req/s }
          pool prefill { on = nodes.hgx_h100.devices[0..2]; layout { tp = 3 } }
          pool decode  { on = nodes.hgx_h100.devices[4..5]; layout { tp = 2 } }
          transfer { over = links.nvlink4 }
          allow KV170 because "decode is to be steady"
        }

    Instead
        The same cut of the cache in both pools, or one that halves the other's.

        deployment better extends served {
          pool prefill { on = nodes.hgx_h100.devices[0..1]; layout { tp = 2 } }
        }
    """
    moved = made.handover
    if moved is None:
        return
    a, b = moved.sender.subject.degrees, moved.receiver.subject.degrees
    shapes = [_shape(pool) for pool in (moved.sender, moved.receiver)]
    if shapes[0] == shapes[1] or not moved.parts:
        return
    one, size = Fraction(moved.one.value), Fraction(moved.size.value)
    tp = (a.attention.tp, b.attention.tp)
    uneven = max(tp) % min(tp) != 0
    yield Fact(
        written(moved, "over"),
        {
            "sender": shapes[0],
            "receiver": shapes[1],
            "size": moved.size.quantity,
            "beyond": f"{shown(moved.one.quantity)} of one copy" if size > one else "one copy",
            "copies": Quantity(tidy(size / one), NONE) if size > one else "",
            "uneven": f"neither of {tp[0]} and {tp[1]} divides the other" if uneven else "",
        },
        (("sent beyond one copy", Quantity(tidy(size - one), BYTES)),) if size > one else (),
        severity=Severity.WARNING if size > one or uneven else Severity.INFO,
    )


def _shape(pool: Estimate) -> str:
    degrees = pool.subject.degrees
    axes = (("TP", degrees.attention.tp), ("CP", degrees.attention.cp), ("PP", degrees.pp))
    said = [f"{axis}={size}" for axis, size in axes if size > 1]
    return f"over {' '.join(said)}" if said else "whole on a device"


@rule(
    "KV173",
    "unpaired-stages",
    Severity.WARNING,
    "service",
    "a request waits {visible} for its cache to cross nodes, longer than the {tpot} of a token",
    label="over {link}; inside a node {fast} would carry it",
    notes=("{size} a request",),
    flips="a faster fabric, or layers sent behind the prefill (`overlap = layerwise`)",
)
def unpaired_stages(made: Service) -> Iterator[Fact]:
    """Handovers that cross nodes where both sides would fit into one.

    What it checks
        Pools of one kind of node, whose sets of devices for a request fit into one node together;
        the transfer goes between nodes, and its visible time is longer than that of a token. The
        same transfer over the node's own links is run.

    Why it matters
        DistServe places the stages of prefill and decode that hold the same layers in one node
        where links between nodes are slow.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          layout   { tp = 4 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 500 tok; rate = 12 req/s }
          pool prefill { on = 1 x nodes.hgx_h100; replicas = 2 }
          pool decode  { on = 1 x nodes.hgx_h100; replicas = 2 }
          transfer { over = links.roce_200 }
          allow KV170 because "decode is to be steady"
        }

    Instead
        Both pools in each node.

        deployment better extends served {
          pool prefill { on = nodes.hgx_h100.devices[0..3]; replicas = 1 }
          pool decode  { on = nodes.hgx_h100.devices[4..7]; replicas = 1 }
          transfer     { over = links.nvlink4 }
        }
    """
    moved = made.handover
    tpot = made.all.get("decode.tpot")
    if moved is None or tpot is None or float(moved.visible.value) <= float(tpot.value):
        return
    if not told_apart(moved.visible.quantity, tpot.quantity):
        return
    one, other = moved.sender.subject.pool.on, moved.receiver.subject.pool.on
    if moved.inside or one is None or other is None or one.of.title != other.of.title:
        return
    place = moved.sender.subject.topology
    own = place.devices // max(1, place.nodes)
    if sum(Fraction(side.value) for side in moved.devices) > own or own < 2:
        return
    join = place.reach((0, 1)).join
    if join is None or not join.fast or join.link.bandwidth <= moved.transfer.over.bandwidth:
        return
    changes = {"over": join.link, "lanes": None}
    paired = handover(moved.transfer.model_copy(update=changes), moved.sender, moved.receiver)
    near = made.again(transfer=paired.transfer)
    yield Fact(
        written(moved, "over"),
        {
            "visible": moved.visible.quantity,
            "tpot": tpot.quantity,
            "link": _title(moved.transfer.over.title),
            "fast": _title(join.link.title),
            "size": moved.size.quantity,
        },
        (("visible transfer", moved.visible.quantity),),
        Suggestion("both stages of a request in one node", f"over = {join.link.title}",
                   near.shown(), ("transfer.time", "prefill.ttft")),
    )  # fmt: skip


def _title(title: str) -> str:
    return title.rpartition(".")[2]


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


RULES: tuple[Rule, ...] = (
    lossy_exact_transfer,
    slow_codec,
    link_below_demand,
    converted_layout,
    unpaired_stages,
    pools_keep_other_formats,
)
