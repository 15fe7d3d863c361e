"""Silly layouts, workloads, budgets and requirements, and several plans in one."""

from __future__ import annotations

from tests.silly.case import (
    HARDWARE,
    KV,
    MLA,
    MOE,
    Case,
    codes,
    figure,
    figures,
    fits,
    none_fit,
    undecoded,
)

EXPERTS = "attention { dp = 4 }; ffn { tp = 4 }; experts { ep = 4; redundant = "

LAYOUTS: dict[str, Case] = {
    "as many stages as layers": Case(fits, layout="tp = 4; pp = 8"),
    "more stages than layers": Case(words="9 stages", layout="tp = 1; pp = 9"),
    "an odd number of replicas": Case(
        lambda p: figure(p, "gpus") == 28, layout="tp = 4; replicas = 7"
    ),
    "more replicas than devices": Case(words="devices", layout="tp = 4; replicas = 1_000_000"),
    "tp past the KV heads": Case(lambda p: figure(p, "kv.copies") == 4, layout="tp = 16"),
    "tp of a billion": Case(words="1,000,000,000", layout="tp = 1_000_000_000"),
    "a sequence cut in runs": Case(
        fits, layout="tp = 8; attention { tp = 4; cp = 2; interleave = 16 tok }"
    ),
    "runs longer than a request": Case(
        figures, layout="tp = 8; attention { tp = 4; cp = 2; interleave = 1 Gtok }"
    ),
    "redundant experts": Case(fits, model=MOE, layout=f"{EXPERTS}4 }}"),
    "redundant experts that do not divide": Case(
        words="divide", model=MOE, layout=f"{EXPERTS}3 }}"
    ),
    "ranks with their own requests, copied": Case(
        lambda p: figure(p, "gpus") == 16,
        layout="attention { dp = 4; tp = 2 }; ffn { tp = 8 }; replicas = 2",
    ),
    "a latent that is split": Case(
        figures, model=MLA, layout="tp = 4; attention { tp = 4; latent = split; exact = false }"
    ),
}

OWN = "prompt = 100 tok; output = 10 tok"

WORKLOADS: dict[str, Case] = {
    "a context of 1 token": Case(
        lambda p: figure(p, "kv.bytes_per_request") == KV,
        workload="context = 1 tok; concurrency = 16 req",
    ),
    "a context of 10^12 tokens": Case(
        lambda p: figure(p, "kv.sequences") == 0,
        workload="context = 1000 Gtok; concurrency = 1 req",
    ),
    "10^12 requests": Case(
        lambda p: figure(p, "kv.sequences") < 10**6,
        workload="context = 8 ktok; concurrency = 1_000_000_000_000 req",
    ),
    "a trickle": Case(figures, workload=f"{OWN}; rate = 0.001 req/s"),
    "a flood": Case(lambda p: "KV203" in codes(p), workload=f"{OWN}; rate = 1_000_000_000 req/s"),
    "no output": Case(undecoded, workload="prompt = 9 tok; output = 0 tok; concurrency = 4 req"),
    "no output at a rate": Case(
        undecoded, workload="prompt = 9 tok; output = 0 tok; rate = 4 req/s"
    ),
    "no prompt": Case(
        words="at least 1 tok", workload="prompt = 0 tok; output = 10 tok; concurrency = 4 req"
    ),
    "every prompt token found": Case(
        lambda p: figure(p, "prefill.throughput") > 0,
        workload=f"{OWN}; concurrency = 4 req; prefix_hits = 100 %",
    ),
    "a common prefix longer than the context": Case(
        words="prefix_common",
        workload="context = 1 ktok; concurrency = 4 req; prefix_common = 2 ktok",
    ),
    "a common prefix as long as the context": Case(
        words="prefix_common",
        workload="context = 1 ktok; concurrency = 4 req; prefix_common = 1 ktok",
    ),
    "a common prefix of all but a token": Case(
        lambda p: figure(p, "kv.bytes_per_request") == KV * 1000,
        workload="context = 1 ktok; concurrency = 4 req; prefix_common = 999 tok",
    ),
    "classes": Case(
        figures,
        workload=f"concurrency = 16 req; class short {{ share = 90 %; {OWN} }}; "
        "class long { share = 10 %; prompt = 1 Mtok; output = 1 tok }",
    ),
    "a class of nobody": Case(
        workload=f"concurrency = 16 req; class all {{ share = 100 %; {OWN} }}; "
        "class none { share = 0 %; prompt = 1 Mtok; output = 1 tok }",
    ),
}

BUDGETS: dict[str, Case] = {
    "utilization 0 %": Case(
        lambda p: none_fit(p) and "KV141" in codes(p), rest="budget { utilization = 0 % }"
    ),
    "utilization 100 %": Case(fits, rest="budget { utilization = 100 % }"),
    "a reserve larger than memory": Case(none_fit, rest="budget { reserve = 1 TB }"),
    "no room for the cache at all": Case(none_fit, rest="budget { kv = 0 B }"),
    "a cache larger than memory": Case(rest="budget { kv = 1 TB }"),
    "an unknown code waived": Case(words="the code `KV999`", rest='allow KV999 because "x"'),
    "a code waived that silences nothing": Case(figures, rest='allow KV101 because "x"'),
    "a requirement that divides by zero": Case(
        rest="require kv.tokens / (kv.copies - 1) >= 1 tok"
    ),
    "a price of nothing": Case(rest="price = 0 USD/h per device"),
    "a price without end": Case(figures, rest="price = 1e12 USD/h per device"),
    "a recipe by layers": Case(
        fits, weights="{ default = formats.bf16; layers[0..2] = formats.fp8 }"
    ),
    "a recipe for layers that there are not": Case(
        weights="{ default = formats.bf16; layers[0..99] = formats.fp8 }"
    ),
    "values of one bit": Case(
        fits, hardware=HARDWARE + "format one { bits = 1 bit }\n", weights="= one"
    ),
}  # fmt: skip

RATE = "prompt = 1 ktok; output = 10 tok; rate = 4 req/s"
PREFILL = "pool prefill { on = hall.nodes[0]; layout = l }\n  "
REST = "\n  transfer { over = wire }\n  budget { reserve = 1 GB }"


def pools(so: object, *decode: str) -> Case:
    """Prefill on the first node, and what decodes."""
    assert so is None or callable(so)
    rest = PREFILL + "\n  ".join(decode) + REST
    return Case(so, on="", layout="", layouts="layout l { tp = 4 }", rest=rest, workload=RATE)


SEVERAL: dict[str, Case] = {
    "a layout compared that does not fit": Case(
        lambda p: p.comparison is not None and not p.comparison.columns[-1].fits,
        layouts="layout huge { tp = 64 }",
        rest="compare huge",
    ),
    "a layout compared with itself": Case(rest="compare main"),
    "a sweep with points that fail": Case(
        lambda p: [bool(why) for why in p.sweeps[0].reasons] == [False, True, False, True],
        rest="sweep { layout.tp = [1, 3, 4, 1000]; show = [kv.tokens] }",
    ),
    "a sweep of one point": Case(
        lambda p: len(p.sweeps[0].rows) == 1, rest="sweep { layout.tp = [1]; show = [kv.tokens] }"
    ),
    "a sweep of nothing": Case(
        words="no values", rest="sweep { layout.tp = []; show = [kv.tokens] }"
    ),
    "pools": pools(figures, "pool decode { on = hall.nodes[1..3]; layout = l; replicas = 3 }"),
    "pools with shares": pools(
        figures,
        "pool one { role = decode; share = 1 %; on = hall.nodes[1]; layout = l }",
        "pool two { role = decode; share = 99 %; on = hall.nodes[2]; layout = l }",
    ),
    "two pools on one device": pools(None, "pool decode { on = hall.nodes[0]; layout = l }"),
}
