"""Exchanges: every collective of a pass through a stage, from the meshes alone.

A contraction over a split dimension ends in an all-reduce over that axis. Where two modules split
the requests differently, the tokens are gathered in and scattered out, or sent to the experts and
back. A stage boundary is a send. Not its job: bytes and times (costs).

Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053 (two reductions a layer); DeepEP README
(dispatch and combine); attention's own are in `attention_exchanges`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from kvdsl.placement.attention_exchanges import attention, output_sum
from kvdsl.placement.degrees import Degrees
from kvdsl.placement.exchange import Exchange, Group, Owners, one, owners
from kvdsl.placement.shares import Spread, spread
from kvdsl.spec.backends import way_of
from kvdsl.spec.engine import Engine
from kvdsl.spec.model import Gqa, Mla, Model, Moe
from kvdsl.units import counted

__all__ = ["Exchange", "Group", "exchanges"]


def exchanges(
    model: Model,
    degrees: Degrees,
    engine: Engine | None,
    stage: int,
    layers: Mapping[str, int],
    before_experts: Mapping[str, int],
) -> list[Exchange]:
    """All exchanges of a stage. `layers` says how many layers of it have each part,
    `before_experts` how many of those have experts too."""
    found: list[Exchange] = []
    for own in owners(degrees):
        scattered = before_experts if _scatters(degrees, engine, own) else {}
        made = list(_of_layers(model, degrees, engine, layers, scattered, own))
        if stage == 0:
            made = [*((e, 1) for e in _embedding(model, degrees, engine, own)), *made]
        found.extend(
            replace(e, count=e.count * times, stage=stage, phase=e.phase or own.phase)
            for e, times in made
        )
    last = degrees.pp - 1
    ends = _head(model, degrees, engine) if stage == last else _boundary(model, degrees, engine)
    found.extend(e if e.stage >= 0 else replace(e, stage=stage) for e in ends)
    # What gathers what comes in is of the next stage, and listed there.
    if stage:
        found.extend(replace(e, stage=stage) for e in _received(model, degrees, engine))
    return [e for e in found if e.count]


def _of_layers(
    model: Model,
    degrees: Degrees,
    engine: Engine | None,
    layers: Mapping[str, int],
    scattered: Mapping[str, int],
    own: Owners,
) -> Iterator[tuple[Exchange, int]]:
    """Each exchange and how many layers have it."""
    for name, count in layers.items():
        part = model.parts[name]
        if isinstance(part, Moe):
            made = _experts(model, degrees, engine, part, own)
        elif isinstance(part, Gqa | Mla):
            made = attention(degrees, engine, part, own)
        elif part.form in ("gated", "plain"):
            made = _dense(model, degrees, spread("ffn", degrees, engine), "ffn", own)
        else:
            made = iter(())
        yield from ((e, count) for e in made)
        if not isinstance(part, Moe) and part.form not in ("gated", "plain"):
            yield from ((e, 1) for e in output_sum(model, degrees, scattered.get(name, 0), count))


def _scatters(degrees: Degrees, engine: Engine | None, own: Owners) -> bool:
    """Whether tokens stay cut over tp between attention and experts."""
    policy = engine.scattered_output if engine is not None else False
    sent = own.count > 1 and degrees.attention.tp > 1 and degrees.experts.ep > 1
    return policy and sent and degrees.pp == 1 and degrees.attention.cp == 1


def _boundary(model: Model, degrees: Degrees, engine: Engine | None) -> Iterator[Exchange]:
    """What goes to the next stage. With the residual each rank of a TP group sends its slice."""
    width, what = Fraction(model.hidden), "hidden state"
    if engine is not None and engine.stage_sends == "hidden_residual":
        width, what = 2 * width / degrees.attention.tp, "hidden state and residual"
    yield one("send", "stage", "pp", 1, width, what, "the next stage needs the hidden state")


def _received(model: Model, degrees: Degrees, engine: Engine | None) -> Iterator[Exchange]:
    if engine is None or engine.stage_sends != "hidden_residual" or degrees.attention.tp == 1:
        return
    yield one(
        "all_gather",
        "stage",
        "attention.tp",
        1,
        2 * model.hidden,
        "hidden state and residual",
        "each rank has received its slice from the stage before",
    )


def _dense(
    model: Model, degrees: Degrees, lies: Spread, word: str, own: Owners
) -> Iterator[Exchange]:
    """A width-cut module: gather the requests that its copies share, reduce, scatter them back."""
    yield from _shared_out(model, degrees, word, lies, own)


def _shared_out(
    model: Model, degrees: Degrees, module: str, lies: Spread, own: Owners
) -> Iterator[Exchange]:
    have, hidden = own.count, model.hidden
    mesh, dp, tp = lies.mesh, lies.parts(have), lies.tp
    if have > dp:
        ratio = Fraction(have, dp)
        yield one(
            "all_gather",
            module,
            own.axis,
            ratio,
            hidden,
            "hidden state",
            f"{counted(have, 'ranks')} bring their own tokens to {counted(dp, 'copies')}",
        )
        yield one(
            "reduce_scatter",
            module,
            own.axis,
            ratio,
            hidden,
            "hidden state",
            "the sums go back to the rank that owns the request",
        )
        if Fraction(tp) > ratio and degrees.attention.tp > 1:
            yield one(
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
        yield one(
            "all_reduce",
            module,
            f"{mesh}.tp",
            Fraction(have, dp),
            hidden,
            "hidden state",
            "the second matrix contracts over a split width",
        )
    if dp > have:
        yield one(
            "all_gather",
            module,
            f"{mesh}.dp",
            1,
            hidden,
            "hidden state",
            "each copy has done a part of the requests",
        )


def _experts(
    model: Model, degrees: Degrees, engine: Engine | None, part: Moe, own: Owners
) -> Iterator[Exchange]:
    e, have = degrees.experts, own.count
    shared = spread("shared_experts", degrees, engine)
    if have == 1:
        # Every rank has all tokens: each runs its experts on them, and one sum joins it all.
        if degrees.size > 1:
            yield one(
                "all_reduce",
                "routed_experts",
                "stage",
                1,
                model.hidden,
                "hidden state",
                "each rank has run its experts on all tokens",
            )
        if part.shared_width and shared.tp > 1 and shared.tp != degrees.size:
            yield from _dense(model, degrees, shared, "shared_experts", own)
        return
    if e.ep > 1 and engine is not None and way_of(engine.all_to_all) == "gather":
        yield from _gathered_for_experts(model, degrees, part)
    elif e.ep > 1:
        yield from _sent_to_experts(model, degrees, part)
    else:
        lies = Spread("experts", 1, e.tp)
        yield from _shared_out(model, degrees, "routed_experts", lies, own)
    if part.shared_width:
        yield from _dense(model, degrees, shared, "shared_experts", own)


def _sent_to_experts(model: Model, degrees: Degrees, part: Moe) -> Iterator[Exchange]:
    """Each token to the ranks of its experts, and back."""
    sent = Fraction(part.active, degrees.attention.tp)
    width = part.latent or model.hidden
    for word, why in (
        ("dispatch", "each token goes to the ranks that hold its experts"),
        ("combine", "and its sums come back"),
    ):
        sending = one(
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
    yield from _around_experts(model, degrees, sent, width)


def _around_experts(
    model: Model, degrees: Degrees, tokens: Fraction, width: int
) -> Iterator[Exchange]:
    """The sum inside each expert, and the tokens put together again on a DP rank."""
    if degrees.experts.tp > 1:
        yield one(
            "all_reduce",
            "routed_experts",
            "experts.tp",
            tokens,
            width,
            "hidden state",
            "an expert's second matrix contracts over a split width",
        )
    if degrees.attention.tp > 1:
        yield one(
            "all_gather",
            "routed_experts",
            "attention.tp",
            1,
            model.hidden,
            "hidden state",
            "each rank of a DP rank has sent a part of its tokens",
        )


def _gathered_for_experts(model: Model, degrees: Degrees, part: Moe) -> Iterator[Exchange]:
    """Every token to every rank, whatever its experts; each rank's sums scattered back."""
    e, width = degrees.experts, part.latent or model.hidden
    gathered = Fraction(e.ep, degrees.attention.tp)
    for kind, why in (
        ("all_gather", "every rank receives the tokens of all, and runs its own experts on them"),
        ("reduce_scatter", "the sums go back to the rank that owns the token"),
    ):
        yield one(kind, "routed_experts", "experts.ep", gathered, width, "hidden state", why)
    yield from _around_experts(model, degrees, gathered, width)


def _embedding(
    model: Model, degrees: Degrees, engine: Engine | None, own: Owners
) -> Iterator[Exchange]:
    v, have = spread("embedding", degrees, engine), own.count
    parts = v.parts(have)
    if v.tp == 1:
        return
    if have > parts:
        yield one(
            "reduce_scatter",
            "embedding",
            own.axis,
            Fraction(have, parts),
            model.hidden,
            "hidden state",
            "each rank has looked up its vocabulary rows",
        )
        if degrees.attention.tp > 1:
            yield one(
                "all_reduce",
                "embedding",
                "attention.tp",
                1,
                model.hidden,
                "hidden state",
                "the rest of the rows lies on the ranks of the DP rank",
            )
        return
    yield one(
        "all_reduce",
        "embedding",
        f"{v.mesh}.tp",
        Fraction(have, parts),
        model.hidden,
        "hidden state",
        "each rank has looked up its vocabulary rows",
    )


def _head(model: Model, degrees: Degrees, engine: Engine | None) -> Iterator[Exchange]:
    v, have = spread("head", degrees, engine), degrees.attention.dp
    if v.tp == 1:
        return
    if have > v.dp:
        yield one(
            "all_gather",
            "head",
            "attention.dp",
            Fraction(have, v.dp),
            model.hidden,
            "hidden state",
            "every rank scores all requests on its vocabulary rows",
        )
    yield one(
        "all_gather",
        "head",
        f"{v.mesh}.tp",
        max(Fraction(1), Fraction(have, v.dp)),
        model.vocab,
        "logits",
        "a token is chosen over the whole vocabulary",
    )
