"""Plans that nobody would ask for: each gives figures that hold together, or says why not.

A case is what it changes in a small sound spec, and what must be true of the plan. Every plan also
goes through every renderer, and its memory adds up (`trial.add_up`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kvdsl.diagnostics import Severity
from kvdsl.pipeline import Compilation, compile_text
from kvdsl.plan import Plan
from kvdsl.render.html import report_html
from tests.fuzz.trial import draw_findings, draw_graphs, draw_plans, limited

MODEL = """\
hidden = 1024
  vocab = 32_000
  attention a = gqa { query_heads = 16; kv_heads = 4; head_dim = 64 }
  ffn f = gated { intermediate = 4096 }
  stack { 8 x layer { a; f } }"""

MOE = MODEL.replace(
    "gated { intermediate = 4096 }", "moe { experts = 8; active = 2; intermediate = 512 }"
)
MLA = MODEL.replace(
    "gqa { query_heads = 16; kv_heads = 4; head_dim = 64 }",
    "mla { query_heads = 16; kv_rank = 256; nope_dim = 64; rope_dim = 32; value_dim = 64 }",
)  # fmt: skip
HARDWARE = """\
device gpu { memory = 80 GB; bandwidth = 2 TB/s; compute { bf16 = 400 TFLOP/s } }
link wire { bandwidth = 100 GB/s; latency = 3 us }
node box { devices = 8 x gpu; scale_up { link = wire; shape = switch } }
cluster hall { nodes = 4 x box; fabric = wire }
"""
BUDGET = "budget { utilization = 90 % }"
WORKLOAD = "workload { context = 8 ktok; concurrency = 16 req }"
KV = 2 * 4 * 64 * 2 * 8
"""Bytes a token of the sound model: keys and values, 4 heads of 64, two bytes, 8 layers."""


@dataclass(frozen=True)
class Case:
    """`so` says of a plan what must be true; without a plan, an error must hold these `words`."""

    so: Callable[[Plan], bool] | None = None
    words: str = ""
    model: str = MODEL
    hardware: str = HARDWARE
    on: str = "hall"
    layout: str = "tp = 4"
    layouts: str = ""
    weights: str = "formats.bf16"
    workload: str = WORKLOAD
    rest: str = BUDGET
    edits: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        on = f"on = {self.on}" if self.on else ""
        layout = "layout = main" if self.layout else ""
        declared = f"layout main {{ {self.layout} }}" if self.layout else ""
        text = (
            f"kvspec 1\nmodel small {{\n  {self.model}\n}}\n{self.hardware}{declared}\n"
            f"{self.layouts}\ndeployment prod {{\n  model = small\n  weights = {self.weights}\n"
            f"  kv = formats.bf16\n  {on}\n  {layout}\n  {self.workload}\n  {self.rest}\n}}\n"
        )
        for old, new in self.edits.items():
            assert old in text, old
            text = text.replace(old, new)
        return text


def exact(plan: Plan, name: str) -> float | int:
    value = plan.values[name].value
    return value if isinstance(value, float) else int(value)


def codes(plan: Plan) -> set[str]:
    return {finding.code for finding in plan.findings}


def fits(plan: Plan) -> bool:
    return not plan.unplanned and exact(plan, "kv.tokens") > 0


def shown(plan: Plan) -> bool:
    return not plan.unplanned


CASES = {
    # --- sizes of a model -----------------------------------------------------------------------
    "the sound one": Case(lambda p: exact(p, "kv.bytes_per_token") == KV and fits(p)),
    "one layer": Case(
        lambda p: exact(p, "kv.bytes_per_token") == KV / 8, edits={"8 x layer": "1 x layer"}
    ),
    "hidden of 1": Case(fits, edits={"hidden = 1024": "hidden = 1"}),
    "a vocabulary of 1": Case(fits, layout="tp = 1", edits={"32_000": "1"}),
    "a vocabulary smaller than tp": Case(shown, edits={"32_000": "3"}),
    "everything is 1": Case(
        lambda p: exact(p, "kv.bytes_per_token") == 4,
        model="hidden = 1\nvocab = 1\nattention a = gqa { query_heads = 1; kv_heads = 1; head_dim "
        "= 1 }\nffn f = plain { intermediate = 1 }\nstack { layer { a; f } }",
        layout="tp = 1",
    ),
    "more KV heads than query heads": Case(words="kv", edits={"kv_heads = 4": "kv_heads = 32"}),
    "KV heads that do not divide query heads": Case(words="kv", edits={"kv_heads = 4": "kv_heads = 3"}),
    "more experts active than there are": Case(words="9 of 8 experts", model=MOE, edits={"active = 2": "active = 9"}),
    "every expert active": Case(
        lambda p: exact(p, "model.parameters") - exact(p, "model.active_parameters") == 1024 * 32_000,
        model=MOE, edits={"active = 2": "active = 8"},
    ),
    "one expert": Case(fits, model=MOE, edits={"experts = 8; active = 2": "experts = 1; active = 1"}),
    "the largest model there is": Case(words="", so=shown, edits={"hidden = 1024": "hidden = 1_000_000_000"}),
    "tied embeddings over stages": Case(
        fits, layout="tp = 2; pp = 2", edits={"vocab = 32_000": "vocab = 32_000\n  tied_embeddings = true"}
    ),
    "a tower": Case(shown, model=MODEL + "\n  tower eyes { parameters = 1000; format = formats.bf16; placement = copy }"),
    "an attention that nothing stacks": Case(
        None, model=MODEL + "\n  attention b = gqa { query_heads = 1; kv_heads = 1; head_dim = 1 }"
    ),
    # --- attention ------------------------------------------------------------------------------
    "a window": Case(
        lambda p: exact(p, "kv.bytes_per_request") == KV * 100, edits={"head_dim = 64": "head_dim = 64; window = 100 tok"}
    ),
    "a window wider than the context": Case(
        lambda p: exact(p, "kv.bytes_per_request") == KV * 8000,
        edits={"head_dim = 64": "head_dim = 64; window = 1 Gtok"},
    ),
    "a window of 1": Case(shown, edits={"head_dim = 64": "head_dim = 64; window = 1 tok"}),
    "a chunk": Case(shown, edits={"head_dim = 64": "head_dim = 64; chunk = 100 tok"}),
    "cross attention": Case(shown, edits={"head_dim = 64": "head_dim = 64; cross = 1500 tok"}),
    "no value in the cache": Case(
        lambda p: exact(p, "kv.bytes_per_token") == KV / 2, edits={"head_dim = 64": "head_dim = 64; value = same"}
    ),
    "a shared cache": Case(
        lambda p: exact(p, "kv.bytes_per_token") == KV,
        model=MODEL.replace("stack {", "attention s = shared { of = a; query_heads = 16 }\n  stack {").replace(
            "8 x layer { a; f }", "8 x layer { a; f }; 4 x layer { s; f }"),
    ),
    "an indexer": Case(
        shown, model=MLA, edits={"value_dim = 64": "value_dim = 64; indexer { heads = 4; key_dim = 32; top = 64 tok }"}
    ),
    "a compressed cache": Case(
        shown, edits={"head_dim = 64": "head_dim = 64; window = 64 tok; compress { every = 4 tok; width = 64 }"}
    ),
    "a state alone": Case(
        None, edits={"gqa { query_heads = 16; kv_heads = 4; head_dim = 64 }": "lightning { heads = 16; head_dim = 64 }"}
    ),
    "a state beside a cache": Case(
        None,
        model=MODEL.replace("stack {", "attention s = mamba2 { heads = 16; head_dim = 64; groups = 1; state = 128; conv = 4 }\n  stack {")
        .replace("8 x layer { a; f }", "8 x layer { a; f }; 4 x layer { s; f }"),
    ),
    "a draft head": Case(shown, model=MODEL + "\n  mtp { layer { a; f } }"),
    # --- hardware -------------------------------------------------------------------------------
    "a device without a figure of compute": Case(shown, edits={" compute { bf16 = 400 TFLOP/s }": ""}),
    "a link without latency": Case(shown, edits={"; latency = 3 us": ""}),
    "a link of 1 B/s": Case(shown, edits={"100 GB/s": "1 B/s"}),
    "a device of 1 B/s": Case(shown, edits={"2 TB/s": "1 B/s"}),
    "an efficiency of 1 %": Case(shown, edits={"latency = 3 us": "latency = 3 us; efficiency = 1 %"}),
    "a device of 1 B": Case(shown, edits={"80 GB": "1 B"}),
    "a device of 1 EB": Case(fits, edits={"80 GB": "1000 PB"}),
    "no link in the node": Case(shown, edits={" scale_up { link = wire; shape = switch }": ""}),
    "mixed devices in a node": Case(
        shown, hardware=HARDWARE.replace("devices = 8 x gpu", "devices = [4 x gpu, 4 x devices.h100_sxm]"), layout="tp = 8"
    ),
    "racks in a cluster": Case(
        fits, hardware=HARDWARE.replace("cluster hall { nodes = 4 x box", "rack r { nodes = 2 x box }\ncluster hall { racks = 3 x r"),
    ),
    "a cluster of clusters": Case(
        fits, hardware=HARDWARE + "cluster site { clusters = 3 x hall; fabric = wire }\n", on="site", layout="tp = 8; pp = 4; replicas = 3"
    ),
    "picked devices": Case(shown, on="hall.devices[0, 9, 17, 31]"),
    "one device": Case(fits, on="1 x gpu", layout="tp = 1"),
    "tp over pairs": Case(shown, layout="tp = 8", edits={"shape = switch": "shape = pairs; size = 2"}),
    "tp over a mesh": Case(shown, layout="tp = 8", edits={"shape = switch": "shape = mesh"}),
    "tp over a ring": Case(shown, layout="tp = 8", edits={"shape = switch": "shape = ring"}),
    "tp over a torus": Case(shown, layout="tp = 8", edits={"shape = switch": "shape = torus; dims = [2, 2, 2]"}),
    "tp over a bus": Case(
        shown, layout="tp = 8",
        edits={"shape = switch }": "shape = bus }; host { memory = 1 TB; bandwidth = 100 GB/s; link = wire }"},
    ),
    # --- layouts --------------------------------------------------------------------------------
    "as many stages as layers": Case(fits, layout="tp = 4; pp = 8"),
    "more stages than layers": Case(words="9 stages", layout="tp = 1; pp = 9"),
    "an odd number of replicas": Case(lambda p: exact(p, "gpus") == 28, layout="tp = 4; replicas = 7"),
    "more replicas than devices": Case(words="devices", layout="tp = 4; replicas = 1_000_000"),
    "tp past the KV heads": Case(lambda p: exact(p, "kv.copies") == 4, layout="tp = 16"),
    "tp of a billion": Case(words="1,000,000,000", layout="tp = 1_000_000_000"),
    "a sequence cut with runs": Case(fits, layout="tp = 8; attention { tp = 4; cp = 2; interleave = 16 tok }"),
    "runs longer than a request": Case(shown, layout="tp = 8; attention { tp = 4; cp = 2; interleave = 1 Gtok }"),
    "redundant experts": Case(
        fits, model=MOE, layout="attention { dp = 4 }; ffn { tp = 4 }; experts { ep = 4; redundant = 4 }"
    ),
    "redundant experts that do not divide": Case(
        words="divide", model=MOE, layout="attention { dp = 4 }; ffn { tp = 4 }; experts { ep = 4; redundant = 3 }"
    ),
    "ranks with their own requests, copied": Case(
        lambda p: exact(p, "gpus") == 16, layout="attention { dp = 4; tp = 2 }; ffn { tp = 8 }; replicas = 2"
    ),
    "latent split": Case(shown, model=MLA, layout="tp = 4; attention { tp = 4; latent = split; exact = false }"),
    # --- workloads ------------------------------------------------------------------------------
    "a context of 1 token": Case(
        lambda p: exact(p, "kv.bytes_per_request") == KV, edits={"context = 8 ktok": "context = 1 tok"}
    ),
    "a context of 10^12 tokens": Case(
        lambda p: exact(p, "kv.sequences") == 0, edits={"context = 8 ktok": "context = 1000 Gtok"}
    ),
    "10^12 requests": Case(
        lambda p: exact(p, "kv.sequences") < 10**6, edits={"16 req": "1_000_000_000_000 req"}
    ),
    "a trickle": Case(shown, workload="workload { prompt = 100 tok; output = 10 tok; rate = 0.001 req/s }"),
    "a flood": Case(shown, workload="workload { prompt = 100 tok; output = 10 tok; rate = 1_000_000_000 req/s }"),
    "no output": Case(shown, workload="workload { prompt = 100 tok; output = 0 tok; concurrency = 4 req }"),
    "no output at a rate": Case(shown, workload="workload { prompt = 100 tok; output = 0 tok; rate = 4 req/s }"),
    "no prompt": Case(words="at least 1 tok", workload="workload { prompt = 0 tok; output = 10 tok; concurrency = 4 req }"),
    "every prompt token found": Case(
        shown, workload="workload { prompt = 1 ktok; output = 10 tok; concurrency = 4 req; prefix_hits = 100 % }"
    ),
    "a common prefix longer than the context": Case(
        words="prefix_common", workload="workload { context = 1 ktok; concurrency = 4 req; prefix_common = 2 ktok }"
    ),
    "a common prefix as long as the context": Case(
        words="prefix_common", workload="workload { context = 1 ktok; concurrency = 4 req; prefix_common = 1 ktok }"
    ),
    "a common prefix of all but a token": Case(
        lambda p: exact(p, "kv.bytes_per_request") == KV * 1000,
        workload="workload { context = 1 ktok; concurrency = 4 req; prefix_common = 999 tok }",
    ),
    "classes": Case(
        shown,
        workload="workload { concurrency = 16 req; class short { share = 90 %; prompt = 100 tok; output = 10 tok }; "
        "class long { share = 10 %; prompt = 1 Mtok; output = 1 tok } }",
    ),
    "a class of nobody": Case(
        None,
        workload="workload { concurrency = 16 req; class all { share = 100 %; prompt = 100 tok; output = 10 tok }; "
        "class none { share = 0 %; prompt = 1 Mtok; output = 1 tok } }",
    ),
    # --- budgets and requirements ---------------------------------------------------------------
    "utilization 0 %": Case(lambda p: exact(p, "kv.tokens") == 0 and "KV141" in codes(p), rest="budget { utilization = 0 % }"),
    "utilization 100 %": Case(fits, rest="budget { utilization = 100 % }"),
    "a reserve larger than memory": Case(
        lambda p: exact(p, "kv.tokens") == 0, rest="budget { reserve = 1 TB }"
    ),
    "no room for the cache at all": Case(lambda p: exact(p, "kv.tokens") == 0, rest="budget { kv = 0 B }"),
    "a cache larger than memory": Case(None, rest="budget { kv = 1 TB }"),
    "an unknown code waived": Case(words="no rule KV999", rest='allow KV999 because "x"'),
    "a code waived that silences nothing": Case(shown, rest='allow KV101 because "x"'),
    "a requirement that divides by zero": Case(None, rest="require kv.tokens / (kv.copies - 1) >= 1 tok"),
    "prices of nothing": Case(None, rest="price = 0 USD/h per device"),
    "a price without end": Case(shown, rest="price = 1e12 USD/h per device"),
    # --- formats --------------------------------------------------------------------------------
    "a recipe by layers": Case(fits, weights="recipe { default = formats.bf16; layers[0..2] = formats.fp8 }", edits={"weights = recipe": "weights"}),
    "a recipe for layers that there are not": Case(
        None, weights="recipe { default = formats.bf16; layers[0..99] = formats.fp8 }", edits={"weights = recipe": "weights"}
    ),
    "values of one bit": Case(fits, hardware=HARDWARE + "format one { bits = 1 bit }\n", weights="one"),
    # --- several plans in one -------------------------------------------------------------------
    "a layout compared that does not fit": Case(
        lambda p: p.comparison is not None and [c.fits for c in p.comparison.columns][-1] is False,
        layouts="layout huge { tp = 64 }", rest="compare huge",
    ),
    "a layout compared with itself": Case(None, rest="compare main"),
    "a sweep with points that fail": Case(
        lambda p: len(p.sweeps[0].rows) == 4, rest="sweep { layout.tp = [1, 3, 4, 1000]; show = [kv.tokens] }"
    ),
    "a sweep of one point": Case(lambda p: len(p.sweeps[0].rows) == 1, rest="sweep { layout.tp = [1]; show = [kv.tokens] }"),
    "a sweep of nothing": Case(words="no values", rest="sweep { layout.tp = []; show = [kv.tokens] }"),
    "pools": Case(
        shown, on="", layout="", layouts="layout l { tp = 4 }",
        rest="pool prefill { on = hall.nodes[0]; layout = l }\n  pool decode { on = hall.nodes[1..3]; layout = l; replicas = 3 }\n"
        "  transfer { over = wire }\n  budget { reserve = 1 GB }",
        workload="workload { prompt = 1 ktok; output = 10 tok; rate = 4 req/s }",
    ),
    "pools with shares": Case(
        shown, on="", layout="", layouts="layout l { tp = 4 }",
        rest="pool prefill { on = hall.nodes[0]; layout = l }\n  pool one { role = decode; share = 1 %; on = hall.nodes[1]; layout = l }\n"
        "  pool two { role = decode; share = 99 %; on = hall.nodes[2]; layout = l }\n  transfer { over = wire }\n  budget { reserve = 1 GB }",
        workload="workload { prompt = 1 ktok; output = 10 tok; rate = 4 req/s }",
    ),
    "two pools on one device": Case(
        None, "", on="", layout="", layouts="layout l { tp = 4 }",
        rest="pool prefill { on = hall.nodes[0]; layout = l }\n  pool decode { on = hall.nodes[0]; layout = l }\n"
        "  transfer { over = wire }",
        workload="workload { prompt = 1 ktok; output = 10 tok; rate = 4 req/s }",
    ),
}  # fmt: skip


def compiled(case: Case) -> Compilation:
    with limited():
        compilation = compile_text(case.text, "silly.kvspec")
        draw_findings(compilation.report)
        draw_plans(compilation.plans)
        if compilation.plans:
            report_html(compilation.plans, "0")
        draw_graphs(case.text)
    return compilation


@pytest.mark.parametrize("name", CASES)
def test_a_silly_plan_gives_figures_or_a_reason(name: str) -> None:
    case = CASES[name]
    compilation = compiled(case)
    errors = [d for d in compilation.report.diagnostics if d.severity is Severity.ERROR]
    told = "\n".join(f"{d.code} {d.headline}" for d in errors)
    planned = [plan for plan in compilation.plans if not plan.unplanned]
    assert planned or errors
    if case.so is not None:
        assert planned, told
        assert case.so(planned[0]), told
    if case.words:
        assert case.words.lower() in told.lower()
