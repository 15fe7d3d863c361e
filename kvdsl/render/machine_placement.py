"""Where ranks stand and what moves between them, as JSON: pictures, the transfer, the tiers.

Comes in: pictures and flows of a plan. Goes out: their objects. Not its job: the rest of the plan
(machine_plan).
"""

from __future__ import annotations

from kvdsl.plan import (
    Box,
    Flow,
    Picture,
    Segment,
    TierView,
    TransferView,
)
from kvdsl.render.machine import Json, maybe, quantity


def picture_form(picture: Picture) -> Json:
    return {
        "pool": picture.pool,
        "caption": picture.caption,
        "note": picture.note,
        "root": _box(picture.root),
        "groups": [
            {
                "axis": wire.axis,
                "devices": list(wire.devices),
                "crosses": wire.crosses,
                "label": wire.label,
            }
            for wire in picture.wires
        ],
    }


def _box(box: Box) -> Json:
    return {
        "kind": box.kind,
        "title": box.title,
        "join": box.join,
        "count": box.count,
        "boxes": [_box(inner) for inner in box.boxes],
        "devices": [
            {
                "device": cell.device,
                "rank": cell.rank,
                "holds": list(cell.lines),
                "replica": cell.replica,
                "stage": cell.stage,
                "holder": cell.holder,
                "share": cell.share,
                "copy_of": cell.copy_of or None,
                "idle": cell.idle,
            }
            for cell in box.cells
        ],
    }


def flow_form(flow: Flow) -> Json:
    return {
        "pools": [
            {
                "name": pool.name,
                "role": pool.role,
                "hardware": pool.hardware,
                "layout": pool.layout,
                "devices": quantity(pool.devices),
                "tokens": quantity(pool.tokens),
                "busy": maybe(pool.busy),
            }
            for pool in flow.pools
        ],
        "transfer": flow.transfer and _transfer(flow.transfer),
        "tiers": [_tier(tier) for tier in flow.tiers],
        "working": flow.working,
    }


def _transfer(moved: TransferView) -> Json:
    return {
        "sender": moved.sender,
        "receiver": moved.receiver,
        "link": moved.link,
        "lanes": quantity(moved.lanes),
        "algorithm": moved.algorithm,
        "constants": moved.basis,
        "overlap": moved.overlap,
        "pipelined": moved.pipelined,
        "parts": [
            {
                "part": row.part,
                "format": row.form,
                "kept": quantity(row.kept),
                "one": quantity(row.one),
                "copies": quantity(row.copies),
                "size": quantity(row.size),
            }
            for row in moved.rows
        ],
        "steps": [segment_form(step) for step in moved.steps],
        "whole": quantity(moved.whole),
        "visible": quantity(moved.visible),
        "asked": maybe(moved.needed),
        "carried": quantity(moved.present),
    }


def _tier(tier: TierView) -> Json:
    return {
        "name": tier.name,
        "tier": tier.tier,
        "pool": tier.pool,
        "place": tier.place,
        "path": tier.path,
        "format": tier.form,
        "shared": tier.shared,
        "capacity": quantity(tier.capacity),
        "tokens": quantity(tier.tokens),
        "share": quantity(tier.share),
        "load": maybe(tier.load),
        "fetch": maybe(tier.fetch),
        "recompute": maybe(tier.recompute),
        "break_even": maybe(tier.break_even),
        "read": maybe(tier.read),
        "read_asked": maybe(tier.reads),
        "write": maybe(tier.written),
        "write_asked": maybe(tier.writes),
    }


def segment_form(segment: Segment) -> Json:
    return {"label": segment.label, "group": segment.group, **quantity(segment.quantity)}
