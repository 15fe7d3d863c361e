"""Transfer: a request's cache handed from the pool that prefills to the one that decodes.

Comes in: the prefill pool's estimate and the deployment's `transfer`. Goes out: bytes of one
request, and the time that a user sees. Leaves out: set-up of the connector, block sizes, conversion
between layouts, and a latent that every decode rank pulls for itself.
"""

from __future__ import annotations

from kvdsl import units
from kvdsl.arithmetic import at_least, over, real, times
from kvdsl.costs import cache
from kvdsl.costs.collectives import Number
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import fixed, of_layout, of_model
from kvdsl.formulas import Term, assumed, formula, total
from kvdsl.placement.cache import cache_parts
from kvdsl.spec.deployment import Transfer
from kvdsl.spec.formats import Recipe, RecipeLine
from kvdsl.units import BYTES, TIME

_SOURCE = "Patel et al., Splitwise, arXiv 2311.18677: serial, or layer by layer behind the prefill"


@formula("latency + bytes / (lanes x bandwidth)", TIME, "point to point over several links")
def transfer_time(size: Number, lanes: Number, bandwidth: Number, latency: Number) -> float:
    return real(latency) + real(size) / real(times(lanes, bandwidth))


@formula(
    "the greater of transfer / layers and transfer - prefill x (layers - 1) / layers", TIME, _SOURCE
)
def visible_layerwise(transfer: float, prefill: float, layers: int) -> float:
    last = transfer / layers
    return last + at_least(transfer - prefill * (layers - 1) / layers - last, 0)


def transfer_terms(transfer: Transfer, sender: Estimate) -> dict[str, Term]:
    """`transfer.bytes` and `transfer.time` of one request."""
    size = _bytes(transfer, sender)
    link = transfer.over
    latency = assumed(f"latency of {link.title}", 0.0, TIME, "the link names no latency")
    if link.latency is not None:
        latency = leaf(link, "latency", f"latency of {link.title}", link.latency, TIME)
    bandwidth = leaf(
        link, "bandwidth", f"bandwidth of {link.title}", link.bandwidth, units.BYTE_RATE
    )
    whole = transfer_time.derive(
        "transfer of a request",
        size=size,
        lanes=_lanes(transfer, sender),
        bandwidth=bandwidth,
        latency=latency,
    )
    return {"transfer.bytes": size, "transfer.time": _visible(transfer, sender, whole)}


def _bytes(transfer: Transfer, sender: Estimate) -> Term:
    """One copy of the prompt's cache, in the format that it is sent in."""
    subject = sender.subject
    recipe = subject.kv
    if transfer.format is not None:
        recipe = Recipe(lines=(RecipeLine(format=transfer.format),))
    tokens = subject.workload.prompt_tokens
    terms = [
        cache.bytes_per_request.derive(
            f"the prompt in {part.name}",
            layers=of_model(subject.model, "layers", part.layers),
            record=Term(
                f"bytes a token and layer in {part.name}",
                cache.record_bytes(part),
                units.BYTES_PER_TOKEN,
                inputs=(sender.values["kv.bytes_per_token"],),
            ),
            kept=leaf(
                subject.workload,
                "prompt",
                "tokens of the prompt",
                part.tokens(tokens),
                units.TOKENS,
            ),
        )
        for part in cache_parts(subject.model, recipe)
    ]
    if not terms:
        return fixed("bytes of a request", 0, "the model keeps no cache", BYTES)
    return total("bytes of a request", terms)


def _lanes(transfer: Transfer, sender: Estimate) -> Term:
    degrees = sender.subject.degrees
    if transfer.lanes is not None:
        return leaf(transfer, "lanes", "lanes", transfer.lanes, units.NONE)
    devices = over(degrees.size * degrees.pp, degrees.attention.dp)
    return of_layout(sender.subject, "lanes", devices, "one a device that holds the request")


def _visible(transfer: Transfer, sender: Estimate, whole: Term) -> Term:
    if transfer.overlap == "none" or sender.prefill is None:
        return whole.named("visible transfer")
    return visible_layerwise.derive(
        "visible transfer",
        transfer=whole,
        prefill=sender.prefill.service,
        layers=of_model(sender.subject.model, "layers", sender.subject.model.layers),
    )
