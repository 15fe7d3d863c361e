"""Codecs: what a lossless format costs where bytes are moved, and whether it gives them back.

Comes in: a format that codes another, the bytes that are moved and the devices at both ends. Goes
out: the times of encoding and decoding. Speeds are of plain bytes and of one device.
"""

from __future__ import annotations

from kvdsl.arithmetic import real
from kvdsl.costs.collectives import Number
from kvdsl.costs.memory import leaf
from kvdsl.formulas import Term, formula
from kvdsl.spec.formats import Format
from kvdsl.units import BYTE_RATE, NONE, TIME


@formula(
    "bytes moved x ratio / (devices x speed of one)",
    TIME,
    "SplitZip, arXiv 2605.01708: encoded where it was computed, decoded where it is used",
)
def codec_time(size: Number, ratio: Number, devices: Number, speed: Number) -> float:
    return real(size) * real(ratio) / (real(devices) * real(speed))


def codec_steps(
    form: Format | None, one: Term, size: Term, devices: tuple[Term, Term]
) -> tuple[Term | None, Term | None]:
    """Encoding of one copy at the sender and decoding of all that arrives; None where the format is
    no codec or names no speed."""
    if form is None or form.of is None:
        return None, None
    ratio = leaf(form, "ratio", "ratio", form.ratio or 1, NONE)
    encode = decode = None
    if form.encode is not None:
        speed = leaf(form, "encode", "encodes, a device", form.encode, BYTE_RATE)
        encode = codec_time.derive(
            "encoding", size=one, ratio=ratio, devices=devices[0], speed=speed
        )
    if form.decode is not None:
        speed = leaf(form, "decode", "decodes, a device", form.decode, BYTE_RATE)
        decode = codec_time.derive(
            "decoding", size=size, ratio=ratio, devices=devices[1], speed=speed
        )
    return encode, decode


def gives_back(form: Format, kept: Format) -> bool:
    """Whether what is kept in one format comes back bit for bit from another: the same numbers, or
    a lossless codec of them."""
    if same_numbers(form, kept):
        return True
    return form.lossless and form.of is not None and same_numbers(form.of, kept)


def same_numbers(form: Format, other: Format) -> bool:
    """Formats that store a number in the same bits, whatever they are called."""

    def told(one: Format) -> tuple[object, ...]:
        inner = one.of.title if one.of is not None else None
        return (one.bits, one.scale, one.zero, one.block, one.ratio, one.arithmetic, inner)

    return told(form) == told(other)
