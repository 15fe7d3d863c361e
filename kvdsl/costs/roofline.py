"""The roofline: bytes over a device's bandwidth, work over its peak.

Comes in: a device, bytes or work. Goes out: times as terms, with what the device says of itself.
"""

from __future__ import annotations

from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import real
from kvdsl.costs.origins import leaf
from kvdsl.formulas import Term, assumed, formula
from kvdsl.spec.formats import Format
from kvdsl.spec.hardware import Device
from kvdsl.units import TIME, WORK_RATE

Number = int | Fraction | float
_ROOFLINE = "Williams et al., Roofline, CACM 52(4), 2009"


@formula("bytes read / bandwidth", TIME, _ROOFLINE)
def read_time(size: Number, bandwidth: Number) -> float:
    return real(size) / real(bandwidth)


@formula("work / peak", TIME, _ROOFLINE)
def compute_time(work: Number, peak: Number) -> float:
    return real(work) / real(peak)


def bandwidth_of(device: Device) -> Term:
    return leaf(device, "bandwidth", f"memory bandwidth of {device.title}",
                device.bandwidth, units.BYTE_RATE)  # fmt: skip


def peak_of(device: Device, form: Format) -> Term | None:
    """The peak of a format's arithmetic; where the device has none, of bf16 or its widest row."""
    word = form.arithmetic
    if word in device.compute:
        value = device.compute[word]
        return _peak_term(device, word, value, "")
    for other in ("bf16", "fp16", "fp32"):
        if other in device.compute:
            note = f"{device.title} has no {word} arithmetic, so {other} stands for it"
            return _peak_term(device, other, device.compute[other], note)
    return None


def computed(device: Device, label: str, work: Term, peak: Term | None) -> Term:
    """The time of work; where no peak is known it is taken to cost none."""
    if peak is not None:
        return compute_time.derive(label, work=work, peak=peak)
    note = f"{device.title} names no peaks: arithmetic is taken to cost no time"
    return assumed(label, 0.0, TIME, note)


def _peak_term(device: Device, word: str, value: int | Fraction, note: str) -> Term:
    term = leaf(device, "compute", f"{word} peak of {device.title}", value, WORK_RATE)
    if note:
        return assumed(term.label, value, WORK_RATE, note)
    return term
