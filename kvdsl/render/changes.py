"""Words of a difference that its forms share: headlines, rows, the tree of the spec's changes.

Comes in: a difference. Goes out: plain texts and quantities, nothing escaped. Not its job: any one
form (comment, terminal_changes, machine_changes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kvdsl.difference import (
    DeploymentChange,
    Difference,
    FigureChange,
    FindingChange,
    Flip,
    Mover,
    SpecChange,
    ValueChange,
)
from kvdsl.units import Quantity, Value, shown

LEADING = (
    ("kv.tokens", "decode.tpot", "prefill.ttft", "cost.per_mtok", "decode.throughput"),
    ("kv.sequences", "memory.weights", "gpus", "kv.copies", "memory.kv", "kv.bytes_per_token"),
)
"""What a user or a bill sees, then what is behind it: a row shows one of the first if it moved."""

TELLING = 0.001
"""A change of less than this part leads only where no other is larger."""

NOTHING = "-"

TROUBLED: Mapping[str, str] = MappingProxyType(
    {"after": "", "both": " (so before, too)", "before": " (before; now it is planned)"}
)
"""What stands behind a fault, by the side that has it."""


def leading(change: DeploymentChange) -> ValueChange | None:
    """The value that a row shows: the largest worsening of what a user sees, else the largest
    change of it, else one of what is behind it."""
    known = {value.name: value for value in change.values}
    groups = [[known[name] for name in names if name in known] for names in LEADING]
    moved = next((g for g in groups if any(abs(v.ratio or 0) >= TELLING for v in g)), None)
    first = moved or [v for group in groups for v in group] or list(change.values)[:1]
    if not first:
        return None
    if change.state not in ("changed", "renamed"):
        return first[0]
    return max(first, key=lambda v: (v.worth == "worse", round(abs(v.ratio or 0) / TELLING)))


def telling(change: DeploymentChange) -> tuple[ValueChange, ...]:
    """Values that a table for people shows; where none of them moved, all."""
    return tuple(value for value in change.values if value.main) or change.values


def percent(ratio: float) -> str:
    """`+4.2 %`, `-50 %`; a doubling and more as `x 2.5`, which reads better than +150 %."""
    if ratio >= 1:
        return f"x {ratio + 1:.3g}"
    size = abs(ratio) * 100
    return f"{'+' if ratio > 0 else '-'}{f'{size:.3g}' if size >= 0.01 else '< 0.01'} %"


def figure(quantity: Quantity | None) -> str:
    return NOTHING if quantity is None else shown(quantity)


def sides(value: ValueChange) -> tuple[str, str]:
    """Before and after; in full where they would look alike."""
    texts = figure(value.before), figure(value.after)
    if texts[0] == texts[1] and value.before and value.after:
        return f"{float(value.before.value):.9g}", f"{float(value.after.value):.9g}"
    return texts


def delta(value: ValueChange) -> str:
    """`-701,174 tok, -50 %`."""
    by, ratio = value.by, value.ratio
    if by is None:
        return "new" if value.before is None else "gone"
    gap: Value = by.value if by.value > 0 else -by.value
    size = Quantity(gap, by.dimension)
    text = f"{'+' if by.value > 0 else '-'}{shown(size)}"
    return text if ratio is None else f"{text}, {percent(ratio)}"


def short_delta(value: ValueChange) -> str:
    ratio = value.ratio
    return delta(value) if ratio is None else percent(ratio)


@dataclass(frozen=True, slots=True)
class Headline:
    """The change that matters, and the deployment that it is about."""

    text: str
    deployment: str = ""


def headline(difference: Difference) -> Headline:
    """What broke, with the largest change beside it; else the largest change."""
    broken = [(c, f) for c in difference.deployments for f in c.flips
              if f.broken and f.keyword == "require"]  # fmt: skip
    if broken:
        first = broken[0][0]
        alone = all(change is first for change, _ in broken)
        text = counted(len(broken), "requirement breaks", "requirements break")
        value = leading(first) if alone and first.state in ("changed", "renamed") else None
        more = f"; {value.label} {short_delta(value)}" if value and value.ratio else ""
        return Headline(text + more, first.name if alone else "")
    after = [t for t in difference.troubles if t.stands]
    if after:
        return Headline(counted(len(after), "file cannot be planned", "files cannot be planned"))
    changed = [(c, v) for c in difference.deployments
               if c.state in ("changed", "renamed") and (v := leading(c)) is not None]  # fmt: skip
    if changed:
        change, value = max(changed, key=lambda p: (p[1].worth == "worse", abs(p[1].ratio or 0)))
        text = f"{value.label} {' to '.join(sides(value))}"
        if value.ratio is not None:
            text += f" ({percent(value.ratio)})"
        return Headline(text, change.name)
    return Headline(summary(difference))


def counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def summary(difference: Difference) -> str:
    """`3 deployments changed, 1 added, 12 as before`; with fleets among them each says what it is:
    `1 fleet added, 3 deployments removed`."""
    states = ("changed", "renamed", "added", "mended", "removed", "unreadable")
    mixed = len({change.kind for change in difference.deployments}) > 1
    said: list[str] = []
    for state in states:
        kinds = [change.kind for change in difference.deployments if change.state == state]
        if kinds and (mixed or not said):
            each = (k for k in ("deployment", "fleet") if k in kinds)
            nouns = (counted(kinds.count(kind), kind, f"{kind}s") for kind in each)
            said.append(f"{' and '.join(nouns)} {state}")
        elif kinds:
            said.append(f"{len(kinds):,} {state}")
    if difference.figures:
        said.append(counted(len(difference.figures), "figure of the catalog moved",
                            "figures of the catalog moved"))  # fmt: skip
    standing = sum(trouble.stands for trouble in difference.troubles)
    gone = len(difference.troubles) - standing
    if standing:
        said.append(counted(standing, "file cannot be planned", "files cannot be planned"))
    if gone:
        said.append(counted(gone, "file", "files") + " could not be planned before")
    if difference.unchanged and said:
        said.append(f"{difference.unchanged:,} as before")
    return ", ".join(said) or "nothing changed"


def reason(movers: Sequence[Mover]) -> str:
    """`room for cache 31.2 GB to 20.1 GB, from weights 25 GB to 50 GB`."""
    return ", from ".join(map(_moved, movers))


def _moved(mover: Mover) -> str:
    before, after = shown(mover.before), shown(mover.after)
    if mover.was:
        return f"{mover.was} {before} to {mover.label} {after}"
    return f"{mover.label} {before} to {after}"


def causes(value: ValueChange) -> str:
    """How much the author did and how much the catalog, where both changed."""
    if value.between is None or value.before is None or value.after is None:
        return ""
    author = ValueChange(value.name, value.label, value.before, value.between, "neutral")
    catalog = ValueChange(value.name, value.label, value.between, value.after, "neutral")
    return f"the spec {short_delta(author)}, the catalog {short_delta(catalog)}"


def flip_text(flip: Flip) -> str:
    """`held at 1.40 Mtok, fails at 0.70 Mtok`; `still fails: 45 ms, now 50 ms`."""
    reason = f", waived: {flip.waived}" if flip.waived else ""
    if flip.before == flip.after:
        return f"{_still(flip)}{reason}"
    words = {"holds": "held", "fails": "failed", "unanswered": "was not answered",
             "skipped": "did not apply", "waived": "was waived", None: "is new"}  # fmt: skip
    now = {"holds": "holds", "fails": "fails", "unanswered": "is not answered",
           "skipped": "does not apply", "waived": "fails", None: "is gone"}  # fmt: skip
    before, after = words[flip.before], now[flip.after]
    if flip.value_before is not None:
        before += f" at {shown(flip.value_before)}"
    if flip.value_after is not None:
        after += f" at {shown(flip.value_after)}"
    return f"{before}, {after}{_against(flip)}{reason}"


def _still(flip: Flip) -> str:
    """`still fails: 45 ms, now 50 ms`; where another value is asked than before, its own alone."""
    before, after = flip.value_before, flip.value_after
    if before is None or after is None:
        return "is still not answered" if flip.after == "unanswered" else "still fails"
    if not flip.alike:
        return f"still fails, now at {shown(after)}"
    moved = shown(before) != shown(after)
    text = f"still fails: {shown(before)}, now {shown(after)}" if moved else (
        f"still fails at {shown(after)}"
    )  # fmt: skip
    return text + _against(flip)


def _against(flip: Flip) -> str:
    """The bound, where it is another than before; a policy that changed is told as such."""
    old, new = flip.bound_before, flip.bound
    if (
        flip.policy
        or flip.lone
        or old is None
        or new is None
        or not flip.alike
        or shown(old) == shown(new)
    ):
        return ""
    return f", against {shown(new)} instead of {shown(old)}"


def figure_text(change: FigureChange) -> str:
    """`bandwidth 4.8 TB/s to 4.9 TB/s`."""
    if change.sign == "+":
        return f"{change.path} is now {change.after}"
    if change.sign == "-":
        return f"{change.path} was {change.before} and is gone"
    return f"{change.path} {change.before} to {change.after}"


def finding_text(change: FindingChange) -> str:
    """The finding's words; of a policy that fails as before what moved of it, and of one that reads
    otherwise that it does: then the author of the plan may have changed nothing."""
    flip, text = change.flip, change.finding.diagnostic.headline
    if change.state == "waived":
        return f"{text}, waived: {change.finding.waived}"
    if flip is None or not change.moved:
        return text
    if change.state == "still":
        text = f"policy `{flip.policy}` wants {flip.text}: {_still(flip)}"
    if flip.reworded and change.state == "gone":
        return f"{text}; the policy changed: it is `{flip.text}` now"
    if flip.reworded:
        return f"{text}; the policy changed: it was `{flip.text_before}`"
    if flip.lone and change.state in ("new", "gone"):
        return f"{text}; the policy {'is new' if flip.before is None else 'is gone'}"
    return text


# --- the tree of what the author changed -------------------------------------------------------

WHOLE = ("require ", "expect ", "allow ")
"""Paths that are sentences: their points are no levels."""


@dataclass(slots=True)
class _Branch:
    change: SpecChange | None
    below: dict[str, _Branch]


def tree_lines(changes: Sequence[SpecChange], indent: str = "  ") -> Iterator[str]:
    """`~ + -` lines, a sign in the first column, a level of the path a level of the tree."""
    root = _Branch(None, {})
    for change in changes:
        names = [change.path] if change.path.startswith(WHOLE) else change.path.split(".")
        branch = root
        for name in names:
            branch = branch.below.setdefault(name, _Branch(None, {}))
        branch.change = change
    yield from _lines(root, indent)


def _lines(branch: _Branch, indent: str) -> Iterator[str]:
    for name, first in branch.below.items():
        below, change, title = first, first.change, name
        while change is None and len(below.below) == 1:  # a level with one thing in it is no level
            inner, below = next(iter(below.below.items()))
            title, change = f"{title}.{inner}", below.change
        if change is None:
            yield f"  {indent}{title}"
        else:
            yield f"{change.sign} {indent}{_leaf(title, change)}"
        yield from _lines(below, indent + "  ")


def _leaf(title: str, change: SpecChange) -> str:
    if title.startswith(WHOLE):
        if change.sign != "~":
            return title
        return f"{title}: {change.before} -> {change.after}"
    if change.sign == "~":
        return f"{title}: {change.before} -> {change.after}"
    return f"{title}: {change.after or change.before}"
