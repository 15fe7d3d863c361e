"""A silly plan: what it changes in a small sound spec, and what must be true of it.

Comes in: pieces of a spec. Goes out: its text. Not its job: which plans are silly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kvdsl.plan import Plan

HEADS = "gqa { query_heads = 16; kv_heads = 4; head_dim = 64 }"
LATENT = "mla { query_heads = 16; kv_rank = 256; nope_dim = 64; rope_dim = 32; value_dim = 64 }"
FFN = "gated { intermediate = 4096 }"
MODEL = f"""\
hidden = 1024
  vocab = 32_000
  attention a = {HEADS}
  ffn f = {FFN}
  stack {{ 8 x layer {{ a; f }} }}"""
MOE = MODEL.replace(FFN, "moe { experts = 8; active = 2; intermediate = 512 }")
MLA = MODEL.replace(HEADS, LATENT)
HARDWARE = """\
device gpu { memory = 80 GB; bandwidth = 2 TB/s; compute { bf16 = 400 TFLOP/s } }
link wire { bandwidth = 100 GB/s; latency = 3 us }
node box { devices = 8 x gpu; scale_up { link = wire; shape = switch } }
cluster hall { nodes = 4 x box; fabric = wire }
"""
KV = 2 * 4 * 64 * 2 * 8
"""Bytes a token of the sound model: keys and values, 4 heads of 64, two bytes, 8 layers."""


@dataclass(frozen=True)
class Case:
    """`so` says of a plan what must be true; without one, an error must hold these `words`."""

    so: Callable[[Plan], bool] | None = None
    words: str = ""
    model: str = MODEL
    hardware: str = HARDWARE
    on: str = "hall"
    layout: str = "tp = 4"
    layouts: str = ""
    weights: str = "= formats.bf16"
    workload: str = "context = 8 ktok; concurrency = 16 req"
    rest: str = "budget { utilization = 90 % }"
    edits: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        declared = f"layout main {{ {self.layout} }}" if self.layout else ""
        lines = [
            f"kvspec 1\nmodel small {{\n  {self.model}\n}}\n{self.hardware}{declared}",
            f"{self.layouts}\ndeployment prod {{\n  model = small\n  weights {self.weights}",
            "  kv = formats.bf16",
            f"  on = {self.on}" if self.on else "",
            "  layout = main" if self.layout else "",
            f"  workload {{ {self.workload} }}\n  {self.rest}\n}}\n",
        ]
        text = "\n".join(lines)
        for old, new in self.edits.items():
            assert old in text, old
            text = text.replace(old, new)
        return text


def head(more: str) -> dict[str, str]:
    """An edit: the sound attention with one thing more."""
    return {"head_dim = 64": f"head_dim = 64; {more}"}


def stacked(part: str, layers: str) -> str:
    """The sound model with a part more, and layers of it behind its own."""
    own = "8 x layer { a; f }"
    return MODEL.replace("stack {", f"{part}\n  stack {{").replace(own, f"{own}; {layers}")


def figure(plan: Plan, name: str) -> float | int:
    value = plan.values[name].value
    return value if isinstance(value, float) else int(value)


def codes(plan: Plan) -> set[str]:
    return {finding.code for finding in plan.findings}


def fits(plan: Plan) -> bool:
    return figure(plan, "kv.tokens") > 0


def figures(plan: Plan) -> bool:
    """That there are any: what else must hold of every plan is asked of all."""
    return bool(plan.values)


def undecoded(plan: Plan) -> bool:
    """Planned, with a prefill and no decode."""
    decoded = (
        any(name.startswith("decode.") for name in plan.values) or "cost.per_mtok" in plan.values
    )
    return "prefill.ttft" in plan.values and not decoded and "KV214" in codes(plan)


def none_fit(plan: Plan) -> bool:
    return figure(plan, "kv.tokens") == 0


def caches(bytes_per_token: float) -> Callable[[Plan], bool]:
    return lambda plan: figure(plan, "kv.bytes_per_token") == bytes_per_token


def keeps(bytes_per_request: float) -> Callable[[Plan], bool]:
    return lambda plan: figure(plan, "kv.bytes_per_request") == bytes_per_request
