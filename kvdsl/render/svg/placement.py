"""The placement of a pool as nested boxes: racks, nodes, devices, and the groups that join them.

Comes in: a picture of a plan. Goes out: a drawing. Where a share of the cache lies on several
devices, these have the same colour and letter, and a copy is striped and says of what.
Where no two devices hold the same, colours tell the sets apart that hold a request whole, and their
stages. A stage has its own band; what idles is crossed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kvdsl.plan import Cell, Picture
from kvdsl.render.svg.boxes import PAD, STACK, WIDTH, Place, cells_of, density, laid_out
from kvdsl.render.svg.colours import HUES, painted
from kvdsl.render.svg.elements import (
    Frame,
    Lettering,
    drawing,
    hatched,
    lettered,
    line,
    tag,
    words,
)
from kvdsl.render.svg.scales import fitted, text_width
from kvdsl.render.svg.wires import wires
from kvdsl.render.visible import visible
from kvdsl.units import counted

_BAND = 18
_SMALL = 10.5
_MOST_ENTRIES = 24
_MOST_NAMED = 3


def placement(name: str, title: str, picture: Picture) -> str:
    root = laid_out(picture)
    shares = _sets(picture) if _unique(picture) else _letters(picture)
    scene = _Scene(name, picture, shares)
    parts = [*scene.place(root, 0), *wires(root)]
    parts.extend(scene.legend(root.y + root.height + 20))
    frame = Frame(name, title, picture.caption or description(picture))
    return drawing(frame, WIDTH, root.height + 20 + scene.legend_height, parts)


def description(picture: Picture) -> str:
    """The picture in words, where the plan has none."""
    groups = "; ".join(wire.label for wire in picture.wires[:6])
    cells = sum(1 for _ in cells_of(picture.root))
    return f"{picture.root.title}: {counted(cells, 'devices')} drawn. {groups}"


def _letters(picture: Picture) -> Mapping[str, tuple[str, int]]:
    """A letter and a hue for each share that a device holds, in the order of devices."""
    order = dict.fromkeys(c.share for c in cells_of(picture.root) if not c.idle and c.share)
    return {share: (_letter(i), i % HUES) for i, share in enumerate(order)}


def _short(rank: str) -> str:
    """What a small device has room for of its rank's name: the last part, `cp17`."""
    return fitted(rank.rpartition(" ")[2], 32, 10.5, bold=True)


def _unique(picture: Picture) -> bool:
    """Whether no share of the cache is held twice: a colour for each would tell nothing."""
    held = [c.share for c in cells_of(picture.root) if not c.idle and c.share]
    return len(held) == len(set(held))


def _sets(picture: Picture) -> Mapping[str, tuple[str, int]]:
    """A hue for each stage of each set of devices that holds a request whole; no letters."""
    cells = [c for c in cells_of(picture.root) if not c.idle]
    order = {key: i for i, key in enumerate(dict.fromkeys((c.holder, c.stage) for c in cells))}
    return {c.share: ("", order[c.holder, c.stage] % HUES) for c in cells}


def _named(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    every = tuple(names)
    more = f" and {len(every) - _MOST_NAMED:,} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + more


def _letter(index: int) -> str:
    letter = chr(ord("A") + index % 26)
    return letter if index < 26 else f"{letter}{index // 26}"


class _Scene:
    """What all parts of one drawing share: its name, its letters, which marks it uses."""

    def __init__(self, name: str, picture: Picture, shares: Mapping[str, tuple[str, int]]) -> None:
        cells = tuple(cells_of(picture.root))
        self._name = name
        self._picture = picture
        self._shares = shares
        self._lettered = any(letter for letter, _ in shares.values())
        self._sets = len({(c.holder, c.stage) for c in cells if not c.idle})
        self._size = density(picture)
        self._staged = len({cell.stage for cell in cells if not cell.idle}) > 1
        self._copies = any(cell.copy_of for cell in cells)
        self._idle = any(cell.idle and not cell.taken_by for cell in cells)
        self._taken = _named(dict.fromkeys(cell.taken_by for cell in cells if cell.taken_by))

    def place(self, place: Place, depth: int) -> Iterator[str]:
        if place.cell is not None:
            yield from self._cell(place, place.cell)
            return
        yield from self._frame(place, depth)
        for row in place.rows:
            for child in row:
                yield from self.place(child, depth + 1)

    def _frame(self, place: Place, depth: int) -> Iterator[str]:
        box = place.box
        assert box is not None
        width, height = place.width, place.height
        inside = ("panel", "paper", "panel")[depth % 3]
        if box.count > 1:
            width, height = width - 2 * STACK, height - 2 * STACK
            for step in (2, 1):
                x, y = place.x + step * STACK, place.y + step * STACK
                look = painted("panel-deep", "frame")
                yield tag("rect", x=x, y=y, width=width, height=height, rx=5, **look)
        look = painted(inside, "frame")
        yield tag("rect", x=place.x, y=place.y, width=width, height=height, rx=5, **look)
        many = f"  × {box.count:,}" if box.count > 1 else ""
        yield from self._header(place, width, f"{box.title}{many}")

    def _header(self, place: Place, width: float, title: str) -> Iterator[str]:
        box = place.box
        assert box is not None
        y, room = place.y + 19, width - 2 * PAD
        taken = min(text_width(title, 12, bold=True), room)
        yield lettered(place.x + PAD, y, title, Lettering(12, bold=True, most=room))
        left = room - taken - 40
        if not box.join or left < 40:
            return
        wide = min(text_width(box.join, 11), left)
        end = place.x + width - PAD
        yield lettered(end, y, box.join, Lettering(11, anchor="end", ink="ink-soft", most=left))
        look: dict[str, str | float] = {"stroke_width": 2.5 if box.join_fast else 1.5}
        if not box.join_fast:
            look["stroke_dasharray"] = "4 3"
        yield line(end - wide - 24, y - 4, end - wide - 6, y - 4, "wire", **look)

    def _cell(self, place: Place, cell: Cell) -> Iterator[str]:
        parts = (f"device {cell.device}", cell.rank, *cell.lines, self._copy(cell))
        told = " · ".join(part for part in parts if part)
        inside = [self._body(place, cell), *self._words(place, cell)]
        yield tag("g", *inside, tag("title", words(told)))

    def _copy(self, cell: Cell) -> str:
        return f"copy of {cell.copy_of}" if cell.copy_of else ""

    def _body(self, place: Place, cell: Cell) -> str:
        area = {"x": place.x, "y": place.y, "width": place.width, "height": place.height, "rx": 3.0}
        if cell.taken_by:
            return tag("rect", **area, **painted("panel-deep", "frame"))
        if cell.idle:
            cross = tag("rect", **area, **hatched(self._name, "crossed"))
            return tag("rect", **area, **painted("panel", "frame")) + cross
        hue = f"hue-{self._shares[cell.share][1]}" if cell.share in self._shares else "panel"
        dash = "4 2" if cell.copy_of else None
        body = tag("rect", **area, stroke_dasharray=dash, **painted(hue, "ink-faint"))
        if cell.copy_of:
            body += tag("rect", **area, **hatched(self._name, "stripes"))
        return body + self._band(place, cell)

    def _band(self, place: Place, cell: Cell) -> str:
        """The head of a device: dark for every second stage, so that stages part in print too."""
        colour = "ink-soft" if self._staged and cell.stage % 2 else "panel"
        x, y, right = place.x, place.y, place.x + place.width
        path = f"M{x:g} {y + _BAND:g}V{y + 3:g}Q{x:g} {y:g} {x + 3:g} {y:g}H{right - 3:g}"
        path += f"Q{right:g} {y:g} {right:g} {y + 3:g}V{y + _BAND:g}Z"
        return tag("path", d=path, **painted(colour, "ink-faint"))

    def _words(self, place: Place, cell: Cell) -> Iterator[str]:
        x, y, width = place.x + 6, place.y, place.width - 12
        small = self._size.lines == 0
        dark = self._staged and cell.stage % 2 and not cell.idle
        ink = "paper" if dark else "ink"
        head = f"{cell.device}" if small else f"GPU {cell.device}"
        if cell.idle:
            ground = "panel-deep" if cell.taken_by else "panel"
            yield self._plate(x - 2, y + 3, text_width(head, _SMALL, bold=True) + 5, ground)
            yield lettered(x, y + 13, head, Lettering(_SMALL, bold=True))
            said = cell.taken_by or (cell.lines[0] if cell.lines else "idle")
            told = fitted(visible(said), width, _SMALL)
            yield self._plate(x - 2, y + 20, text_width(told, _SMALL) + 5, ground)
            yield lettered(x, y + 30, told, Lettering(_SMALL, ink="ink-soft"))
            return
        yield lettered(x, y + 13, head, Lettering(_SMALL, bold=True, ink=ink, most=width))
        if self._staged:
            stage = f"s{cell.stage}" if small else f"stage {cell.stage}"
            end = Lettering(_SMALL, anchor="end", ink=ink, most=width)
            yield lettered(x + width, y + 13, stage, end)
        yield from self._share(place, cell, small=small)

    def _share(self, place: Place, cell: Cell, *, small: bool) -> Iterator[str]:
        letter, number = self._shares.get(cell.share, ("", 0))
        hue = f"hue-{number}"
        x, width, y = place.x + 6, place.width - 12, place.y + _BAND
        marked = Lettering(12, bold=True)
        copy = self._copy(cell)
        letter = letter or (_short(cell.rank) if small else "")
        lines = [] if small else [cell.rank, *cell.lines]
        room = self._size.lines + (0 if copy else 1)
        kept = lines[:room]
        if small:
            if not self._lettered:
                marked = Lettering(_SMALL, bold=True)
            wide = text_width(letter, marked.size, bold=True)
            if cell.copy_of:
                yield self._plate(x - 2, y + 4, wide + 5, hue)
            yield lettered(x, y + 15, letter, marked)
            return
        for number, (told, style) in enumerate(self._lines(kept, copy, letter, width)):
            at = y + 14 + number * 15
            if cell.copy_of:
                wide = min(text_width(told, style.size, bold=style.bold), width)
                yield self._plate(x - 3, at - 11, wide + 6, hue)
            yield lettered(x, at, told, style)

    def _lines(
        self, kept: list[str], copy: str, letter: str, width: float
    ) -> Iterator[tuple[str, Lettering]]:
        plain, strong = Lettering(_SMALL, most=width), Lettering(_SMALL, bold=True, most=width)
        for index, told in enumerate(kept):
            if index == 0:
                yield " · ".join(part for part in (letter, told) if part), strong
            else:
                yield told, plain
        if copy:
            yield copy, strong

    def _plate(self, x: float, y: float, width: float, colour: str) -> str:
        """Words on a pattern are hard to read: they stand on a plate of the plain colour."""
        return tag("rect", x=x, y=y, width=width, height=14, rx=2, **painted(colour, colour))

    @property
    def _entries(self) -> list[tuple[str, str, str]]:
        """Colour, pattern and words of each entry of the legend."""
        entries = []
        stages = self._stage_hues()
        for share, told in self._picture.legend[:_MOST_ENTRIES]:
            if share in stages:
                entries.append((stages[share], "", f"{share}: {told}"))
            elif share in self._shares:
                letter, number = self._shares[share]
                entries.append((f"hue-{number}", "", f"{letter} · {told}"))
            else:  # what is said of no share has no colour
                entries.append(("", "", f"{share}: {told}"))
        more = len(self._picture.legend) - _MOST_ENTRIES
        if more > 0:
            entries.append(("", "", f"and {more:,} more"))
        if self._lettered:
            entries.append(("", "", "same letter and colour: the same share of the cache"))
        elif self._sets > max(1, len(stages)):
            stage = ", and the same stage" if self._staged else ""
            told = f"same colour: one set that holds a request whole{stage}"
            if self._sets > HUES:
                told = f"colours part neighbouring sets, and come again after {HUES}"
            entries.append(("", "", told))
        if self._copies:
            entries.append(("paper", "stripes", "striped: a copy of what another device holds"))
        if self._idle:
            pool = " of this pool" if self._picture.pool else ""
            entries.append(("panel", "crossed", f"crossed: holds no rank{pool}"))
        if self._taken:
            entries.append(("panel-deep", "", f"grey: taken by {visible(self._taken)}"))
        return entries

    def _stage_hues(self) -> Mapping[str, str]:
        """The colour of each stage, where one set of devices holds all requests."""
        cells = [c for c in cells_of(self._picture.root) if not c.idle]
        if self._lettered or not self._staged or len({c.holder for c in cells}) > 1:
            return {}
        return {f"stage {c.stage}": f"hue-{self._shares[c.share][1]}" for c in cells}

    def _columns(self) -> int:
        widest = max((text_width(told, 11) for _, _, told in self._entries), default=0)
        return max(1, min(4, int(WIDTH // (widest + 50))))

    @property
    def legend_height(self) -> float:
        rows = -(-len(self._entries) // self._columns())
        return rows * 20 + 4

    def legend(self, top: float) -> Iterator[str]:
        columns = self._columns()
        wide = WIDTH / columns
        rows = -(-len(self._entries) // columns)
        for index, (colour, hatch, told) in enumerate(self._entries):
            x, y = (index // rows) * wide, top + (index % rows) * 20
            area = {"x": x + 1, "y": y - 11.0, "width": 22.0, "height": 14.0, "rx": 2.0}
            if colour:
                yield tag("rect", **area, **painted(colour, "ink-faint"))
            if hatch:
                yield tag("rect", **area, **hatched(self._name, hatch))
            start = 30 if colour else 1
            style = Lettering(11, ink="ink-soft", most=wide - start - 6)
            yield lettered(x + start, y, told, style)
