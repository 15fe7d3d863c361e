"""Laws of sweeps: points evaluated together answer what each answers alone, and what is placed by
the same is compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvdsl.plan import SweepTable
from kvdsl.planning import sweeps as module
from kvdsl.planning.deploy import outcome
from kvdsl.planning.loads import answers
from kvdsl.planning.sweeps import sweeps
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.changes import Change
from kvdsl.resolve.resolver import Resolver

CATALOG = Catalog()
"""Read once for all tests here."""

SPEC = """kvspec 1

cluster pair {{ nodes = 2 x nodes.hgx_h200; fabric = links.infiniband_ndr }}

layout pp2 {{ tp = 8; pp = 2 }}
layout dp8 {{ attention {{ dp = 8 }}; ffn {{ tp = 8 }} }}
workload short {{ prompt = 1 ktok; output = 9 tok; concurrency = 4 req }}
workload long  {{ context = 4 ktok; concurrency = 4 req }}

layout cp2 {{ tp = 8; attention {{ tp = 4; cp = 2 }} }}

deployment run {{
  model    = models.{model}
  weights  = formats.fp8
  kv       = formats.bf16
  on       = pair
  {more}
  budget   {{ utilization = 90 %; reserve = 4 GB }}
  workload {{ {load} }}
  sweep    {{ {axes}; show = [{show}] }}
}}
"""
TIMES = (
    "decode.tpot, decode.prompts, decode.kv_read, decode.kv_read_mean, decode.collectives, "
    "decode.throughput"
)
SHOW = (
    f"{TIMES}, prefill.ttft, prefill.throughput, kv.tokens, kv.sequences, kv.bytes_per_request, "
    "kv.copies, kv.tokens_per_rank, memory.free, memory.weights, cost.per_mtok, cost.per_hour, "
    "workload.concurrency, workload.prompt, layout.tp, gpus"
)
MIXED = "prompt = 2 ktok; output = 300 tok; concurrency = 20 req"
COUNTS = "workload.concurrency = [1 req, 7 req, 64 req, 900 req, 40_000 req]"
PROMPTS = "workload.prompt = [100 tok, 2 ktok, 30 ktok]"
RATES = "workload.rate = [0.5 req/s, 3 req/s, 40 req/s, 4000 req/s]"
LAYOUT = "layout { tp = 8 }"
VLLM = "engine = engines.vllm_0_33"

CASES = {
    "loads": ("llama_3_1_70b", LAYOUT, MIXED, f"{COUNTS}; {PROMPTS}"),
    "engine": ("llama_3_1_70b", f"{LAYOUT}; {VLLM}", MIXED, f"{COUNTS}; {PROMPTS}"),
    "layouts": ("qwen3_30b_a3b", "layout = pp2", MIXED, f"layout = [pp2, dp8, cp2]; {COUNTS}"),
    "engine_layouts": (
        "qwen3_30b_a3b", f"layout = pp2; {VLLM}", MIXED, f"{COUNTS}; layout = [pp2, dp8]",
    ),
    "context": (
        "deepseek_v3", "layout { attention { dp = 8 }; experts { ep = 8 } }",
        "context = 8 ktok; concurrency = 8 req",
        f"workload.context = [100 tok, 4 ktok, 90 ktok]; {COUNTS}",
    ),
    "rates": ("llama_3_1_70b", LAYOUT, "prompt = 2 ktok; output = 300 tok; rate = 1 req/s",
              f"{RATES}; {PROMPTS}"),
    "turns": (
        "llama_3_1_70b", "layout = pp2", "prompt = 2 ktok; output = 3 tok; rate = 1 req/s",
        f"{RATES}; workload.prompt = [10 tok, 30 ktok]; workload.output = [0 tok, 1 tok, 90 tok]",
    ),
    "clients": (
        "llama_3_1_70b", LAYOUT, MIXED,
        f"{COUNTS}; workload.prompt = [10 tok, 30 ktok]; workload.output = [0 tok, 1 tok, 90 tok]",
    ),
    "odd": ("llama_3_1_70b", LAYOUT, "prompt = 2 ktok; output = 101 tok; concurrency = 9 req",
            PROMPTS),
    "odd_engine": ("llama_3_1_70b", f"{LAYOUT}; {VLLM}",
                   "prompt = 2 ktok; output = 101 tok; rate = 1 req/s", PROMPTS),
    "engine_rates": (
        "llama_3_1_70b", f"{LAYOUT}; {VLLM}", "prompt = 2 ktok; output = 300 tok; rate = 1 req/s",
        f"{RATES}; {PROMPTS}",
    ),
    "hits": ("gemma_3_27b", LAYOUT, f"{MIXED}; prefix_common = 90 tok",
             f"workload.prefix_hits = [0 %, 30 %, 100 %]; {PROMPTS}; {COUNTS}"),
    "common": ("llama_3_1_70b", LAYOUT, MIXED,
               f"workload.prefix_common = [0 tok, 90 tok, 200 tok, 9 ktok]; {PROMPTS}"),
    "outputs": ("gpt_oss_20b", f"{LAYOUT}; {VLLM}", MIXED,
                "workload.output = [0 tok, 1 tok, 900 tok, 40 ktok]; " + COUNTS),
    "states": ("qwen3_next_80b_a3b", f"{LAYOUT}; {VLLM}", MIXED, f"{PROMPTS}; {COUNTS}"),
    "sglang": ("gemma_3_27b", f"{LAYOUT}; engine = engines.sglang_0_5_23", MIXED,
               f"{PROMPTS}; {COUNTS}"),
    "faults": ("llama_3_1_70b", LAYOUT, MIXED,
               f"layout.tp = [3, 8, 64]; workload.prompt = [0 tok, 2 ktok, 3 ktok]; {COUNTS}"),
    "workloads": (
        "llama_3_1_70b", LAYOUT, MIXED,
        f"workload = [short, long]; {COUNTS}",
    ),
    "classes": (
        "llama_3_1_70b", LAYOUT,
        "concurrency = 9 req; prompt = 900 tok; output = 90 tok; class a { share = 40 % }; "
        "class b { share = 60 %; prompt = 8 ktok; output = 5 tok }", f"{COUNTS}; {PROMPTS}",
    ),
    "pools": (
        "llama_3_1_70b",
        f"{VLLM}; pool prefill {{ on = pair.nodes[0]; layout {{ tp = 8 }} }}; "
        "pool decode { on = pair.nodes[1]; layout { tp = 8 } }; "
        "transfer { over = links.infiniband_ndr }",
        MIXED, f"{COUNTS}; {PROMPTS}",
    ),
}  # fmt: skip


def tables(text: str) -> tuple[SweepTable, ...]:
    resolver = Resolver(load_text(text, catalog=CATALOG))
    deployment, found = resolver.deployment("run")
    assert deployment is not None, [d.headline for d in found]
    return sweeps(resolver, deployment, (), None)


def unlike(one: SweepTable, other: SweepTable) -> Iterator[Any]:
    """Where two tables differ: whole figures in anything, times by more than rounding."""
    for number, ((point, figures), (same, others)) in enumerate(
        zip(one.rows, other.rows, strict=True)
    ):
        if (point, one.reason(number)) != (same, other.reason(number)):
            yield point, one.reason(number), same, other.reason(number)
        for name, a, b in zip(one.shown, figures, others, strict=True):
            if a is None or b is None:
                if a is not b:
                    yield point, name, a, b
            elif a.dimension != b.dimension or not (
                float(a.value) == pytest.approx(float(b.value), rel=1e-9)
                if isinstance(b.value, float) or name == "memory.free"
                else a.value == b.value
            ):
                yield point, name, a, b


@pytest.mark.parametrize("case", CASES)
def test_points_together_answer_what_each_answers_alone(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, more, load, axes = CASES[case]
    text = SPEC.format(model=model, more=more, load=load, axes=axes, show=SHOW)
    (together,) = tables(text)
    monkeypatch.setattr(module._Variants, "family", lambda self, point: point)
    (alone,) = tables(text)
    assert (together.axes, together.shown) == (alone.axes, alone.shown)
    assert list(unlike(together, alone)) == []
    assert any(figure is not None for _, figures in together.rows for figure in figures)


def test_ten_thousand_points_are_compiled_as_often_as_there_are_layouts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    evaluated: list[int] = []

    def counted(deployment: Any, *rest: Any) -> Any:
        compiled.append(deployment.name)
        return outcome(deployment, *rest)

    def many(made: Any, loads: Any, names: Any) -> Any:
        evaluated.append(len(loads))
        return answers(made, loads, names)

    monkeypatch.setattr(module, "outcome", counted)
    monkeypatch.setattr(module, "answers", many)
    prompts = ", ".join(f"{100 * n} tok" for n in range(1, 51))
    counts = ", ".join(f"{n} req" for n in range(1, 101))
    axes = f"workload.prompt = [{prompts}]; layout = [pp2, cp2]; workload.concurrency = [{counts}]"
    text = SPEC.format(
        model="llama_3_1_70b", more="layout = pp2", load=MIXED, axes=axes, show=TIMES
    )
    (table,) = tables(text)
    assert len(table.rows) == 10_000
    assert [point[1] for point, _ in table.rows[99:101]] == ["pp2", "cp2"]
    assert all(figure is not None for _, figures in table.rows for figure in figures)
    assert (len(compiled), evaluated) == (2, [5_000, 5_000])


REQUIRED = (
    "require decode.tpot <= 22 ms; require kv.sequences >= workload.concurrency "
    "when workload.prompt >= 2 ktok; require max(memory.free, 1 GB) >= 1 GB; "
    "expect decode.tpot <= 1 ms"
)


@pytest.mark.parametrize(
    "case", ["loads", "engine", "layouts", "rates", "turns", "engine_rates", "faults", "classes"]
)
def test_a_point_holds_what_its_plan_holds(case: str) -> None:
    model, more, load, axes = CASES[case]
    text = SPEC.format(model=model, more=f"{more}; {REQUIRED}", load=load, axes=axes, show="gpus")
    resolver = Resolver(load_text(text, catalog=CATALOG))
    deployment, faults = resolver.deployment("run")
    assert deployment is not None, faults
    (table,) = sweeps(resolver, deployment)
    (sweep,) = deployment.sweeps
    assert len({*table.holds} - {None}) == 2, "a case in which some hold and some fail"
    for number, (point, _) in enumerate(table.rows):
        if table.reason(number) and number not in table.unserved:
            assert table.holds[number] is None
            continue
        made = [
            Change(axis.path, next(v for v in axis.values if said in v.span.text), axis.at)
            for axis, said in zip(sweep.axes, point, strict=True)
        ]
        plain, _ = resolver.variant("run", made)
        assert plain is not None
        alone = outcome(plain)
        refused = {told.rule.code for told in alone.told} & {"KV203", "KV215"}
        assert (number in table.unserved) is bool(refused), point
        if refused:
            assert table.holds[number] is False
            assert table.verdict(number) == "not served"
            continue
        asked = [one.result for one in alone.judged if one.result.keyword == "require"]
        statuses = {result.status for result in asked} - {"skipped"}
        expected = False if "fails" in statuses else None if "unanswered" in statuses else True
        assert table.holds[number] is expected, point
