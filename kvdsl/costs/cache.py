"""The cache: bytes of a token and of a request, in all and on a rank.

Comes in: a placement. Goes out: terms, exact. A record counts its values and scales; the rank's
share follows from the cuts of heads (or of the latent) and of the sequence.
"""

from __future__ import annotations

from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import at_least, over, times
from kvdsl.costs.origins import of_layout, of_model, of_workload
from kvdsl.costs.weights import Exact, stored
from kvdsl.formulas import Term, formula, total
from kvdsl.placement.cache import CachePart, Component
from kvdsl.placement.placement import Placement, Stage
from kvdsl.placement.shares import CacheShard
from kvdsl.placement.subject import Subject
from kvdsl.spec.model import Model

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


@formula("bytes on all devices that hold it / bytes of one copy", units.NONE)
def copies(on_devices: Exact, one_copy: Exact) -> Exact:
    return over(on_devices, one_copy)


def component_bytes(component: Component) -> Exact:
    """Bytes of one head of a component."""
    return stored(component.format, 1, component.width)


def record_bytes(part: CachePart) -> Exact:
    """Bytes that one layer keeps of one token, one copy."""
    return sum((c.heads * component_bytes(c) for c in part.components), start=Fraction(0))


def _head_term(model: Model, component: Component) -> Term:
    form = component.format
    word = component.name.replace("_", " ")
    width = of_model(model, f"width of the {word}", component.width)
    bits = form.bits if form.bits is not None else component_bytes(component) / component.width
    value = Term(
        "bytes a value",
        bits,
        units.BYTES,
        basis="catalog" if form.catalog else "spec",
        span=form.at,
        source=form.source,
        note=form.title,
    )
    rest = component_bytes(component) - component.width * bits
    scales = Term("bytes of scales", rest, units.BYTES, basis=value.basis, span=form.at,
                  source=form.source, note=form.title)  # fmt: skip
    return head_bytes.derive(
        f"bytes of one {word}", width=width, bytes_a_value=value, scales=scales
    )


def part_terms(placement: Placement, part: CachePart) -> Term:
    """Bytes of a token in one part, one copy, all its layers."""
    model = placement.subject.model
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
    return total(f"bytes a token in {part.name}", terms)


def token_terms(placement: Placement) -> dict[str, Term]:
    """`kv.bytes_per_token` and `.bytes_per_token_unbounded`."""
    growing = [p for p in placement.parts if p.growth in ("token", "window")]
    endless = [p for p in growing if p.growth == "token"]
    found = {}
    for name, parts in (("bytes_per_token", growing), ("bytes_per_token_unbounded", endless)):
        label = f"KV {name.replace('_', ' ')}"
        terms = [part_terms(placement, p) for p in parts]
        found[f"kv.{name}"] = (
            total(label, terms)
            if terms
            else of_model(placement.subject.model, label, 0, _PER_TOKEN)
        )
    return found


def shard_term(subject: Subject, share: CacheShard) -> Term:
    """Bytes of a token of one part on a rank of a stage."""
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
    return total(f"bytes a token in {share.part.name} on a rank", terms)


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


def stage_token_term(placement: Placement, stage: Stage) -> Term:
    """Bytes of a token on a rank of a stage, windows not yet full."""
    subject = placement.subject
    shares = [s for s in stage.cache if s.part.growth in ("token", "window")]
    label = f"KV bytes a token on a rank of stage {stage.number}"
    terms = [shard_term(subject, share) for share in shares]
    return total(label, terms) if terms else of_model(subject.model, label, 0, _PER_TOKEN)


def rank_record(share: CacheShard) -> Fraction:
    """Bytes that one layer of a part keeps of one token on a rank (the mean over cp ranks)."""
    found = Fraction(0)
    for component, cut in share.heads:
        whole = Fraction(component_bytes(component) * component.heads)
        found += whole * cut.held
    return found * share.tokens.held


def request_on_rank(stage: Stage, tokens: Exact, page: int = 1) -> Fraction:
    """Bytes of a request of so many tokens on a rank of a stage; pages count whole."""
    found = Fraction(0)
    for share in stage.cache:
        kept = share.part.tokens(int(tokens)) if share.part.growth != "token" else tokens
        if page > 1:
            kept = -(-kept // page) * page
        found += rank_record(share) * share.layers * kept
    return found


def request_terms(placement: Placement, tokens: int) -> dict[str, Term]:
    """`kv.bytes_per_request` and `state.bytes_per_request` at a length."""
    model = placement.subject.model
    terms = []
    for part in placement.parts:
        record = Term(
            f"bytes a token and layer in {part.name}",
            record_bytes(part),
            _PER_TOKEN,
            inputs=tuple(_head_term(model, c) for c in part.components),
        )
        kept = of_workload(placement.subject, "tokens kept", part.tokens(tokens), units.TOKENS)
        terms.append(
            bytes_per_request.derive(
                f"a request in {part.name}",
                layers=of_model(model, "layers", part.layers),
                record=record,
                kept=kept,
            )
        )
    label = f"KV bytes of a request of {tokens:,} tok"
    return {
        "kv.bytes_per_request": total(label, terms)
        if terms
        else of_model(model, label, 0, units.BYTES),
        "state.bytes_per_request": of_model(model, "bytes of states of a request", 0, units.BYTES),
    }


def copies_term(placement: Placement) -> Term:
    """Devices that hold each byte of a request's cache, as a mean over its bytes."""
    ranks = placement.degrees.size // placement.degrees.attention.dp
    on_devices = sum(
        (rank_record(s) * s.layers * ranks for stage in placement.stages for s in stage.cache),
        start=Fraction(0),
    )
    one = sum((record_bytes(p) * p.layers for p in placement.parts), start=Fraction(0))
    if not one:
        return of_model(placement.subject.model, "copies of each byte of cache", 1)
    return copies.derive(
        "copies of each byte of cache",
        on_devices=Term(
            "bytes a token on the devices of one holder", on_devices, units.BYTES_PER_TOKEN,
            inputs=tuple(stage_token_term(placement, stage) for stage in placement.stages),
            note=f"{ranks} ranks in each of {len(placement.stages)} stages",
        ),
        one_copy=Term("bytes a token, one copy", one, units.BYTES_PER_TOKEN,
                      inputs=tuple(part_terms(placement, part) for part in placement.parts)),
    )  # fmt: skip


def held_tokens(subject: Subject) -> int:
    """Tokens that a request holds at its end, the mean over classes of requests."""
    workload = subject.workload
    if not workload.classes:
        return workload.held
    mean = Fraction(0)
    for kind in workload.classes.values():
        length = kind.context or (kind.prompt or 0) + (kind.output or 0)
        mean += Fraction(kind.share) * length
    return -(-mean.numerator // mean.denominator)
