"""Pictures of a plan: complete, inside their frame, told apart without colour, safe and stable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdsl.plan import Box, Cell, Chart, Picture, Segment, Series, Wire
from kvdsl.render.svg.bars import Axis, Bar, Piece, bars
from kvdsl.render.svg.boxes import Place, laid_out
from kvdsl.render.svg.colours import PALETTE
from kvdsl.render.svg.curves import curves
from kvdsl.render.svg.elements import Frame
from kvdsl.render.svg.memory import memory
from kvdsl.render.svg.placement import placement
from kvdsl.render.svg.scales import (
    Scale,
    fitted,
    linear_ticks,
    log_ticks,
    spread,
    text_width,
    tick_text,
)
from kvdsl.render.svg.step import step
from kvdsl.render.svg.traffic import traffic, traffic_bars
from kvdsl.units import Quantity
from tests import sample_plan as sample
from tests.sample_plan import gb, ms

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert(1)</script>"&\u202e\x00]]>'
LONG = "a name that goes on and on, as names in large companies do, for far too long to fit in"


def rack() -> Picture:
    """A rack of 18 trays with four devices each; 64 hold a part of the sequence, 8 idle."""
    trays = tuple(
        Box("node", f"tray {t}", "", True, 1, (), tuple(
            Cell(d, f"cp{d}", (), 0, 0, 0, f"{d}" if t < 16 else "", "", idle=t >= 16)
            for d in range(t * 4, t * 4 + 4)
        ))
        for t in range(18)
    )  # fmt: skip
    root = Box("rack", "GB200 NVL72", "NVLink 5 switch, 900 GB/s", True, 1, trays)
    wire = Wire("cp", tuple(range(64)), False, "CP group of 64")
    return Picture("", root, (wire,), (), "", "")


def folded(title: str = "HGX H200") -> Picture:
    """Twelve nodes alike, drawn as one, beside one that is half empty."""
    cells = tuple(Cell(i, f"dp{i}", (title, title), 0, 0, i, f"{i}", "") for i in range(8))
    other = tuple(replace(c, device=c.device + 96, idle=c.device > 3) for c in cells)
    nodes = (
        Box("node", title, "NVLink 4", True, 12, (), cells),
        Box("node", title, title, True, 1, (), other),
    )
    wire = Wire("ep", (*range(8), *range(96, 100)), True, f"EP leaves its node: {title}")
    legend = tuple((f"{i}", f"requests of rank {i}, {title}") for i in range(8))
    return Picture("decode", Box("cluster", title, title, False, 1, nodes), (wire,), legend, "", "")


TRAFFIC = traffic(sample.COLLECTIVES)


def drawings() -> dict[str, str]:
    return {
        "stages": placement("p1", "Placement", sample.PICTURE),
        "copies": placement("p2", "Placement", sample.tp16_picture()),
        "rack": placement("p3", "Placement", rack()),
        "folded": placement("p4", "Placement", folded()),
        "long": placement("p5", "Placement", folded(LONG)),
        "hostile": placement("p6", HOSTILE, folded(HOSTILE)),
        "memory": memory("m1", "Memory", sample.PLAN.memory),
        "step": step("s1", sample.STEP),
        "traffic": traffic_bars("x1", "Collectives", TRAFFIC, {"decode": sample.STEP.whole}),
        "capacity": curves("c1", sample.CHARTS[0]),
        "tpot": curves("c2", sample.CHARTS[1]),
        "long lines": curves("c3", long_chart()),
    }


def long_chart() -> Chart:
    chart = sample.CHARTS[1]
    lines = tuple(Series(f"{LONG} {i}", ((1.0, 5.0), (200.0, 9.0 + i / 10))) for i in range(9))
    marks = tuple((float(x), f"{x} requests: {LONG}") for x in (4, 5, 150, 190))
    return replace(chart, series=lines, marks=marks)


DRAWINGS = drawings()


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_well_formed_and_speaks_for_itself(name: str) -> None:
    root = ET.fromstring(DRAWINGS[name])
    assert root.get("role") == "img"
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert desc is not None
    assert title.text
    assert desc.text
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    assert {e.tag for e in root.iter()} & {f"{SVG}script", f"{SVG}foreignObject"} == set()


def _texts(root: ET.Element) -> Iterator[tuple[float, float, float, float, str]]:
    """Left, top, right, bottom and words of each text."""
    for element in root.iter(f"{SVG}text"):
        words, size = element.text or "", float(element.get("font-size", "12"))
        bold = element.get("font-weight") == "600"
        wide = text_width(words, size, bold=bold)
        x, y = float(element.get("x", "0")), float(element.get("y", "0"))
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}
        start = left[element.get("text-anchor", "start")]
        yield start, y - size * 0.72, start + wide, y + size * 0.18, words


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_stay_inside_the_drawing_and_never_overlap(name: str) -> None:
    root = ET.fromstring(DRAWINGS[name])
    width, height = (float(n) for n in root.get("viewBox", "").split()[2:])
    texts = list(_texts(root))
    outside = [t for t in texts if t[0] < -1 or t[2] > width + 1 or t[1] < -1 or t[3] > height + 1]
    assert outside == []
    overlapping = [
        (a[4], b[4])
        for i, a in enumerate(texts)
        for b in texts[i + 1 :]
        if min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1
    ]
    assert overlapping == []


@pytest.mark.parametrize("name", DRAWINGS)
def test_patterns_and_names_are_the_drawings_own(name: str) -> None:
    """Two drawings share a page: their ids must not."""
    root = ET.fromstring(DRAWINGS[name])
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    own = root.get("id")
    assert all(i == own or str(i).startswith(f"{own}-") for i in ids)
    used = {e.get("fill", "")[5:-1] for e in root.iter() if e.get("fill", "").startswith("url")}
    assert used <= set(ids)


def test_what_a_user_wrote_is_words_and_never_markup_or_hidden_marks() -> None:
    drawn = DRAWINGS["hostile"]
    assert "<script>" not in drawn
    assert "\u202e" not in drawn
    assert "\x00" not in drawn
    words = "".join(ET.fromstring(drawn).itertext())
    assert "<script>alert(1)</script>" in words
    assert "<U+202E><U+0000>" in words


def test_every_device_is_drawn_and_copies_and_idle_ones_say_so() -> None:
    copies = "".join(ET.fromstring(DRAWINGS["copies"]).itertext())
    assert all(f"GPU {i}" in copies for i in range(16))
    assert copies.count("copy of GPU") >= 8
    assert "252 all-reduces cross InfiniBand" in copies
    trays = "".join(ET.fromstring(DRAWINGS["rack"]).itertext())
    assert trays.count("idle") >= 8
    assert "× 12" in "".join(ET.fromstring(DRAWINGS["folded"]).itertext())


def test_a_group_that_leaves_its_node_is_red_and_one_that_stays_is_not() -> None:
    assert "s-alarm" in DRAWINGS["copies"]
    assert "s-alarm" not in DRAWINGS["stages"]
    assert "s-wire" in DRAWINGS["stages"]


def _leaves(place: Place) -> Iterator[Place]:
    if place.cell is not None:
        yield place
    for row in place.rows:
        for child in row:
            yield from _leaves(child)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.integers(1, 3),
    st.lists(st.sets(st.integers(0, 80), min_size=2), max_size=6),
)
def test_no_two_devices_share_a_place_and_none_leaves_its_box(
    nodes: list[int], count: int, groups: list[set[int]]
) -> None:
    device, boxes = 0, []
    for number, size in enumerate(nodes):
        cells = tuple(Cell(device + i, "r", (), 0, 0, 0, "s", "") for i in range(size))
        boxes.append(Box("node", f"node {number}", "link", True, count, (), cells))
        device += size
    wires = tuple(Wire("tp", tuple(sorted(g)), True, f"group {i}") for i, g in enumerate(groups))
    picture = Picture("", Box("c", "c", "", False, 1, tuple(boxes)), wires, (), "", "")
    root = laid_out(picture)
    leaves = list(_leaves(root))
    assert len(leaves) == device
    for leaf in leaves:
        assert leaf.x + leaf.width <= root.width
        assert leaf.y + leaf.height <= root.height
    places = sorted((leaf.y, leaf.x, leaf.width) for leaf in leaves)
    for (y, x, width), (next_y, next_x, _) in pairwise(places):
        assert y != next_y or x + width <= next_x
    ET.fromstring(placement("p", "t", picture))


def test_every_byte_and_every_second_of_a_bar_is_on_paper() -> None:
    root = ET.fromstring(DRAWINGS["memory"])
    told = " ".join(root.itertext())
    for segment in sample.PLAN.memory[0].segments:
        assert segment.label in told
    assert "budget 73.6 GB" in told
    assert "(GB)" in told
    assert "(ms)" in " ".join(ET.fromstring(DRAWINGS["step"]).itertext())


def test_many_small_pieces_are_told_by_hover_where_labels_have_no_room() -> None:
    bar = sample.PLAN.memory[0]
    tiny = tuple(Segment(f"part number {i} of many", "weights", gb(0.01)) for i in range(40))
    drawn = memory("m", "Memory", [replace(bar, segments=(*tiny, *bar.segments))])
    root = ET.fromstring(drawn)
    titles = [e.text for e in root.iter(f"{SVG}title")]
    assert any(t and t.startswith("part number 39 of many") for t in titles)


def test_what_cannot_be_drawn_is_left_out() -> None:
    chart = sample.CHARTS[0]
    nothing = replace(chart, series=(Series("a", ((0.0, 1.0), (5.0, float("inf")))),))
    assert curves("c", nothing) == ""
    one = replace(chart, series=(Series("a", ((5.0, 3.0),)),))
    ET.fromstring(curves("c", one))
    flat = replace(chart, series=(Series("a", ((1.0, 0.0), (2.0, 0.0))),), log_y=False)
    ET.fromstring(curves("c", flat))
    assert step("s", replace(sample.STEP, segments=(), limits=(), whole=ms(0))) == ""


def test_axes_name_their_units() -> None:
    told = list(ET.fromstring(DRAWINGS["capacity"]).itertext())
    assert "Request length (tok)" in told
    assert "Requests in flight (req)" in told


def _contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [0, 1])
def test_words_can_be_read_on_every_fill_in_light_and_dark(mode: int) -> None:
    words = {"ink", "ink-soft", "ink-faint", "alarm", "wire", "calm", "rule", "frame"}
    fills = [n for n in PALETTE if n not in words and not n.startswith("line-")]
    for name in fills:
        assert _contrast(PALETTE["ink"][mode], PALETTE[name][mode]) >= 4.5, name
    inks = ["ink-soft", "alarm", "wire", "calm", *(n for n in PALETTE if n.startswith("line-"))]
    for name in inks:
        for ground in ("paper", "panel"):
            assert _contrast(PALETTE[name][mode], PALETTE[ground][mode]) >= 4.5, (name, ground)
    assert _contrast(PALETTE["paper"][mode], PALETTE["ink-soft"][mode]) >= 4.5


def test_ticks_are_round_and_cover_the_values() -> None:
    assert linear_ticks(0, 80, 9) == (0, 10, 20, 30, 40, 50, 60, 70, 80)
    assert log_ticks(1000, 128_000)[0] == 1000
    assert log_ticks(1, 1e6) == (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
    assert [tick_text(v) for v in (0, 0.5, 20_000, 1.4e6)] == ["0", "0.5", "20k", "1.4M"]


@given(st.floats(-1e6, 1e9), st.floats(1e-6, 1e9))
def test_linear_ticks_enclose_any_range(low: float, size: float) -> None:
    ticks = linear_ticks(low, low + size)
    assert ticks[0] <= low + size * 1e-6 + abs(low) * 1e-6
    assert ticks[-1] >= low + size * (1 - 1e-6) - abs(low) * 1e-6
    assert len(ticks) <= 12


@given(st.floats(1e-6, 1e9), st.floats(1.01, 1e6))
def test_log_ticks_rise(low: float, times: float) -> None:
    ticks = log_ticks(low, low * times)
    assert all(a < b for a, b in pairwise(ticks))
    scale = Scale(ticks[0], max(ticks[-1], low * times), 0, 100, log=True)
    assert -1 <= scale.at(low * times) <= 101


@given(st.lists(st.tuples(st.floats(0, 900), st.floats(5, 60)), max_size=12))
def test_labels_are_moved_apart_and_kept_inside(labels: list[tuple[float, float]]) -> None:
    labels.sort()
    wanted, sizes = [w for w, _ in labels], [s for _, s in labels]
    places = spread(wanted, sizes, 0, 900)
    ends = [(p - s / 2, p + s / 2) for p, s in zip(places, sizes, strict=True)]
    assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(ends))
    if sum(sizes) <= 900:
        assert all(start >= -1e-6 and end <= 900 + 1e-6 for start, end in ends)


@given(st.text(max_size=60), st.floats(0, 300))
def test_a_cut_label_fits(text: str, most: float) -> None:
    kept = fitted(text, most, 12)
    assert kept == text or kept == "" or text_width(kept, 12) <= most


def test_zero_quantities_are_no_pieces() -> None:
    bar = sample.PLAN.memory[0]
    zero = replace(
        bar,
        segments=(*bar.segments, Segment("nothing", "weights", Quantity(0, bar.memory.dimension))),
    )
    drawn = memory("m", "Memory", [zero])
    assert drawn.count("nothing") == 1  # in the description alone


def test_the_smallest_pieces_have_no_words_and_push_nobody_away() -> None:
    pieces = (Piece("large", "99 GB", 99, "cache"), Piece("dust", "1 MB", 0.001, "free"))
    row = Bar("a device", "", pieces)
    text = bars(Frame("b", "b", "b"), [row], Axis("GB", 100), ())
    assert "dust 1 MB" not in text
    assert "<title>dust: 1 MB</title>" in text


def test_a_stage_has_its_colour_in_the_legend_where_one_set_holds_all() -> None:
    (picture,) = sample.PLAN.pictures
    stages = tuple((f"stage {n}", f"layers of {n}") for n in range(2))
    text = placement("p", "p", replace(picture, legend=stages))
    assert text.count("stage 1: layers of 1") == 1
    assert "same colour" not in text
