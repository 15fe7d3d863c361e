"""The cache: bytes of a token and of a request, in all and on a rank.

Comes in: a placement. Goes out: terms, exact. A record counts its values and scales; the rank's
share follows from the cuts of heads (or of the latent) and of the sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from kvdsl import units
from kvdsl.arithmetic import at_least, each, over, times
from kvdsl.costs.mixers import MIXERS, kept_values
from kvdsl.costs.origins import of_layout, of_model, of_workload
from kvdsl.costs.weights import Exact, stored
from kvdsl.formulas import Term, deferred, formula, total
from kvdsl.placement.cache import CachePart, Component
from kvdsl.placement.placement import Placement, Stage
from kvdsl.placement.shares import CacheShard
from kvdsl.placement.subject import Subject
from kvdsl.spec.formats import Format
from kvdsl.spec.model import Model
from kvdsl.units import counted, grouped, tidy

_PER_TOKEN = units.BYTES_PER_TOKEN


@formula(
    "layers x heads x bytes a head",
    units.BYTES_PER_TOKEN,
    "Ainslie et al., GQA, arXiv 2305.13245; Vaswani et al., arXiv 1706.03762",
)
def bytes_per_token(layers: int, heads: int, bytes_a_head: Exact) -> Exact:
    return layers * heads * bytes_a_head


@formula("values of a head x bytes a value + its scales", units.BYTES)
def head_bytes(width: int, bytes_a_value: Exact, scales: Exact) -> Exact:
    return width * bytes_a_value + scales


@formula(
    "layers x max(1, heads / ways) x bytes a head / ways of the sequence",
    units.BYTES_PER_TOKEN,
    "the rule of atoms over axes: a rank holds max(1, atoms / ways) of them",
)
def bytes_per_token_on_rank(
    layers: int, heads: int, ways: int, bytes_a_head: Exact, sequence_ways: int
) -> Exact:
    held = at_least(over(heads, ways), 1)
    return over(times(layers, held, bytes_a_head), sequence_ways)


@formula("layers x bytes a token and layer x tokens kept", units.BYTES)
def bytes_per_request(layers: int, record: Exact, kept: Exact) -> Exact:
    return layers * record * kept


@formula("layers x bytes a layer", units.BYTES, "a state has one size at every length")
def bytes_of_states(layers: int, record: Exact) -> Exact:
    return layers * record


@formula("bytes on all devices that hold it / bytes of one copy", units.NONE)
def copies(on_devices: Exact, one_copy: Exact) -> Exact:
    return over(on_devices, one_copy)


def component_bytes(component: Component) -> Exact:
    """Bytes of one head of a component."""
    return stored(component.format, 1, component.width)


def record_bytes(part: CachePart) -> Exact:
    """Bytes that one layer keeps of one token, one copy."""
    return sum((c.heads * component_bytes(c) for c in part.components), start=Fraction(0))


@formula("bytes a token of an entry for each / tokens an entry", _PER_TOKEN)
def spread_over_run(each: Exact, every: int) -> Exact:
    return over(each, every)


def _of_format(form: Format, label: str, value: Exact) -> Term:
    """A figure of a format; one that nobody wrote is a default."""
    if form.at is None:
        note = f"{form.title}, where nothing names a format"
        return Term(label, value, units.BYTES, basis="default", note=note)
    basis = "catalog" if form.catalog else "spec"
    return Term(label, value, units.BYTES, basis=basis, span=form.at, source=form.source,
                note=form.title)  # fmt: skip


def _head_term(model: Model, component: Component) -> Term:
    form = component.format
    word = component.name.replace("_", " ")
    width = of_model(model, f"width of the {word}", component.width)
    bits = form.bits
    if bits is None:
        bits = over(component_bytes(component), component.width)
    value = _of_format(form, "bytes a value", bits)
    rest = component_bytes(component) - component.width * bits
    scales = _of_format(form, "bytes of scales", rest)
    return head_bytes.derive(
        f"bytes of one {word}", width=width, bytes_a_value=value, scales=scales
    )


def part_terms(model: Model, part: CachePart) -> Term:
    """Bytes of a token in one part, one copy, all its layers."""
    layers = Term(
        f"layers with {part.name}",
        part.layers,
        basis="catalog" if model.catalog else "spec",
        span=model.at,
        source=model.source,
        note=f"counted from {model.title}",
    )
    terms = [
        bytes_per_token.derive(
            f"{component.name.replace('_', ' ')} of {part.name}",
            layers=layers,
            heads=of_model(model, "heads", component.heads),
            bytes_a_head=_head_term(model, component),
        )
        for component in part.components
    ]
    return _over_run(model, part, total(f"bytes a token in {part.name}", terms))


def _over_run(model: Model, part: CachePart, each: Term) -> Term:
    """Of a part with an entry for so many tokens, each token's share."""
    if part.every == 1:
        return each
    every = of_model(model, "tokens an entry", part.every)
    return spread_over_run.derive(each.label, each=each, every=every)


def token_terms(placement: Placement) -> dict[str, Term]:
    """`kv.bytes_per_token` and `.bytes_per_token_unbounded`."""
    growing = [p for p in placement.parts if p.growth in ("token", "window")]
    endless = [p for p in growing if p.even]
    found = {}
    for name, parts in (("bytes_per_token", growing), ("bytes_per_token_unbounded", endless)):
        label = f"KV {name.replace('_', ' ')}"
        terms = [part_terms(placement.subject.model, p) for p in parts]
        found[f"kv.{name}"] = (
            total(label, terms)
            if terms
            else of_model(placement.subject.model, label, 0, _PER_TOKEN)
        )
    return found


def shard_term(subject: Subject, share: CacheShard) -> Term:
    """Bytes of a token of one part on a rank of a stage; derived when asked."""
    each = rank_record(share) * share.layers
    label = f"bytes a token in {share.part.name} on a rank"
    value = tidy(each if share.part.every == 1 else over(each, share.part.every))
    return deferred(label, value, _PER_TOKEN, lambda: _shard_derived(subject, label, share), ())


def _shard_derived(subject: Subject, label: str, share: CacheShard) -> Term:
    model = subject.model
    terms = []
    for component, cut in share.heads:
        terms.append(
            bytes_per_token_on_rank.derive(
                f"{component.name.replace('_', ' ')} on a rank",
                layers=of_layout(subject, "layers in the stage", share.layers),
                heads=of_model(model, "heads", cut.atoms or 1),
                ways=of_layout(subject, "ways of tensor parallelism", cut.size),
                bytes_a_head=_atom_term(model, component, cut.atoms or 1),
                sequence_ways=of_layout(subject, "ways of the sequence", share.tokens.size),
            )
        )
    return _over_run(model, share.part, total(label, terms))


def _atom_term(model: Model, component: Component, atoms: int) -> Term:
    head = _head_term(model, component)
    if atoms == component.heads:
        return head
    each = Fraction(component_bytes(component) * component.heads) / atoms
    return Term(
        "bytes of one column",
        each,
        units.BYTES,
        inputs=(head,),
        note="the latent is split by columns",
    )


def stage_token_terms(placement: Placement) -> tuple[Term, ...]:
    """Bytes of a token on a rank, windows not yet full, by stage number."""
    subject = placement.subject
    found: list[Term] = []
    for stage in placement.stages:
        label = f"KV bytes a token on a rank of stage {stage.number}"
        if stage.like != stage.number:
            found.append(found[stage.like].named(label))
            continue
        shares = [s for s in stage.cache if s.part.growth in ("token", "window")]
        terms = [shard_term(subject, share) for share in shares]
        none = of_model(subject.model, label, 0, _PER_TOKEN)
        found.append(total(label, terms) if terms else none)
    return tuple(found)


def rank_record(share: CacheShard) -> Fraction:
    """Bytes that one layer of a part keeps of one token on a rank (the mean over cp ranks)."""
    found = Fraction(0)
    for component, cut in share.heads:
        whole = Fraction(component_bytes(component) * component.heads)
        found += whole * cut.held
    return found * share.tokens.held


def request_on_rank(stage: Stage, tokens: Any, page: int = 1, *, states: bool = True) -> Fraction:
    """Bytes of a request of so many tokens on a rank of a stage; pages count whole. `states` are
    those of fixed size, which a request has once however long it is."""
    found: list[Any] = []
    for share in stage.cache:
        if share.part.state and not states:
            continue
        found.append(share_of_request(share, tokens, page))
    return sum(found, start=0)


def share_of_request(share: CacheShard, tokens: Any, page: int = 1) -> Fraction:
    """What one part keeps of a request of so many tokens on a rank; pages count whole."""
    kept = tokens if share.part.even else each(_kept_of(share.part), tokens)
    if page > 1 and not share.part.state:
        kept = -(-kept // page) * page
    found: Fraction = times(rank_record(share) * share.layers, kept)
    return found


def _kept_of(part: CachePart) -> Callable[[Exact], int]:
    return lambda tokens: part.tokens(int(tokens))


def requests_on_ranks(placement: Placement, tokens: Any) -> tuple[Fraction, ...]:
    """`request_on_rank` by stage number."""
    found: list[Fraction] = []
    for stage in placement.stages:
        own = stage.like == stage.number
        found.append(request_on_rank(stage, tokens) if own else found[stage.like])
    return tuple(found)


def request_terms(placement: Placement, tokens: int) -> dict[str, Term]:
    """`kv.bytes_per_request` and `state.bytes_per_request` at a length."""
    model = placement.subject.model
    length = of_workload(placement.subject, "length of a request", tokens, units.TOKENS)
    kept: list[Term] = []
    states: list[Term] = []
    for part in placement.parts:
        term = request_term(model, part, tokens, length)
        (states if part.state else kept).append(term)
    return {
        "kv.bytes_per_request": summed(
            model, f"KV bytes of a request of {grouped(tokens)} tok", kept
        ),
        "state.bytes_per_request": summed(model, "bytes of states of a request", states),
    }


def summed(
    model: Model, label: str, terms: list[Term], dimension: units.Dimension = units.BYTES
) -> Term:
    return total(label, terms) if terms else of_model(model, label, 0, dimension)


def request_term(model: Model, part: CachePart, tokens: int, length: Term) -> Term:
    """Bytes of a request of so many tokens in one part, one copy."""
    layers = of_model(model, "layers", part.layers)
    if part.state:
        states = [_kept(model, part, component) for component in part.components]
        record = total(f"bytes a layer in {part.name}", states)
        return bytes_of_states.derive(f"states in {part.name}", layers=layers, record=record)
    inputs = tuple(_head_term(model, c) for c in part.components)
    record = Term(
        f"bytes a token and layer in {part.name}", record_bytes(part), _PER_TOKEN, inputs=inputs
    )
    kept = Term(
        f"tokens kept in {part.name}",
        part.tokens(tokens),
        units.TOKENS,
        inputs=(length,),
        note=kept_note(part),
    )
    return bytes_per_request.derive(
        f"a request in {part.name}", layers=layers, record=record, kept=kept
    )


@formula("values x bytes a value + their scales", units.BYTES)
def state_bytes(values: int, bytes_a_value: Exact, scales: Exact) -> Exact:
    return values * bytes_a_value + scales


def _kept(model: Model, part: CachePart, component: Component) -> Term:
    """What a layer keeps of a state, by the formula of its mixer."""
    head, word = _head_term(model, component), component.name.replace("_", " ")
    mixer = model.parts[part.name]
    values = kept_values(model, mixer, component.name) if isinstance(mixer, MIXERS) else None
    if values is None:
        values = of_model(model, f"values of the {word}", component.values)
    each, scales = head.inputs[1], head.inputs[2]
    more = Term(
        scales.label,
        Fraction(scales.value) * component.heads,
        units.BYTES,
        basis=scales.basis,
        span=scales.span,
        source=scales.source,
        note=scales.note,
    )
    return state_bytes.derive(
        f"bytes of the {word}", values=values, bytes_a_value=each, scales=more
    )


def kept_note(part: CachePart) -> str:
    if part.growth == "request":
        return f"{counted(part.limit, 'records')} once a request"
    if part.growth == "window":
        return f"at most {part.limit:,}"
    return f"one entry for {part.every:,}" if part.every > 1 else "all"


def copies_term(placement: Placement) -> Term:
    """Devices that hold each byte of a request's cache, as a mean over its bytes."""
    ranks = placement.degrees.size // placement.degrees.attention.dp
    length = held_tokens(placement.subject)
    on_devices = sum(
        (
            rank_record(s) * s.layers * ranks * _records_a_token(s.part, length)
            for stage in placement.stages
            for s in stage.cache
        ),
        start=Fraction(0),
    )
    one = sum(
        (record_bytes(p) * p.layers * _records_a_token(p, length) for p in placement.parts),
        start=Fraction(0),
    )
    if not one:
        return of_model(placement.subject.model, "copies of each byte of cache", 1)
    return copies.derive(
        "copies of each byte of cache",
        on_devices=_made_of(
            "bytes a token on the devices of one holder",
            on_devices,
            lambda: stage_token_terms(placement),
            f"{counted(ranks, 'ranks')} in each of {counted(len(placement.stages), 'stages')}",
        ),
        one_copy=_made_of(
            "bytes a token, one copy",
            one,
            lambda: tuple(part_terms(placement.subject.model, part) for part in placement.parts),
        ),
    )


def _made_of(
    label: str, value: Exact, inputs: Callable[[], tuple[Term, ...]], note: str = ""
) -> Term:
    """Bytes a token, added up already; what of is said when asked."""

    def whole() -> Term:
        return Term(label, value, _PER_TOKEN, inputs=inputs(), note=note)

    return deferred(label, value, _PER_TOKEN, whole)


def _records_a_token(part: CachePart, length: int) -> Fraction:
    """Records for each token: of what a request has once, its share at the request's length."""
    return Fraction(part.limit, length) if part.growth == "request" else Fraction(1, part.every)


def held_tokens(subject: Subject) -> int:
    """Tokens that a request in flight holds at its end, the mean over classes of requests."""
    workload = subject.workload
    if not workload.classes:
        return workload.held
    mean = Fraction(0)
    for share, kind in workload.in_flight():
        length = kind.context or (kind.prompt or 0) + (kind.output or 0)
        mean += share * length
    return -(-mean.numerator // mean.denominator)
