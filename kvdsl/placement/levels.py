"""What a group of devices has of each level of hardware that it crosses.

Comes in: where the ranks of a group stand in the tree of units. Goes out: a `Level` for each join
that the group uses, innermost first: how many ranks meet there, and how many links a rank has
towards them. A collective is priced level by level from these (costs). Not its job: times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from kvdsl.placement.joins import Join, Unit


@dataclass(frozen=True, slots=True)
class Stop:
    """A unit on the way down to a device: its number among all that lie under the same parent, and
    the place of its first device in the root."""

    unit: Unit
    number: int
    start: int


@dataclass(frozen=True, slots=True)
class Level:
    """A group at one level. All counts are of the unit of this level that holds most of its ranks.

    `ranks` stand in one such unit, in `parts` of it (what the next level inside joins, else single
    devices), `in_part` in the fullest part; the group is spread over `units` of this level, and it
    is `even` if each unit and each part has as many. Of the links that each rank has into this
    level, `links` lead to ranks of the group, in one direction and all together, and `pair` of them
    to one other rank. Where groups of the same kind lie between one another, they share. `nics` is
    what the ranks of one part have together, in a fabric. `on_rails` says that in each part the
    same rails are used, so that no traffic needs the spine. `oversubscription` is what the group
    meets: 1 on rails, or below one leaf. `switches`: PCIe switches that it crosses, if known."""

    kind: str
    title: str
    join: Join
    ranks: int
    parts: int
    in_part: int
    units: int
    even: bool
    links: Fraction
    pair: Fraction
    nics: Fraction
    on_rails: bool
    oversubscription: Fraction
    peer_access: bool | None
    switches: int | None
    note: str

    @property
    def shape(self) -> str:
        return self.join.shape

    @property
    def bandwidth(self) -> Fraction:
        """Bytes a second that a rank can send into its group, by the links' own rates."""
        return self.links * Fraction(self.join.link.bandwidth) / self.oversubscription


Trail = tuple[Stop, ...]


def reach_depth(root: Unit, trails: Sequence[Trail]) -> int:
    """How deep in the trails the unit lies where a group meets: 0 is the root. Two devices talk
    over the smallest domain that holds both; a host's bus only where no scale-up domain does."""
    depth = _common(trails)
    holders = [root, *(stop.unit for stop in trails[0][:depth])]
    if holders[-1].kind == "device":
        return depth
    joined = [n for n, unit in enumerate(holders) if unit.join is not None]
    # A unit that joins nothing leaves it to the one around it.
    fast = [n for n in joined if _join(holders[n]).fast]
    if fast and all(_join(holders[n]).kind == "host" for n in joined if n > fast[-1]):
        return fast[-1]
    return joined[-1] if joined else depth


def _common(trails: Sequence[Trail]) -> int:
    """Down to which depth all stand in the same units."""
    depth, least = 0, min(len(trail) for trail in trails)
    while depth < least and len({trail[depth].start for trail in trails}) == 1:
        depth += 1
    return depth


def _join(unit: Unit) -> Join:
    if unit.join is None:
        raise ValueError(f"nothing joins {unit.title}")
    return unit.join


def levels(root: Unit, trails: Sequence[Trail], places: Sequence[int]) -> tuple[Level, ...]:
    """The levels of a group, innermost first, by the trails to its devices and their places in the
    root. None where a single device is the whole group, or where nothing joins it."""
    first = reach_depth(root, trails)
    outer = _at(root, trails[0], first).unit.join
    if outer is None or len(places) < 2:
        return ()
    depths = [first]
    for depth in range(first + 1, max(len(trail) for trail in trails) + 1):
        joins = [stop.unit.join for stop, held in _held(root, trails, depth) if len(held) > 1]
        inner = _slowest([join for join in joins if join is not None])
        if inner is not None and not _absorbs(outer, inner):
            depths.append(depth)
            outer = inner
    pairs = zip(depths, (*depths[1:], None), strict=True)
    found = [_level(root, trails, places, depth, below) for depth, below in pairs]
    return tuple(reversed(found))


def join_among(join: Join, trails: Sequence[Trail]) -> Join:
    """A unit's join as the nodes of a group have it."""
    if not join.by_node:
        return join
    return join.among([stop.unit for trail in trails for stop in trail if stop.unit.kind == "node"])


def _slowest(joins: Sequence[Join]) -> Join | None:
    return min(joins, key=lambda join: join.link.bandwidth, default=None)


def _absorbs(outer: Join, inner: Join) -> bool:
    """Whether what lies inside a domain adds nothing to it: a tray of a rack whose switches join
    every GPU at the same rate, a bus below a scale-up domain."""
    if not outer.fast:
        return False
    flat = outer.shape == "switch" and outer.link.bandwidth >= inner.link.bandwidth
    return flat or not inner.fast


def _at(root: Unit, trail: Trail, depth: int) -> Stop:
    return Stop(root, 0, 0) if depth == 0 else trail[depth - 1]


def _held(root: Unit, trails: Sequence[Trail], depth: int) -> list[tuple[Stop, list[int]]]:
    """The units of a depth with the ranks that stand in each."""
    found: dict[int, tuple[Stop, list[int]]] = {}
    for index, trail in enumerate(trails):
        if depth <= len(trail):
            stop = _at(root, trail, depth)
            found.setdefault(stop.start, (stop, []))[1].append(index)
    return list(found.values())


def _level(
    root: Unit, trails: Sequence[Trail], places: Sequence[int], depth: int, below: int | None
) -> Level:
    """One level, seen from the unit that holds most ranks of the group and is joined."""
    held = _held(root, trails, depth)
    stop, ranks = max(held, key=lambda each: (each[0].unit.join is not None, len(each[1])))
    join = join_among(_join(stop.unit), [trails[rank] for rank in ranks])
    parts: dict[int, list[int]] = {}
    for rank in ranks:
        whole = below is None or below > len(trails[rank])
        key = places[rank] if whole else _at(root, trails[rank], below or 0).start
        parts.setdefault(key, []).append(rank)
    in_part = max(len(part) for part in parts.values())
    even = len({len(part) for part in parts.values()}) == 1
    even = even and len({len(each) for _, each in held}) == 1
    at = [places[rank] - stop.start for rank in ranks]
    members = [trails[rank][depth].number for rank in ranks]
    links = _links(join, at, members, in_part)
    on_rails = join.shape == "rail" and _on_rails(join, [trails[r] for r in ranks])
    one_leaf = join.leaf is not None and len({number // join.leaf for number in members}) == 1
    below_spine = on_rails or (join.shape == "tree" and one_leaf)
    return Level(
        kind=stop.unit.kind,
        title=stop.unit.title,
        join=join,
        ranks=len(ranks),
        parts=len(parts),
        in_part=in_part,
        units=len(held),
        even=even,
        links=Fraction(1) if links is None else links,
        pair=_pair(join),
        nics=join.share * in_part if join.kind == "fabric" else Fraction(0),
        on_rails=on_rails,
        oversubscription=Fraction(1) if below_spine else join.oversubscription,
        peer_access=join.peer_access,
        switches=_switches(join, at),
        note="; ".join(part for part in (join.missing, IRREGULAR if links is None else "") if part),
    )


IRREGULAR = "the group is no block of the torus: one link a rank is reckoned with"


def _on_rails(join: Join, trails: Sequence[Trail]) -> bool:
    """Whether the ranks in each node use the same NICs. A node with fewer NICs than devices has
    neighbours share one."""
    found: dict[int, set[int | Fraction]] = {}
    for trail in trails:
        node = next((stop for stop in trail if stop.unit.kind == "node"), trail[-1])
        nic = (trail[-1].start - node.start) * join.share
        found.setdefault(node.start, set()).add(nic // 1 if join.share < 1 else nic)
    return len({tuple(sorted(nics)) for nics in found.values()}) == 1


def _switches(join: Join, at: Sequence[int]) -> int | None:
    if join.switches is None:
        return None
    return len({place * join.switches // join.places for place in at})


# --- links of a rank ---------------------------------------------------------------------------


def _links(join: Join, at: Sequence[int], members: Sequence[int], in_part: int) -> Fraction | None:
    """Links of a rank that lead to ranks of its group, all together, in one direction. None where
    a group lies so in a torus that no rings can be told."""
    where = sorted(set(members)) if join.over_members else sorted(at)
    if join.shape == "mesh":
        towards = len(where) - 1 if join.over_members else len(where) - in_part
        return Fraction(towards) if join.fast else join.share * towards / max(1, join.places - 1)
    if join.shape not in ("ring", "torus"):
        return join.share
    dims = join.dims if join.shape == "torus" and join.dims else (join.places,)
    found = torus_links(where, dims)
    if found is None or join.fast:
        return found
    return join.share * found / (2 * len(dims))


def _pair(join: Join) -> Fraction:
    """Of a rank's links, those that lead to one other rank."""
    if join.fast or join.kind == "host":
        return Fraction(1)
    match join.shape:
        case "mesh":
            return join.share / max(1, join.places - 1)
        case "ring" | "torus":
            return join.share / (2 * max(1, len(join.dims)))
        case _:
            return join.share


def torus_links(places: Sequence[int], dims: Sequence[int]) -> Fraction | None:
    """Links that each of a group's places in a torus has into the group; None where the group is
    no block of it (every so many places along each axis). A place has one link each way an axis.

    Along an axis a group of every `s`-th place lies between `s - 1` others of its kind, with which
    it shares the links that pass all of them. Round the whole axis a ring runs both ways: 2 / s.
    On a part of an axis the way back takes the other direction: 1 / s."""
    points = [_point(place, dims) for place in places]
    links, block = Fraction(0), 1
    for axis, length in enumerate(dims):
        on = sorted({point[axis] for point in points})
        block *= len(on)
        if len(on) < 2:
            continue
        gaps = {b - a for a, b in pairwise(on)}
        if len(gaps) > 1:
            return None
        step = gaps.pop()
        round_it = step * len(on) == length
        links += Fraction(2 if round_it else 1, step)
    return links if block == len(set(points)) else None


def _point(place: int, dims: Sequence[int]) -> tuple[int, ...]:
    """Where a place lies in a torus: the last axis runs fastest."""
    point: list[int] = []
    for length in reversed(dims):
        place, at = divmod(place, length)
        point.append(at)
    return tuple(reversed(point))
