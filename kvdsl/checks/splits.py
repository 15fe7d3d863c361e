"""Splits: the same devices under a TP that divides, the rest of them as stages or as replicas.

Comes in: a study whose layout does not divide. Goes out: the widths of TP that do, and layouts over
as many devices, each estimated. Not its job: saying what does not divide (heads, widths, blocks).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvdsl.checks.study import Study, Suggestion
from kvdsl.placement.degrees import Degrees, ExpertAxes, uniform
from kvdsl.spec.model import Gqa, Mla, Moe
from kvdsl.spelling import in_a_row
from kvdsl.units import Quantity, shown

WIDEST = 1_024
"""The widest TP that is tried: heads are counted in billions by mistake."""

TRIED = 2
"""Widths of TP that are estimated, the widest ones: narrower ones leave less room for the cache."""

TOLD = 3
"""Layouts that a finding lists, those with the most room."""

SHOWS = ("kv.tokens", "kv.sequences", "decode.tpot")


def widths(study: Study) -> tuple[int, ...]:
    """TP over which everything divides, up to the devices that there are: heads, feed-forward,
    vocabulary, weight blocks, as the engine has them."""
    subject = study.subject
    heads = [p.query_heads for p in subject.model.parts.values() if isinstance(p, Gqa | Mla)]
    most = min(subject.topology.devices, min(heads, default=WIDEST), WIDEST)
    even = (tp for tp in range(1, most + 1) if all(h % tp == 0 for h in heads))
    return tuple(tp for tp in even if any(study.stands(d) for d in _over(study, tp)))


def listed(numbers: tuple[int, ...]) -> str:
    """`1, 2 or 4`."""
    return in_a_row((f"{n:,}" for n in numbers), "or")


@dataclass(frozen=True, slots=True)
class Splits:
    """Other layouts of the same devices, the one with the most room first."""

    found: tuple[Suggestion, ...]

    @property
    def best(self) -> Suggestion | None:
        return self.found[0] if self.found else None

    @property
    def text(self) -> str:
        """What each way holds: `1,024 tok as tp = 2; pp = 3`."""
        ways = (f"{shown(_tokens(one))} as `{one.text}`" for one in self.found[:TOLD])
        return "; ".join(ways)


def _tokens(made: Suggestion) -> Quantity:
    return made.estimate.values["kv.tokens"].quantity


def splits(study: Study, among: tuple[int, ...]) -> Splits:
    """The devices that the layout uses under TP of `among`, with stages or replicas."""
    if study.closed:
        return Splits(())
    devices = study.subject.degrees.devices
    whole = [tp for tp in among if devices % tp == 0 and tp != devices][-TRIED:]
    made = [_made(study, d) for tp in whole for d in _filled(study, tp, devices // tp)]
    found: dict[tuple[int, int, int], Suggestion] = {}
    for one in sorted((one for one in made if one is not None), key=_rank):
        d = one.estimate.subject.degrees
        found.setdefault((d.size, d.pp, d.replicas), one)
    return Splits(tuple(found.values()))


def _rank(made: Suggestion) -> tuple[float, int]:
    """The most room first, then the widest TP: it waits for the fewest stages."""
    return -float(_tokens(made).value), -made.estimate.subject.degrees.size


def _filled(study: Study, tp: int, times: int) -> Iterator[Degrees]:
    for degrees in _over(study, tp):
        yield replace(degrees, pp=times)
        yield replace(degrees, replicas=times)


def _over(study: Study, tp: int) -> Iterator[Degrees]:
    """Everything cut so many ways; experts whole on a rank where there are any."""
    plain = uniform(tp)
    yield plain
    if tp > 1 and any(isinstance(p, Moe) for p in study.subject.model.parts.values()):
        yield replace(plain, experts=ExpertAxes(ep=tp))


def _made(study: Study, degrees: Degrees) -> Suggestion | None:
    found = study.under(degrees)
    if found is None or not found.fits:
        return None
    parts = (("TP", degrees.size), ("EP", degrees.experts.ep), ("PP", degrees.pp),
             ("replicas", degrees.replicas))  # fmt: skip
    title = " x ".join(f"{word}={n}" for word, n in parts if n > 1 or word == "TP")
    return Suggestion(title, degrees.text(), found, SHOWS)
