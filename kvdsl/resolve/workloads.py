"""Workloads: lengths and numbers of requests, alone or by class.

Comes in: a raw block. Goes out: a `Workload`, or None where a diagnostic was told. Not its job:
what a request of that length needs (costs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from kvdsl.diagnostics import Label
from kvdsl.resolve.attributes import ratio_text
from kvdsl.resolve.blocks import Entry, Raw
from kvdsl.resolve.building import Gathered, finished, gathered, origin_of
from kvdsl.resolve.combination_messages import LengthsTwice, NoLengths, NoLoad, SharesNotWhole
from kvdsl.resolve.context import Context
from kvdsl.resolve.inheritance import flat
from kvdsl.resolve.naming_messages import listed
from kvdsl.resolve.value_messages import OutOfBounds
from kvdsl.source import Span
from kvdsl.spec.workload import RequestClass, Workload
from kvdsl.units import Exact

LENGTHS = ("prompt", "output", "context")


def build_workload(context: Context, raw: Raw, owner: str) -> Workload | None:
    classes = {k: e for k, e in raw.entries.items() if k.startswith("class ")}
    parts = gathered(context, Workload, raw, owner, classes)
    parts.sound &= _one_way(context, raw)
    built = {
        key.removeprefix("class "): _class(context, entry, raw, key)
        for key, entry in classes.items()
    }
    parts.sound &= all(value is not None for value in built.values())
    parts.values["classes"] = built
    parts.origins |= {key: origin_of(entry) for key, entry in classes.items()}
    if context.lenient or not parts.sound:
        return finished(Workload, parts)
    if not classes:
        parts.sound &= _lengths_given(context, raw.at, owner, raw.entries)
    if not {"concurrency", "rate"} & set(raw.entries):
        context.tell(NoLoad(raw.at, owner))
        parts.sound = False
    shares = [(c.name, c.share, c.at) for c in built.values() if c is not None]
    parts.sound &= shares_whole(context, "classes", shares)
    parts.sound &= _prefix_fits(context, raw, parts, [c for c in built.values() if c is not None])
    if classes and not any(key in raw.entries for key in LENGTHS):
        parts.values |= _mean_lengths([c for c in built.values() if c is not None])
    return finished(Workload, parts)


def _mean_lengths(classes: Sequence[RequestClass]) -> dict[str, object]:
    """What a workload of classes says of its mean request, by share and rounded up."""
    prompt = sum((Fraction(c.share) * (c.prompt or c.context or 0) for c in classes), Fraction(0))
    output = sum((Fraction(c.share) * (c.output or 0) for c in classes), Fraction(0))
    return {"prompt": ceil(prompt), "output": ceil(output)}


def _one_way(context: Context, raw: Raw) -> bool:
    """`context` instead of `prompt` and `output`, never beside them."""
    given = [key for key in LENGTHS if key in raw.entries]
    if "context" not in given or given == ["context"]:
        return True
    others = [raw.entries[key] for key in given if key != "context"]
    own = raw.entries["context"]
    names = listed(entry.key for entry in others)
    way = f"keep `context` or {names}; what is inherited goes with `drop {others[0].key}`"
    # The one written last in the text is the likelier slip.
    entry = max((own, *others), key=lambda e: (e.span.file is raw.at.file, e.span.start))
    places = [Label(e.name.span, "beside this") for e in (own, *others) if e is not entry]
    context.tell(LengthsTwice(entry.name.span, way), *places)
    return False


def _prefix_fits(
    context: Context, raw: Raw, parts: Gathered, classes: Sequence[RequestClass]
) -> bool:
    """A prefix of all requests is shorter than the shortest of them: each asks something own."""
    prefix = parts.values.get("prefix_common")
    own = parts.values.get("context") or parts.values.get("prompt")
    lengths: list[object] = [c.context or c.prompt for c in classes]
    lengths = lengths or [own]
    known = [length for length in lengths if isinstance(length, int)]
    if not isinstance(prefix, int) or not prefix or not known or prefix < min(known):
        return True
    what = "prompt" if "prompt" in raw.entries or classes else "context"
    bound = f"shorter than the {what}, which has {min(known):,} tok"
    span = raw.entries["prefix_common"].span
    context.tell(OutOfBounds(span, "prefix_common", bound, f"{prefix:,} tok"))
    return False


def _lengths_given(context: Context, at: Span, owner: str, entries: Mapping[str, Entry]) -> bool:
    if "context" in entries:
        return True
    missing = [key for key in ("prompt", "output") if key not in entries]
    if not missing:
        return True
    context.tell(
        NoLengths(at, owner, f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    )
    return False


def _class(context: Context, entry: Entry, around: Raw, key: str) -> RequestClass | None:
    """A class has its own lengths; those that it leaves out are the workload's."""
    raw = flat(context, entry, "", "", ())
    if raw is None:
        return None
    owner = f"`{key}`"
    own = {key for key in LENGTHS if key in raw.entries}
    wanted = () if "context" in own else ("prompt", "output") if own else LENGTHS
    inherited = {k: around.entries[k] for k in wanted if k in around.entries and k not in own}
    whole = replace(raw, entries={**inherited, **raw.entries})
    parts: Gathered = gathered(context, RequestClass, whole, owner)
    parts.sound &= _one_way(context, whole)
    parts.sound &= context.lenient or _lengths_given(context, raw.at, owner, whole.entries)
    parts.values["name"] = entry.name.text
    return finished(RequestClass, parts)


def shares_whole(
    context: Context, what: str, shares: Sequence[tuple[str, Exact, Span | None]]
) -> bool:
    """Whether shares add up to 100 %; no shares are fine."""
    total = sum((Fraction(share) for _, share, _ in shares), Fraction(0))
    if not shares or total == 1:
        return True
    span = next(at for _, _, at in reversed(shares) if at is not None)
    terms = " + ".join(ratio_text(share) for _, share, _ in shares)
    rest = 1 - total + Fraction(shares[-1][1])
    way = f"give `{shares[-1][0]}` {ratio_text(rest)}, if the others stand" if rest > 0 else None
    context.tell(
        SharesNotWhole(span, what, ratio_text(total), f"{terms} = {ratio_text(total)}", way)
    )
    return False
