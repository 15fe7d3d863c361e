"""Exchanges: every collective of a pass through a stage, from the meshes alone.

A contraction over a split dimension ends in an all-reduce over that axis. Where two modules split
the requests differently, the tokens are gathered in and scattered out, or sent to the experts and
back. A stage boundary is a send. Not its job: bytes and times (costs).

Payload convention (as NCCL's tests print it): the whole buffer of an all-reduce, the gathered
size of an all-gather, the input of a reduce-scatter, one rank's buffer of an all-to-all.
Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053 (two reductions a layer); DeepEP README
(dispatch and combine); arXiv 2507.07120 (Helix exchange).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from kvdsl.placement.degrees import Degrees
from kvdsl.placement.shares import Spread, spread
from kvdsl.placement.topology import Reach
from kvdsl.spec.engine import Engine
from kvdsl.spec.model import Gqa, Mla, Model, Moe
from kvdsl.units import counted


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate: equal groups of a stage by how far they reach. `places` is one of
    them, as devices in line."""

    axis: str
    size: int
    stage: int
    reach: Reach
    count: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """`count` collectives in a pass through `stage`, each over every group of `axis`.

    `tokens` tokens for each token of a DP rank times `width` values make its payload, plus
    `extra` bytes a token that are not activations; `elements` says what the values are."""

    kind: str
    module: str
    axis: str
    stage: int
    count: int
    tokens: Fraction
    width: Fraction
    elements: str
    why: str
    extra: int = 0
    role: str = ""
    """`dispatch` or `combine` where tokens go to experts and back."""
    copies: int = 1
    """Experts that each token goes to; `tokens` counts all of its copies."""
    most_groups: int = 0
    """Groups of experts that a token's experts lie in, at most; 0: any."""


def exchanges(
    model: Model, degrees: Degrees, engine: Engine | None, stage: int, layers: dict[str, int]
) -> list[Exchange]:
    """All exchanges of a stage. `layers` says how many layers of it have each part."""
    found: list[Exchange] = []
    if stage == 0:
        found.extend(_placed(e, stage, 1) for e in _embedding(model, degrees, engine))
    for name, count in layers.items():
        part = model.parts[name]
        if isinstance(part, Moe):
            found.extend(_experts(model, degrees, engine, part))
        elif isinstance(part, Gqa | Mla):
            found.extend(_attention(model, degrees, part))
        elif part.form in ("gated", "plain"):
            found.extend(_dense(model, degrees, spread("ffn", degrees, engine), "ffn"))
        else:
            found.extend(_attention_reduce(model, degrees))
        found = [_placed(e, stage, count) for e in found]
    if stage == degrees.pp - 1:
        found.extend(_placed(e, stage, 1) for e in _head(model, degrees, engine))
    if stage < degrees.pp - 1:
        found.append(
            Exchange(
                "send",
                "stage",
                "pp",
                stage,
                1,
                Fraction(1),
                Fraction(model.hidden),
                "hidden state",
                "the next stage needs the hidden state",
            )
        )
    return [e for e in found if e.count]


def _placed(exchange: Exchange, stage: int, count: int) -> Exchange:
    """Set the stage and how often; what has been set stays."""
    if exchange.stage >= 0:
        return exchange
    return replace(exchange, stage=stage, count=exchange.count * count)


def _one(
    kind: str,
    module: str,
    axis: str,
    tokens: Fraction | int,
    width: int | Fraction,
    elements: str,
    why: str,
    extra: int = 0,
) -> Exchange:
    return Exchange(
        kind, module, axis, -1, 1, Fraction(tokens), Fraction(width), elements, why, extra
    )


def _attention(model: Model, degrees: Degrees, part: Gqa | Mla) -> Iterator[Exchange]:
    a = degrees.attention
    if a.cp > 1:
        width = part.kv_rank if isinstance(part, Mla) else part.value_width
        heads = Fraction(part.query_heads, a.tp)
        yield _one(
            "all_to_all",
            "attention",
            "attention.cp",
            1,
            heads * width,
            "partial outputs",
            "each rank has seen its run of the sequence only",
            extra=int(-(-heads // 1)) * 4,
        )
    yield from _attention_reduce(model, degrees)


def _attention_reduce(model: Model, degrees: Degrees) -> Iterator[Exchange]:
    a = degrees.attention
    axes = [axis for axis, size in (("cp", a.cp), ("tp", a.tp)) if size > 1]
    if axes:
        yield _one(
            "all_reduce",
            "attention",
            "attention." + "+".join(axes),
            1,
            model.hidden,
            "hidden state",
            "the output projection contracts over split heads",
        )


def _dense(model: Model, degrees: Degrees, lies: Spread, word: str) -> Iterator[Exchange]:
    """A width-cut module: gather the requests that its copies share, reduce, scatter them back."""
    yield from _shared_out(model, degrees, word, lies.mesh, lies.dp, lies.tp)


def _shared_out(
    model: Model, degrees: Degrees, module: str, mesh: str, dp: int, tp: int
) -> Iterator[Exchange]:
    have = degrees.attention.dp
    hidden = model.hidden
    if have > dp:
        ratio = Fraction(have, dp)
        yield _one(
            "all_gather",
            module,
            "attention.dp",
            ratio,
            hidden,
            "hidden state",
            f"{counted(have, 'DP ranks')} bring their requests to {counted(dp, 'copies')}",
        )
        yield _one(
            "reduce_scatter",
            module,
            "attention.dp",
            ratio,
            hidden,
            "hidden state",
            "the sums go back to the rank that owns the request",
        )
        if Fraction(tp) > ratio and degrees.attention.tp > 1:
            yield _one(
                "all_reduce",
                module,
                "attention.tp",
                1,
                hidden,
                "hidden state",
                "the rest of the sum lies on the ranks of the DP rank",
            )
        return
    if tp > 1:
        yield _one(
            "all_reduce",
            module,
            f"{mesh}.tp",
            Fraction(have, dp),
            hidden,
            "hidden state",
            "the second matrix contracts over a split width",
        )
    if dp > have:
        yield _one(
            "all_gather",
            module,
            f"{mesh}.dp",
            1,
            hidden,
            "hidden state",
            "each copy has done a part of the requests",
        )


def _experts(
    model: Model, degrees: Degrees, engine: Engine | None, part: Moe
) -> Iterator[Exchange]:
    e, have = degrees.experts, degrees.attention.dp
    shared = spread("shared_experts", degrees, engine)
    if have == 1:
        # Every rank has all tokens: each runs its experts on them, and one sum joins it all.
        if degrees.size > 1:
            yield _one(
                "all_reduce",
                "routed_experts",
                "stage",
                1,
                model.hidden,
                "hidden state",
                "each rank has run its experts on all tokens",
            )
        if part.shared_width and shared.tp > 1 and shared.tp != degrees.size:
            yield from _dense(model, degrees, shared, "shared_experts")
        return
    if e.ep > 1:
        yield from _sent_to_experts(model, degrees, part)
    else:
        yield from _shared_out(model, degrees, "routed_experts", "experts", 1, e.tp)
    if part.shared_width:
        yield from _dense(model, degrees, shared, "shared_experts")


def _sent_to_experts(model: Model, degrees: Degrees, part: Moe) -> Iterator[Exchange]:
    """Each token to the ranks of its experts, and back."""
    e = degrees.experts
    sent = Fraction(part.active, degrees.attention.tp)
    width = part.latent or model.hidden
    for word, why in (
        ("dispatch", "each token goes to the ranks that hold its experts"),
        ("combine", "and its sums come back"),
    ):
        sending = _one(
            "all_to_all",
            "routed_experts",
            "experts.ep",
            sent,
            width,
            f"{word} of hidden state",
            why,
        )
        most = part.top_groups if part.groups > part.top_groups else 0
        yield replace(sending, role=word, copies=part.active, most_groups=most)
    if e.tp > 1:
        yield _one(
            "all_reduce",
            "routed_experts",
            "experts.tp",
            sent,
            width,
            "hidden state",
            "an expert's second matrix contracts over a split width",
        )
    if degrees.attention.tp > 1:
        yield _one(
            "all_gather",
            "routed_experts",
            "attention.tp",
            1,
            model.hidden,
            "hidden state",
            "each rank of a DP rank has sent a part of its tokens",
        )


def _embedding(model: Model, degrees: Degrees, engine: Engine | None) -> Iterator[Exchange]:
    v, have = spread("embedding", degrees, engine), degrees.attention.dp
    if v.tp == 1:
        return
    if have > v.dp:
        yield _one(
            "reduce_scatter",
            "embedding",
            "attention.dp",
            Fraction(have, v.dp),
            model.hidden,
            "hidden state",
            "each rank has looked up its vocabulary rows",
        )
        if degrees.attention.tp > 1:
            yield _one(
                "all_reduce",
                "embedding",
                "attention.tp",
                1,
                model.hidden,
                "hidden state",
                "the rest of the rows lies on the ranks of the DP rank",
            )
        return
    yield _one(
        "all_reduce",
        "embedding",
        f"{v.mesh}.tp",
        Fraction(have, v.dp),
        model.hidden,
        "hidden state",
        "each rank has looked up its vocabulary rows",
    )


def _head(model: Model, degrees: Degrees, engine: Engine | None) -> Iterator[Exchange]:
    v, have = spread("head", degrees, engine), degrees.attention.dp
    if v.tp == 1:
        return
    if have > v.dp:
        yield _one(
            "all_gather",
            "head",
            "attention.dp",
            Fraction(have, v.dp),
            model.hidden,
            "hidden state",
            "every rank scores all requests on its vocabulary rows",
        )
    yield _one(
        "all_gather",
        "head",
        f"{v.mesh}.tp",
        max(Fraction(1), Fraction(have, v.dp)),
        model.vocab,
        "logits",
        "a token is chosen over the whole vocabulary",
    )
