"""Groups drawn as wires: a lane below each row, stubs up to members, a trunk between rows.

Comes in: places with lanes. Goes out: lines and names. A wire that leaves its domain is heavy,
dashed and red, with a knot where it passes the edge of a box; one that stays is thin and blue.
Pipeline sends cross nodes by design and are drawn calmly.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.plan import Wire
from kvdsl.render.svg.boxes import JOINT, Lane, Place, Route
from kvdsl.render.svg.colours import painted
from kvdsl.render.svg.elements import Lettering, lettered, line, tag
from kvdsl.render.svg.scales import fitted, text_width
from kvdsl.render.visible import visible

_STEP = 9
"""Distance of two wires on one device's edge."""

_CALM_AXES = ("pp", "replicas")


def ink(wire: Wire) -> str:
    if not wire.crosses:
        return "wire"
    return "calm" if wire.axis in _CALM_AXES else "alarm"


def wires(place: Place) -> Iterator[str]:
    """All wires in a box and in the boxes inside it."""
    for row in place.rows:
        for child in row:
            yield from wires(child)
    for route in (*place.leaving, *place.home):
        yield from _run(place, route)


def _strokes(wire: Wire) -> dict[str, str | float]:
    if ink(wire) == "alarm":
        return {"stroke_width": 2.4, "stroke_dasharray": "7 4"}
    return {"stroke_width": 1.5, "stroke_dasharray": "4 3"} if wire.crosses else {}


def _run(place: Place, route: Route) -> Iterator[str]:
    lanes = [lane for lane in place.lanes if lane.route is route]
    if not lanes:
        return
    colour, look = ink(route.wire), _strokes(route.wire)
    trunk = place.x + 7 + 3 * (_order(place, route) % 3)
    leaving = route in place.leaving
    for lane in lanes:
        ends = [_stub_x(child, route) for child in _members(place, lane)]
        if leaving and lane is lanes[-1]:
            ends.append(_stub_x(place, route))
        if len(lanes) > 1:
            ends.append(trunk)
        for child in _members(place, lane):
            x = _stub_x(child, route)
            yield line(x, child.y + _inner_height(child), x, lane.y, colour, **look)
            if child.box is not None and colour == "alarm":
                yield _knot(x, child.y + _inner_height(child))
        yield line(min(ends), lane.y, max(ends), lane.y, colour, **look)
    if len(lanes) > 1:
        yield line(trunk, lanes[0].y, trunk, lanes[-1].y, colour, **look)
    if leaving:
        x = _stub_x(place, route)
        yield line(x, lanes[-1].y, x, place.y + _inner_height(place), colour, **look)
    elif route.named:
        yield from _name(place, route, lanes[-1])


def _order(place: Place, route: Route) -> int:
    return (*place.home, *place.leaving).index(route)


def _members(place: Place, lane: Lane) -> tuple[Place, ...]:
    return tuple(place.rows[lane.row][i] for i in lane.children)


def _inner_height(place: Place) -> float:
    """Without the shadows of a stack."""
    return place.height - (10 if place.box is not None and place.box.count > 1 else 0)


def _stub_x(place: Place, route: Route) -> float:
    """Where a wire meets the lower edge of a device or box."""
    middle = place.x + place.width / 2
    if place.box is None:
        return middle + _STEP * (_slot(route) - 1)
    return middle + _STEP * (place.leaving.index(route) - (len(place.leaving) - 1) / 2)


def _slot(route: Route) -> int:
    """Wires of different kinds meet a device at different places: three slots are enough."""
    if ink(route.wire) == "alarm":
        return 1
    return 2 if route.wire.crosses else 0


def _knot(x: float, y: float) -> str:
    return tag("circle", cx=x, cy=y, r=4.5, stroke_width=1.5, **painted("alarm", "paper"))


def _name(place: Place, route: Route, lane: Lane) -> Iterator[str]:
    """The name in the middle of its lane, on a plate that parts the wire."""
    bold = ink(route.wire) == "alarm"
    size = 12 if bold else 10.5
    names = visible(route.wire.label).split(JOINT)
    alike = f" (one of {route.alike} alike)" if route.alike > 1 else ""
    told = JOINT.join(names) + alike
    if len(names) > 1 and text_width(told, size, bold=bold) > place.width - 40:
        told = f"{names[0]} and {len(names) - 1} more{alike}"
    told = fitted(told, place.width - 40, size, bold=bold)
    wide = text_width(told, size, bold=bold) + 12
    middle = place.x + place.width / 2
    plate = {"x": middle - wide / 2, "y": lane.y - 9, "width": wide, "height": 18.0}
    yield tag("rect", **plate, rx=3, **painted("paper", ink(route.wire) if bold else "paper"))
    style = Lettering(size, bold=bold, anchor="middle", ink=ink(route.wire))
    yield lettered(middle, lane.y + 4, told, style)
