"""The placement picture of a pool: nested boxes, what each device holds, the groups that matter.

Comes in: a placement. Goes out: a `Picture`. Equal neighbours are folded into one box with a count
once there are more than can be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvdsl.placement.exchanges import Group
from kvdsl.placement.meshes import meshes, place
from kvdsl.placement.placement import Placement
from kvdsl.placement.topology import Join, Unit
from kvdsl.plan import Box, Cell, Picture, Wire

DRAWN_DEVICES = 144
"""Devices drawn one by one: two NVL72 racks."""


@dataclass(frozen=True, slots=True)
class _Rank:
    replica: int
    stage: int
    rank: int


def picture(pool: str, placement: Placement) -> Picture:
    root = placement.subject.topology.root
    ranks = dict(_ranks(placement))
    drawn = placement.subject.topology.devices <= DRAWN_DEVICES
    shown = _Drawing(placement, ranks, folded=not drawn)
    box = shown.box(root, 0, 1)
    note = "" if drawn else f"equal units are drawn once; {placement.used:,} devices hold a rank"
    return Picture(pool, box, tuple(_wires(placement)), _legend(placement), note,
                   _caption(placement))  # fmt: skip


def _ranks(placement: Placement) -> Iterator[tuple[int, _Rank]]:
    """Ranks by the device in line, of as many replicas as are drawn."""
    degrees = placement.degrees
    size = degrees.size * degrees.pp
    shown = max(1, min(degrees.replicas, DRAWN_DEVICES // size + 1))
    for replica in range(shown):
        for stage in range(degrees.pp):
            for rank in range(degrees.size):
                if size > 4 * DRAWN_DEVICES:
                    return
                yield place(degrees, replica, stage, rank), _Rank(replica, stage, rank)


@dataclass(frozen=True, slots=True)
class _Drawing:
    placement: Placement
    ranks: dict[int, _Rank]
    folded: bool

    def box(self, unit: Unit, first: int, count: int) -> Box:
        boxes: list[Box] = []
        cells: list[Cell] = []
        offset = first
        for many, child in unit.children:
            times = 1 if self.folded and child.children else many
            if child.kind == "device":
                cells.extend(self.cell(offset + n) for n in range(min(many, DRAWN_DEVICES)))
            else:
                step = child.devices
                stand_for = many if times == 1 else 1
                boxes.extend(self.box(child, offset + n * step, stand_for) for n in range(times))
            offset += many * child.devices
        if unit.kind == "device":
            cells.append(self.cell(first))
        title, fast = unit.title.rpartition(".")[2], bool(unit.join and unit.join.fast)
        return Box(unit.kind, title, _join_text(unit.join), fast, count, tuple(boxes), tuple(cells))

    def cell(self, device: int) -> Cell:
        found = self.ranks.get(self._in_line(device))
        if found is None:
            here = self._in_line(device) >= 0
            return Cell(
                device, "", ("idle" if here else "not in this pool",), -1, -1, -1, "", "", idle=True
            )
        degrees = self.placement.degrees
        at = meshes(degrees)["attention"].coordinates(found.rank)
        holder = found.replica * degrees.attention.dp + at["dp"]
        share, copy = self._share(found, at)
        return Cell(device, self._name(found, at), self._lines(found, at), found.replica,
                    found.stage, holder, share, copy)  # fmt: skip

    def _in_line(self, device: int) -> int:
        for first, start, length in self.placement.subject.topology.picked:
            if start <= device < start + length:
                return first + device - start
        return -1

    def _name(self, found: _Rank, at: dict[str, int]) -> str:
        degrees = self.placement.degrees
        said = [f"R{found.replica}"] if degrees.replicas > 1 else []
        said += [f"S{found.stage}"] if degrees.pp > 1 else []
        for axis, size in meshes(degrees)["attention"].axes:
            if size > 1:
                said.append(f"{axis}{at[axis]}")
        return " ".join(said) or "rank"

    def _lines(self, found: _Rank, at: dict[str, int]) -> tuple[str, ...]:
        stage = self.placement.stages[found.stage]
        lines = [f"layers {stage.first}-{stage.first + stage.layers - 1}"]
        for share in stage.cache[:1]:
            component, cut = share.heads[0]
            word = "KV head" if component.dimension == "kv_heads" else "latent"
            a, b = cut.atoms_of(at["tp"])
            atoms = cut.atoms or 1
            low, high = int(a * atoms), int(b * atoms) - 1
            if component.dimension == "kv_heads":
                lines.append(f"{word} {low}" if low >= high else f"{word}s {low}-{high}")
            else:
                lines.append("whole latent" if low >= high else f"columns {low}-{high}")
        if self.placement.degrees.attention.cp > 1:
            lines.append(f"run {at['cp']} of the sequence")
        return tuple(lines)

    def _share(self, found: _Rank, at: dict[str, int]) -> tuple[str, str]:
        """A key for equal cache content, and what it is a copy of."""
        stage = self.placement.stages[found.stage]
        degrees = self.placement.degrees
        if not stage.cache:
            return f"stage {found.stage}", ""
        _, cut = stage.cache[0].heads[0]
        start, _ = cut.atoms_of(at["tp"])
        key = f"{found.replica}.{at['dp']}.{found.stage}.{at['cp']}.{start}"
        first = next(tp for tp in range(cut.size) if cut.atoms_of(tp)[0] == start)
        copied = f"tp{first}" if first != at["tp"] else ""
        if degrees.attention.pcp > 1 and at["pcp"]:
            copied = copied or f"pcp0 tp{at['tp']}"
        return key, copied


def _join_text(join: Join | None) -> str:
    if join is None:
        return ""
    return f"{join.link.title.rpartition('.')[2]} {join.shape}"


def _wires(placement: Placement) -> Iterator[Wire]:
    """The tensor-parallel groups, and the sends between stages, one of each reach."""
    used = {e.axis for e in placement.exchanges if e.module != "embedding"}
    for group in placement.groups:
        if group.size < 2 or group.size > DRAWN_DEVICES:
            continue
        crosses = group.reach.join is not None and not group.reach.fast and group.reach.nodes > 1
        name = _axis_name(group.axis)
        devices = tuple(placement.subject.topology.in_root(p) for p in group.places)
        if group.axis == "pp":
            yield Wire("pp", devices, crosses, f"{group.count} sends to stage {group.stage + 1}")
        elif group.axis in used or group.axis == "attention.tp":
            label = f"{name} group of {group.size}"
            if crosses:
                label += f": {_times(placement, group)} exchanges a step leave the node"
            yield Wire(group.axis, devices, crosses, label)


def _times(placement: Placement, group: Group) -> int:
    """How often a step uses the groups of an axis."""
    same = (e for e in placement.exchanges if (e.axis, e.stage) == (group.axis, group.stage))
    return sum(e.count for e in same)


def _axis_name(axis: str) -> str:
    if axis == "stage":
        return "stage"
    mesh, _, names = axis.partition(".")
    words = {"attention": "attention", "ffn": "FFN", "experts": "experts", "vocab": "vocabulary"}
    return f"{words.get(mesh, mesh)} {names.upper().replace('+', ' x ')}"


def _legend(placement: Placement) -> tuple[tuple[str, str], ...]:
    found = []
    degrees = placement.degrees
    for stage in placement.stages:
        held = f"layers {stage.first}-{stage.first + stage.layers - 1}"
        found.append((f"stage {stage.number}", held))
    if degrees.attention.dp > 1 or degrees.replicas > 1:
        found.append(("holder", f"{degrees.holders} sets of devices that hold a request whole"))
    return tuple(found)


def _caption(placement: Placement) -> str:
    degrees = placement.degrees
    text = f"{placement.used:,} of {placement.subject.topology.devices:,} devices hold a rank"
    crossing = [
        g for g in placement.groups
        if g.axis != "pp" and g.size > 1 and g.reach.nodes > 1 and not g.reach.fast
    ]  # fmt: skip
    if crossing:
        widest = max(crossing, key=lambda g: g.size)
        text += f"; the {_axis_name(widest.axis)} group of {widest.size} leaves its node"
    copies = max((c.copies for s in placement.stages for sh in s.cache for _, c in sh.heads),
                 default=1)  # fmt: skip
    if copies > 1:
        text += f"; each byte of cache lies on {copies} devices"
    if degrees.pp > 1:
        text += f"; {degrees.pp} stages"
    return text + "."
