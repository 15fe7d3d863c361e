"""Where the boxes of a placement picture stand: units in rows, devices in a grid, lanes for groups.

Comes in: the root box and the wires of a picture. Goes out: a tree of places. Each row of children
has lanes below it, one for each wire that touches the row; a wire's lane has room for its name in
the smallest box that holds all its devices. Not its job: drawing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kvdsl.plan import Box, Cell, Picture, Wire

WIDTH = 960
PAD, GAP, HEADER, LANE, NAMED_LANE, STACK = 14, 8, 30, 8, 22, 5
_LEAST_COLUMNS = 4
_PLATE = 4
"""More room below a lane with a name, whose plate would hide the next lane."""
JOINT = " · "
_DRAWN_ALIKE = 2
"""Groups alike in one box that are all drawn; of more, one stands for the rest."""


@dataclass(frozen=True, slots=True)
class Density:
    """How large a device is drawn, and how many lines of words it has room for."""

    width: float
    height: float
    lines: int


_DENSITIES = ((16, Density(101, 86, 3)), (48, Density(84, 54, 1)), (10**9, Density(42, 40, 0)))


@dataclass(frozen=True, slots=True)
class Route:
    """A wire with how many alike it stands for, and whether its name is written."""

    wire: Wire
    alike: int
    named: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """A wire's run below a row: `children` are the row's members that it touches."""

    route: Route
    row: int
    y: float
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A box or a device at its place; `rows` hold its children, `lanes` what runs below them.

    `leaving` are wires that go on to the box around, `home` those whose whole run is in here.
    """

    x: float
    y: float
    width: float
    height: float
    box: Box | None = None
    cell: Cell | None = None
    rows: tuple[tuple[Place, ...], ...] = ()
    lanes: tuple[Lane, ...] = ()
    home: tuple[Route, ...] = ()
    leaving: tuple[Route, ...] = ()
    devices: frozenset[int] = field(default=frozenset())

    def moved(self, x: float, y: float) -> Place:
        return replace(
            self,
            x=self.x + x,
            y=self.y + y,
            rows=tuple(tuple(child.moved(x, y) for child in row) for row in self.rows),
            lanes=tuple(replace(lane, y=lane.y + y) for lane in self.lanes),
        )


def cells_of(box: Box) -> Iterator[Cell]:
    """Every device drawn in a box, in order."""
    yield from box.cells
    for inner in box.boxes:
        yield from cells_of(inner)


def density(picture: Picture) -> Density:
    count = sum(1 for _ in cells_of(picture.root))
    return next(size for most, size in _DENSITIES if count <= most)


def laid_out(picture: Picture) -> Place:
    """The picture's root at 0, 0, with all below it."""
    size = density(picture)
    routes = _routes(picture, size)
    return _box(picture.root, WIDTH - STACK * 2, routes, size)


def _routes(picture: Picture, size: Density) -> tuple[Route, ...]:
    """The wires to draw. Of many alike in one box only the first is drawn, with their number."""
    drawn = {cell.device for cell in cells_of(picture.root)}
    found: dict[tuple[int, str, str, bool], list[Wire]] = {}
    for wire in _joined(picture.wires):
        if len(drawn.intersection(wire.devices)) < 2:
            continue
        home = _home(picture.root, frozenset(wire.devices) & drawn)
        key = (home, wire.axis, wire.label, wire.crosses)
        found.setdefault(key, []).append(wire)
    routes, named = list[Route](), set[tuple[str, str]]()
    for (_, axis, label, crosses), wires in found.items():
        first = (axis, label) not in named
        named.add((axis, label))
        shown = first or crosses or size.lines > 0
        if len(wires) <= _DRAWN_ALIKE:
            routes.extend(Route(wire, 1, shown) for wire in wires)
        else:
            routes.append(Route(wires[0], len(wires), shown))
    return tuple(routes)


def _joined(wires: Sequence[Wire]) -> tuple[Wire, ...]:
    """Wires over the same devices as one that bears all their names, apart by `JOINT`."""
    found: dict[tuple[tuple[int, ...], bool], list[Wire]] = {}
    for wire in wires:
        found.setdefault((tuple(sorted(wire.devices)), wire.crosses), []).append(wire)
    return tuple(
        replace(same[0], label=JOINT.join(dict.fromkeys(wire.label for wire in same)))
        for same in found.values()
    )


def _home(box: Box, devices: frozenset[int], start: int = 0) -> int:
    """The number, in a walk from the root, of the smallest box that holds all the devices."""
    number = start + 1
    for inner in box.boxes:
        inside = {cell.device for cell in cells_of(inner)}
        if devices <= inside:
            return _home(inner, devices, number)
        number += _count(inner)
    return start


def _count(box: Box) -> int:
    return 1 + sum(_count(inner) for inner in box.boxes)


def _box(box: Box, most: float, routes: Sequence[Route], size: Density) -> Place:
    """A box no wider than `most`, at 0, 0."""
    rows = _rows(box, most - 2 * PAD, routes, size)
    mine = frozenset(cell.device for cell in cells_of(box))
    touching = [r for r in routes if mine.intersection(r.wire.devices)]
    leaving = tuple(r for r in touching if not mine.issuperset(r.wire.devices))
    children = [child for row in rows for child in row]
    home = tuple(
        r
        for r in touching
        if r not in leaving
        and not any(child.devices.issuperset(r.wire.devices) for child in children)
    )
    placed, lanes, y = [], list[Lane](), float(HEADER)
    for number, row in enumerate(rows):
        height = max(child.height for child in row)
        x, moved = float(PAD), []
        for child in row:
            grown = replace(child, height=height) if child.box else child
            moved.append(grown.moved(x, y))
            x += child.width + GAP
        placed.append(tuple(moved))
        y += height
        below = _lanes_below(number, moved, (home, leaving), y, last=number == len(rows) - 1)
        lanes.extend(below)
        y = (below[-1].y + LANE if below else y) + GAP
    width = max((sum(c.width + GAP for c in row) - GAP for row in rows), default=180.0)
    named = max((_header_width(box), width + 2 * PAD))
    depth = STACK * 2 if box.count > 1 else 0
    return Place(
        0,
        0,
        min(named, most) + depth,
        y - GAP + PAD + depth,
        box=box,
        rows=tuple(placed),
        lanes=tuple(lanes),
        home=home,
        leaving=leaving,
        devices=mine,
    )


def _header_width(box: Box) -> float:
    return 60 + 6.8 * (len(box.title) + len(box.join))


def _rows(
    box: Box, room: float, routes: Sequence[Route], size: Density
) -> tuple[tuple[Place, ...], ...]:
    """Children in rows: devices in a grid, boxes as many side by side as have room."""
    if box.cells:
        columns = max(1, int((room + GAP) // (size.width + GAP)))
        columns = box.row if 1 < box.row <= columns else _even(len(box.cells), columns)
        cells = [
            Place(0, 0, size.width, size.height, cell=cell, devices=frozenset((cell.device,)))
            for cell in box.cells
        ]
        grid = tuple(tuple(cells[i : i + columns]) for i in range(0, len(cells), columns))
        if not box.boxes:
            return grid
    else:
        grid = ()
    side = _side_by_side(box, room, size)
    each = (room - (side - 1) * GAP) / side
    made = [_box(inner, each, routes, size) for inner in box.boxes]
    return grid + tuple(tuple(made[i : i + side]) for i in range(0, len(made), side))


def _even(count: int, most: int) -> int:
    """Columns, at most `most`, that leave rows of equal length where that costs no row."""
    if count <= most:
        return count
    rows = -(-count // most)
    return -(-count // rows)


def _side_by_side(box: Box, room: float, size: Density) -> int:
    needed = max((_least_width(inner, size) for inner in box.boxes), default=room)
    return max(1, min(len(box.boxes), int((room + GAP) // (needed + GAP))))


def _least_width(box: Box, size: Density) -> float:
    """The width below which a box would be a tower."""
    columns = min(len(box.cells), _LEAST_COLUMNS)
    own = columns * (size.width + GAP) - GAP if columns else 0
    inner = max((_least_width(b, size) for b in box.boxes), default=0.0)
    return max(own, inner, 150) + 2 * PAD + (STACK * 2 if box.count > 1 else 0)


def _lanes_below(
    row: int,
    children: Sequence[Place],
    routes: tuple[tuple[Route, ...], tuple[Route, ...]],
    top: float,
    *,
    last: bool,
) -> list[Lane]:
    """Lanes of the wires that touch a row; one that leaves the box also runs below the last."""
    home, leaving = routes
    lanes, y = list[Lane](), top + 2.0
    for route in (*home, *leaving):
        touched = tuple(
            i for i, child in enumerate(children) if child.devices.intersection(route.wire.devices)
        )
        if not touched and not (last and route in leaving):
            continue
        above_named = bool(lanes) and lanes[-1].route in home and lanes[-1].route.named
        y += NAMED_LANE if route in home and route.named else LANE
        y += _PLATE if above_named else 0
        lanes.append(Lane(route, row, y, touched))
    return lanes
