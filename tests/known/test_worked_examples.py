"""The two worked deployments of `specs/examples`, figure by figure, to the byte."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from kvdsl.diagnostics import Severity
from kvdsl.pipeline import compile_path
from kvdsl.plan import Plan
from kvdsl.resolve.changes import Change
from tests.known.published import finding, quantity, rows

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "specs" / "examples"
LLAMA = ("llama_405b_tp16", "llama_405b")
DEEPSEEK = ("deepseek_v3_dp_attention", "deepseek_v3")


@cache
def plan(example: tuple[str, str], **changes: str) -> Plan:
    file, deployment = example
    overrides = [Change(path.replace("__", "."), value) for path, value in changes.items()]
    return compile_path(str(EXAMPLES / f"{file}.kvspec"), overrides).plan(deployment)


def milliseconds(shown: Plan, name: str) -> float:
    return float(shown.value(name).value) * 1000


@pytest.mark.parametrize("example", [LLAMA, DEEPSEEK])
def test_a_worked_deployment_has_no_error_and_meets_all_it_requires(
    example: tuple[str, str],
) -> None:
    found = plan(example)
    assert [f.code for f in found.findings if f.severity is Severity.ERROR] == []
    assert {r.status for r in found.requirements} == {"holds"}


@pytest.mark.parametrize(
    ("name", "layout", "figure"),
    [
        ("kv.bytes_per_token", "tp8_pp2", 516_096),
        ("kv.bytes_per_token_per_gpu", "tp8_pp2", 32_256),
        ("kv.bytes_per_token_per_gpu", "two_tp8", 64_512),
        ("kv.bytes_per_token_per_gpu", "tp16", 64_512),
        ("kv.copies", "tp8_pp2", 1),
        ("kv.copies", "tp16", 2),
        ("kv.tokens", "tp8_pp2", 1_402_348),
        ("kv.tokens", "tp16", 701_174),
        # 615,957 is the floor of twice 307,978.77; a token lies in one replica or the other.
        ("kv.tokens", "two_tp8", 615_956),
        ("kv.tokens_per_rank", "two_tp8", 307_978),
        ("memory.weights", "two_tp8", 50_731_673_600),
        ("memory.weights", "tp16", 25_365_836_800),
        ("model.parameters", "tp8_pp2", 405_853_388_800),
        ("gpus", "tp8_pp2", 16),
    ],
)
def test_llama_405b_has_the_worked_figure(name: str, layout: str, figure: int) -> None:
    assert plan(LLAMA, layout=layout).value(name).value == figure


@pytest.mark.parametrize(
    ("name", "layout", "figure"),
    [
        ("kv.bytes_per_token", "dp_ep", 70_272),
        ("kv.bytes_per_token_per_gpu", "dp_ep", 70_272),
        ("kv.bytes_per_token_per_gpu", "tp8", 70_272),
        ("kv.copies", "dp_ep", 1),
        ("kv.copies", "mixed", 2),
        ("kv.copies", "tp8", 8),
        ("kv.tokens", "dp_ep", 4_081_832),
        ("kv.tokens", "mixed", 2_365_756),
        ("kv.tokens", "tp8", 652_346),
        ("kv.sequences", "dp_ep", 992),
        ("kv.sequences", "mixed", 576),
        ("kv.sequences", "tp8", 159),
        ("memory.weights", "dp_ep", 93_865_156_032),
        ("memory.weights", "tp8", 83_878_302_400),
        ("model.parameters", "dp_ep", 671_026_419_200),
    ],
)
def test_deepseek_v3_has_the_worked_figure(name: str, layout: str, figure: int) -> None:
    assert plan(DEEPSEEK, layout=layout).value(name).value == figure


def test_a_comparison_shows_the_other_layouts_own_figures() -> None:
    for example, layouts in ((LLAMA, ("tp16", "two_tp8")), (DEEPSEEK, ("tp8", "mixed"))):
        compared = plan(example).comparison
        assert compared is not None
        columns = {column.name: column.values for column in compared.columns}
        for layout in layouts:
            alone = plan(example, layout=layout)
            for name in ("kv.tokens", "kv.bytes_per_token_per_gpu", "memory.weights"):
                assert columns[layout][name] == alone.value(name)


def test_data_parallel_attention_holds_six_and_a_quarter_times_the_tokens() -> None:
    wide, copied = (plan(DEEPSEEK, layout=name) for name in ("dp_ep", "tp8"))
    ratio = wide.value("kv.tokens").value / copied.value("kv.tokens").value
    assert round(float(ratio), 2) == 6.26
    told = finding(copied, "KV105").alternative
    assert told is not None
    assert next(c.ratio for c in told.changes if c.name == "kv.tokens") == pytest.approx(ratio)


def test_159_requests_read_their_latent_in_the_worked_times() -> None:
    wide, copied = (
        plan(DEEPSEEK, layout=name, workload__concurrency="159 req") for name in ("dp_ep", "tp8")
    )
    assert round(milliseconds(copied, "decode.kv_read"), 2) == 9.53
    # 159 = 7 x 20 + 19: the step waits for the ranks that hold twenty.
    assert round(milliseconds(wide, "decode.kv_read"), 3) == 1.199
    assert round(milliseconds(wide, "decode.kv_read_mean"), 3) == 1.192
    assert round(milliseconds(wide, "decode.weight_read.attention"), 2) == 2.38
    assert round(milliseconds(copied, "decode.weight_read.attention"), 2) == 0.30


def test_tp16_sends_252_layer_all_reduces_across_nodes_and_the_vocabulary_one_more() -> None:
    crossing = plan(LLAMA, layout="tp16")
    assert quantity(crossing, "KV104", "all-reduces across").value == 252
    counts = {r.module: r.count for r in rows(crossing, "all-reduce")}
    assert counts == {"embedding": 1, "attention": 126, "ffn": 126}
    assert not any(r.fast for r in rows(crossing, "all-reduce"))
    inside = plan(LLAMA)
    assert all(r.fast for r in rows(inside, "all-reduce"))
    assert sum(r.count for r in rows(inside, "all-reduce")) == 253
    assert [r.count for r in rows(inside, "send")] == [1]
