"""The placement picture of a pool: nested boxes, what each device holds, the groups that matter.

Comes in: a placement. Goes out: a `Picture`. Once there are more devices than can be drawn, units
that hold the same ranks of other replicas are folded into one box with a count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvdsl.placement.exchanges import Group
from kvdsl.placement.meshes import meshes, meshes_attention
from kvdsl.placement.placement import Placement
from kvdsl.placement.topology import Join, Unit
from kvdsl.plan import Box, Cell, Picture, Wire
from kvdsl.planning.neighbours import Taken
from kvdsl.units import counted

DRAWN_DEVICES = 144
"""Devices drawn one by one: two NVL72 racks."""

LOOKED_AT = 4_096
"""Units of a folded picture that are looked at one by one; what follows is drawn as others."""

DRAWN_CLASSES = 8
"""Kinds of units told apart in a folded picture."""


@dataclass(frozen=True, slots=True)
class _Rank:
    replica: int
    stage: int
    rank: int


def picture(pool: str, placement: Placement, beside: Sequence[Taken] = ()) -> Picture:
    """`beside` are devices that other deployments have."""
    root = placement.subject.topology.root
    drawn = root.devices <= DRAWN_DEVICES  # all of what was picked from is drawn
    shown = _Drawing(placement, tuple(beside), folded=not drawn)
    box = shown.box(root, 0, 1)
    note = "" if drawn else "Units that hold the same are drawn once, with their number."
    return Picture(pool, box, tuple(_wires(placement)), _legend(placement), note,
                   _caption(placement))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Drawing:
    placement: Placement
    beside: tuple[Taken, ...]
    folded: bool

    def box(self, unit: Unit, first: int, count: int) -> Box:
        boxes: list[Box] = []
        cells: list[Cell] = []
        offset = first
        for many, child in unit.children:
            if child.kind == "device":
                cells.extend(self.cell(offset + n) for n in range(min(many, DRAWN_DEVICES)))
            else:
                boxes.extend(self._boxes(child, offset, many))
            offset += many * child.devices
        if unit.kind == "device":
            cells.append(self.cell(first))
        title, fast = unit.title.rpartition(".")[2], bool(unit.join and unit.join.fast)
        return Box(unit.kind, title, _join_text(unit.join), fast, count, tuple(boxes), tuple(cells),
                   _row(unit.join))  # fmt: skip

    def _boxes(self, unit: Unit, first: int, many: int) -> Iterator[Box]:
        """A box each, or where folded one for those whose first and last devices hold the same."""
        starts = range(first, first + many * unit.devices, unit.devices)
        if not self.folded:
            yield from (self.box(unit, start, 1) for start in starts)
            return
        classes: dict[object, tuple[int, int]] = {}
        for start in starts[:LOOKED_AT]:
            key = tuple(map(self._holds, (start, start + unit.devices - 1)))
            kept = key if key in classes or len(classes) < DRAWN_CLASSES else "others"
            example, alike = classes.get(kept, (start, 0))
            classes[kept] = (example, alike + 1)
        idle = starts[max(LOOKED_AT, -(-(self._used() - first) // unit.devices)) :]
        for kept, more in (("others", starts[LOOKED_AT : many - len(idle)]), (("", ""), idle)):
            if more:
                example, alike = classes.get(kept, (more[0], 0))
                classes[kept] = (example, alike + len(more))
        yield from (self.box(unit, example, alike) for example, alike in classes.values())

    def _used(self) -> int:
        """Where the last device ends that holds a rank, or that another deployment has."""
        ranks = self.placement.degrees.devices
        picked = self.placement.subject.topology.picked
        own = (start + min(n, ranks - first) for first, start, n in picked if ranks > first)
        return max((*own, *(each.end for each in self.beside)), default=0)

    def _holds(self, device: int) -> object:
        """What tells units of a folded picture apart: the rank in a replica, or who is there."""
        rank = self._at(device)
        return self._taker(device) if rank is None else (rank.stage, rank.rank)

    def _taker(self, device: int) -> str:
        """The deployment beside this one that has a device; empty where none has."""
        return next((each.by for each in self.beside if each.start <= device < each.end), "")

    def _at(self, device: int) -> _Rank | None:
        """What stands on a device of the root: `meshes.place`, backwards."""
        degrees, number = self.placement.degrees, self._in_line(device)
        if not 0 <= number < degrees.replicas * degrees.pp * degrees.size:
            return None
        mesh = meshes_attention(degrees)
        sizes = dict(mesh.axes) | {"replicas": degrees.replicas, "pp": degrees.pp}
        at = {}
        for axis in reversed(degrees.order):
            number, at[axis] = divmod(number, sizes[axis])
        return _Rank(at["replicas"], at["pp"], mesh.number(at))

    def cell(self, device: int) -> Cell:
        found = self._at(device)
        if found is None:
            here = self._in_line(device) >= 0
            by = "" if here else self._taker(device)
            said = "idle" if here else f"taken by {by}" if by else "free"
            return Cell(device, "", (said,), -1, -1, -1, "", "", idle=True, taken_by=by)
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


def joined(pictures: Sequence[Picture]) -> tuple[Picture, ...]:
    """Pools of one cluster in one picture, where all are drawn device by device: each device with
    the pool that it is in, each box with the pool that it is all of."""
    first = pictures[0] if pictures else None
    if first is None or len(pictures) < 2 or any(p.note for p in pictures):
        return tuple(pictures)
    shapes = {_shape(p.root) for p in pictures}
    if len(shapes) > 1:
        return tuple(pictures)
    boxes = [p.root for p in pictures]
    names = [p.pool for p in pictures]
    legend = tuple((f"{p.pool} {what}", told) for p in pictures for what, told in p.legend)
    caption = " ".join(f"{p.pool}: {p.caption}" for p in pictures)
    wires = tuple(wire for p in pictures for wire in p.wires)
    return (Picture("", _overlaid(boxes, names), wires, legend, "", caption),)


def _shape(box: Box) -> tuple[object, ...]:
    return (box.title, tuple(c.device for c in box.cells), tuple(map(_shape, box.boxes)))


def _overlaid(boxes: Sequence[Box], names: Sequence[str]) -> Box:
    """One box of many that are alike but for what their devices hold."""
    cells = tuple(
        next((_of_pool(c, n) for n, c in enumerate(same) if not c.idle), _in_none(same))
        for same in zip(*(box.cells for box in boxes), strict=True)
    )
    held = {n for n, box in enumerate(boxes) if any(not c.idle for c in box.cells)}
    title = boxes[0].title
    if len(held) == 1 and cells:
        title += f" \N{MIDDLE DOT} {names[held.pop()]}"
    inner = tuple(
        _overlaid(same, names) for same in zip(*(box.boxes for box in boxes), strict=True)
    )
    return replace(boxes[0], title=title, cells=cells, boxes=inner)


def _of_pool(cell: Cell, pool: int) -> Cell:
    """Sets and shares of two pools are never the same: those of the second begin at a million."""
    return replace(cell, holder=cell.holder + pool * 10**6, share=f"{pool}/{cell.share}")


def _in_none(same: Sequence[Cell]) -> Cell:
    """A device that no pool uses: idle in one if it is in one."""
    return next((c for c in same if c.lines == ("idle",)), same[0])


def _join_text(join: Join | None) -> str:
    if join is None:
        return ""
    dims = " x ".join(map(str, join.dims)) if join.shape == "torus" else ""
    return f"{join.link.title.rpartition('.')[2]} {join.shape} {dims}".rstrip()


def _row(join: Join | None) -> int:
    """Devices in a row of a torus that joins them: its last axis runs fastest."""
    return join.dims[-1] if join is not None and join.dims and not join.over_members else 0


def _wires(placement: Placement) -> Iterator[Wire]:
    """The groups that exchange, and the sends between stages, one of each reach. Groups of several
    axes over the same devices are one wire."""
    used = {e.axis for e in placement.exchanges if e.module != "embedding"}
    found: dict[tuple[int, ...], list[Group]] = {}
    for group in placement.groups:
        if group.size < 2 or group.size > DRAWN_DEVICES:
            continue
        devices = tuple(placement.subject.topology.in_root(p) for p in group.places)
        if group.axis == "pp":
            label = f"{counted(group.count, 'sends')} to stage {group.stage + 1}"
            yield Wire("pp", devices, _crosses(group), label)
        elif group.axis in used or group.axis == "attention.tp":
            found.setdefault(devices, []).append(group)
    for devices, groups in found.items():
        crosses = _crosses(groups[0])
        label = _groups_name([_axis_name(g.axis) for g in groups], len(devices))
        if crosses:
            times = sum(_times(placement, g) for g in groups)
            label += f": {counted(times, 'exchanges')} a step out of the node"
        yield Wire(groups[0].axis, devices, crosses, label)


def _crosses(group: Group) -> bool:
    return group.reach.join is not None and not group.reach.fast and group.reach.nodes > 1


def _groups_name(names: list[str], size: int) -> str:
    """`TP group of 8 (attention, FFN)`: what the axes have in common is said once."""
    if len(names) == 1:
        return f"{names[0]} group of {size}"
    last = {name.rpartition(" ")[2] for name in names}
    if len(last) > 1 or any(" " not in name for name in names):
        return f"group of {size} ({', '.join(names)})"
    modules = ", ".join(name.rpartition(" ")[0] for name in names)
    return f"{last.pop()} group of {size} ({modules})"


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
    for stage in placement.stages if degrees.pp > 1 else ():
        held = f"layers {stage.first}-{stage.first + stage.layers - 1}"
        found.append((f"stage {stage.number}", held))
    if degrees.attention.dp > 1 or degrees.replicas > 1:
        found.append(
            ("requests", f"{counted(degrees.holders, 'sets')} of devices, each holds its own")
        )
    return tuple(found)


def _caption(placement: Placement) -> str:
    degrees = placement.degrees
    there = counted(placement.subject.topology.devices, "devices")
    text = f"Ranks lie on {placement.used:,} of {there}"
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
