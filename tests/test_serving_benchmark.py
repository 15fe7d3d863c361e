"""The serving benchmark: how rows are read and mended, written as specs, and scored.

Rows are of aiconfigurator-core 0.12.0, systems/silicon_sample.csv (Apache-2.0), shortened; the
traps are those that its columns have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import kvdsl
from benchmarks import serving, serving_specs
from benchmarks.serving_fit import Fit, fit, softened, solved, stacks, table
from benchmarks.serving_predict import Prediction, groups, predict
from benchmarks.serving_rows import Reading, Row, Width, read, shape, stem
from benchmarks.serving_scores import errors, lines
from benchmarks.serving_text import pace

HEADER = (
    "id,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,"
    "moe_quant_mode,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,"
    "prefill_batch_size,prefill_num_workers,prefill_tp_size,prefill_pp_size,"
    "prefill_attention_dp_size,prefill_moe_tp_size,prefill_moe_ep_size,decode_batch_size,"
    "decode_num_workers,decode_tp_size,decode_pp_size,decode_attention_dp_size,"
    "decode_moe_tp_size,decode_moe_ep_size,silicon_ttft_ms,silicon_tpot_ms,silicon_concurrency,"
    "measured"
)
LLAMA = {
    "id": "2026_04_06_llama_3_1_70b_h100_sxm_vllm_fp8_agg_1024x1024_c16_tp4_ep1_260",
    "backend": "vllm", "model_path": "meta-llama/Llama-3.1-70B", "system": "h100_sxm",
    "precision": "fp8", "mode": "agg", "isl": "1024", "osl": "1024", "batch_size": "16.0",
    "tp_size": "4.0", "pp_size": "1.0", "attention_dp_size": "1.0", "moe_tp_size": "4.0",
    "moe_ep_size": "1.0", "silicon_ttft_ms": "121.1", "silicon_tpot_ms": "13.19",
    "silicon_concurrency": "16", "measured": "2025-10-08",
}  # fmt: skip
DEEPSEEK = {
    **LLAMA, "id": "dsr1_b200_sglang_fp4_agg_1024x1024_c8_cfg88", "backend": "sglang",
    "backend_version": "0.5.9", "model_path": "deepseek-ai/DeepSeek-V3", "system": "b200_sxm",
    "precision": "fp4", "silicon_concurrency": "8", "silicon_tpot_ms": "9.5",
    "measured": "2026-03-25",
}  # fmt: skip


def reading(tmp_path: Path, *rows: Mapping[str, str]) -> Reading:
    columns = HEADER.split(",")
    text = [HEADER, *(",".join(row.get(column, "") for column in columns) for row in rows)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return read([path])


def test_the_same_run_under_another_name_is_one_measurement(tmp_path: Path) -> None:
    copy = {**DEEPSEEK, "id": "2026_03_25_x", "model_path": "deepseek-ai/DeepSeek-R1",
            "silicon_tpot_ms": "9.5000001"}  # fmt: skip
    found = reading(tmp_path, DEEPSEEK, copy)
    assert len(found.rows) == 1
    assert found.repairs == {"copies of a measurement dropped": 1}


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (("64", "1", "8", "8"), Width(8, 1, 1, 8)),
        (("1", "16", "4", "4"), Width(1, 4, 1, 4)),
        (("4", "4", "1", "16"), Width(1, 4, 1, 4)),
        (("8", "1", "8", "1"), Width(8, 1, 8, 1)),
        (("1", "8", "1", "8"), Width(1, 8, 1, 8)),
    ],
)
def test_a_width_that_holds_tp_times_ep_is_mended(
    tmp_path: Path, columns: tuple[str, ...], wanted: Width
) -> None:
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    found = reading(tmp_path, {**DEEPSEEK, **dict(zip(names, columns, strict=True))})
    assert found.rows[0].layout == wanted


@pytest.mark.parametrize(("apart", "wanted"), [(1.01, Width(4, 1, 1, 4)), (1.2, Width(1, 4, 1, 4))])
def test_a_width_in_both_columns_is_dp_attention_unless_twins_of_tp_are_as_fast(
    tmp_path: Path, apart: float, wanted: Width
) -> None:
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    both, plain = (
        dict(zip(names, sizes, strict=True))
        for sizes in (("4", "4", "1", "16"), ("4", "1", "1", "4"))
    )
    rows = []
    for many, tpot in (("8", 9.5), ("16", 11.0), ("32", 14.0)):
        asked = {**DEEPSEEK, "id": f"2026_04_06_c{many}_tp4_ep4", "silicon_concurrency": many}
        slower = {"silicon_tpot_ms": f"{tpot * apart:.3f}", "measured": "2026-03-26"}
        rows += [{**asked, **both, "silicon_tpot_ms": f"{tpot}"}, {**asked, **plain, **slower}]
    found = reading(tmp_path, *rows)
    assert len(found.rows) == 6
    assert {row.layout for row in found.rows if row.doubled} == {wanted}
    (told,) = found.repairs
    assert found.repairs[told] == 3
    assert ("as fast as its twins" in told) == (apart < 1.03)


def test_suspicious_rows_are_set_aside_with_their_reason(tmp_path: Path) -> None:
    starved = {**LLAMA, "silicon_ttft_ms": "99999"}
    by_hand = {**LLAMA, "isl": "4000", "silicon_tpot_ms": "50"}
    found = reading(tmp_path, LLAMA, starved, by_hand)
    assert [row.id for row in found.rows] == [LLAMA["id"]]
    assert sorted(reason.split(":")[0] for _, reason in found.aside) == ["run by hand", "starved"]


def test_builds_that_draft_tokens_are_found_by_their_twins(tmp_path: Path) -> None:
    other = {**DEEPSEEK, "backend_version": "0.5.10", "measured": "2026-04-03",
             "silicon_tpot_ms": "5.5", "silicon_ttft_ms": "90"}  # fmt: skip
    found = reading(tmp_path, DEEPSEEK, other)
    assert [row.version for row in found.rows] == ["0.5.9"]
    assert "1.3 times slower" in found.aside[0][1]


def test_names_of_one_shape_are_one() -> None:
    assert stem("nvidia/Llama-3.1-8B-Instruct-FP8") == "llama_3_1_8b"
    assert shape("nvidia/DeepSeek-R1-NVFP4") == shape("deepseek-ai/DeepSeek-V3") == "deepseek_v3"
    assert serving_specs.model("moonshotai/Kimi-K2.5") == "kimi_k2_5"
    assert serving_specs.model("nvidia/Qwen3-235B-A22B-NVFP4") == "qwen3_235b_a22b"
    with pytest.raises(serving_specs.NoSpec, match="no model nobody/knows"):
        serving_specs.model("nobody/knows")


def test_names_that_the_catalog_has_otherwise_are_found() -> None:
    assert serving_specs.model("zai-org/GLM-5-FP8") == "glm_5_2"
    assert serving_specs.system("a100_sxm").device == "a100_sxm_80gb"
    assert serving_specs.system("gb200").whole == "racks.gb200_nvl72"
    with pytest.raises(serving_specs.NoSpec, match="no model microsoft/phi-9"):
        serving_specs.model("microsoft/phi-9")


def test_a_row_is_the_spec_that_a_user_would_write(tmp_path: Path) -> None:
    row = reading(tmp_path, LLAMA).rows[0]
    assert serving_specs.text(row) == (
        "kvspec 1\n\n"
        "deployment row {\n"
        "  model = models.llama_3_1_70b\n"
        "  weights {\n"
        "    default = formats.bf16\n"
        "    attention = formats.fp8\n"
        "    state_mixer = formats.fp8\n"
        "    ffn = formats.fp8\n"
        "    routed_experts = formats.fp8\n"
        "    shared_experts = formats.fp8\n"
        "  }\n"
        "  kv = formats.bf16\n"
        f"  {serving_specs.engine(row)}\n"
        "  limits { step = 8192 tok }\n"
        "  on = 1 x nodes.hgx_h100\n"
        "  layout { tp = 4 }\n"
        "  workload { prompt = 922 tok; output = 922 tok; concurrency = 16 req }\n"
        "}\n"
    )
    assert 'version = "0.12"' in serving_specs.engine(row)
    made = kvdsl.compile(serving_specs.text(row))
    assert float(made.plans[0].values["decode.tpot"].value) * 1e3 == pytest.approx(
        predict([row])[0][0].tpot, rel=1e-9
    )


def test_a_row_is_predicted_alike_alone_and_among_others(tmp_path: Path) -> None:
    rows = reading(tmp_path, LLAMA, DEEPSEEK, {**LLAMA, "silicon_concurrency": "64",
                                               "silicon_tpot_ms": "22"}).rows  # fmt: skip
    together = {p.row.id + str(p.row.concurrency): p.tpot for p in predict(rows)[0]}
    for row in rows:
        alone = predict([row])[0][0]
        assert alone.tpot == pytest.approx(together[row.id + str(row.concurrency)], rel=1e-12)


def test_what_cannot_be_predicted_is_refused_with_its_reason(tmp_path: Path) -> None:
    unknown = {**LLAMA, "system": "abacus", "silicon_tpot_ms": "1"}
    uneven = {**LLAMA, "tp_size": "3", "moe_tp_size": "3", "silicon_tpot_ms": "2"}
    wide = {**LLAMA, "model_path": "meta-llama/Llama-3.1-405B", "precision": "bf16",
            "tp_size": "1", "moe_tp_size": "1", "silicon_tpot_ms": "3"}  # fmt: skip
    found, refused = predict(reading(tmp_path, unknown, uneven, wide).rows)
    assert not found
    reasons = sorted(r.reason for r in refused)
    assert any("no device abacus" in reason for reason in reasons)
    assert any("no room" in reason or "weights" in reason for reason in reasons)
    assert len(reasons) == 3


@pytest.mark.parametrize(
    "path",
    ["meta-llama/Llama-3.1-70B", "META-LLAMA/LLAMA-3.1-70B", "nvidia/Llama-3.1-70B-Instruct-FP8",
     "nvidia/Llama-3.1-70B-Instruct-NVFP4", "/models/Llama-3.1-70B/", "Llama-3.1-70B-AWQ",
     "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", "x/Llama-3.1-70B-quantized.w4a16"],
)  # fmt: skip
def test_a_model_is_found_by_whatever_its_repository_is_called(path: str) -> None:
    assert serving_specs.model(path) == "llama_3_1_70b"


@pytest.mark.parametrize(
    ("said", "device"),
    [("h100", "h100_sxm"), ("H200", "h200_sxm"), ("a100", "a100_sxm_80gb"), ("gb200_sxm", "gb200"),
     ("h20", "h20_96gb"), ("rtx_pro_6000", "rtx_pro_6000_blackwell_server"),
     ("NVIDIA H100 80GB HBM3", "h100_sxm"),
     ("rtx-pro-6000-server", "rtx_pro_6000_blackwell_server"),
     ("h100_pcie", "h100_pcie"), ("mi300x", "mi300x")],
)  # fmt: skip
def test_a_system_is_found_by_whatever_it_is_called(said: str, device: str) -> None:
    assert serving_specs.system(said).device == device


@pytest.mark.parametrize("said", ["rtx", "gpu", "h", "l40"])
def test_a_system_without_its_number_is_none(said: str) -> None:
    with pytest.raises(serving_specs.NoSpec, match=f"no device {said}"):
        serving_specs.system(said)


def test_hosts_and_clusters_that_the_catalog_lacks_are_written_into_the_spec(
    tmp_path: Path,
) -> None:
    slots = {**LLAMA, "system": "h100_pcie", "silicon_tpot_ms": "30"}
    apart = {**LLAMA, "tp_size": "8", "moe_tp_size": "8", "pp_size": "2", "silicon_tpot_ms": "31"}
    rows = reading(tmp_path, slots, apart, LLAMA).rows
    assert "node host_of_h100_pcie { devices = 8 x devices.h100_pcie;" in serving_specs.text(
        rows[0]
    )
    assert "cluster of_2_hgx_h100 { nodes = 2 x nodes.hgx_h100;" in serving_specs.text(rows[1])
    found, refused = predict(rows)
    assert len(found) == 3
    assert not refused


def test_a_table_of_other_hands_is_read(tmp_path: Path) -> None:
    other = {**LLAMA, "backend": "TensorRT-LLM", "backend_version": "NaN", "precision": "W4A16",
             "mode": "aggregated", "system": "H100", "measured": "nan", "isl": "1024.0",
             "pp_size": "", "silicon_ttft_ms": "nan"}  # fmt: skip
    named = {**LLAMA, "precision": "", "model_path": "nvidia/Llama-3.1-70B-NVFP4",
             "silicon_tpot_ms": "7"}  # fmt: skip
    rows = reading(tmp_path, other, named).rows
    assert [row.precision for row in rows] == ["int4", "fp4"]
    assert (rows[0].engine, rows[0].version, rows[0].ttft) == ("trtllm", "", 0)
    assert len(predict(rows)[0]) == 2
    path = tmp_path / "other.csv"
    path.write_text("\ufeffextra,mode,silicon_tpot_ms\nx,agg,5\n", encoding="utf-8")
    assert "column is missing" in read([path]).refused[0].reason
    said = reading(tmp_path, {**LLAMA, "tp_size": "-4"}, {**LLAMA, "ep_size": "1", "tp_size": "x"})
    assert len(said.refused) == 2
    path.write_text("", encoding="utf-8")
    assert read([path]).lines == 0


def test_a_fit_takes_rows_with_and_without_collectives(tmp_path: Path) -> None:
    small = {**LLAMA, "model_path": "meta-llama/Llama-3.1-8B", "tp_size": "1", "moe_tp_size": "1",
             "silicon_tpot_ms": "7"}  # fmt: skip
    made, _ = groups(reading(tmp_path, LLAMA, small).rows)
    data = table(stacks(made))
    found = fit(data, steps=2)
    tpot, ttft = data.predicted(found.values)
    assert len(tpot) == len(ttft) == 2
    assert (tpot > 0).all()
    assert found.values["layer.vllm"] > 0


def test_scores_are_printed_in_their_fixed_form(tmp_path: Path) -> None:
    found = reading(tmp_path, LLAMA, DEEPSEEK)
    said = list(serving.scored(found))
    assert "rows: 2" in said
    assert "predicted: 2" in said
    assert "refused: 0 (0.0 %)" in said
    row = found.rows[0]
    some = [Prediction(row, 10.0 * n, 5.0, 20.0, 100.0, 1.0) for n in (1, 2)]
    assert errors([(11.0, 10.0), (8.0, 10.0)]) == "median 15.0 mean 15.0 p90 19.0"
    assert next(iter(lines(some))).startswith("TPOT all: median ")


def test_least_squares_find_constants_and_keep_their_bounds() -> None:
    x = np.linspace(1, 4, 30)
    y = 0.5 * x + 3
    logs, error = solved(
        lambda at: np.exp(at[0]) * x + np.exp(at[1]) - y, np.log([1.0, 1.0]),
        np.array([0.0, np.inf]), 30,
    )  # fmt: skip
    assert np.exp(logs) == pytest.approx([0.5, 3], rel=1e-4)
    assert (error < 1e-3).all()
    assert softened(np.array([0.01]), 0.15)[0] == pytest.approx(0.01, rel=1e-2)
    assert abs(softened(np.array([2.0]), 0.15)[0]) < 1


def test_a_fit_is_written_as_an_engine_reads_it() -> None:
    from benchmarks.serving_fit import FIRST, STEP, names_of, start

    begun = start(["vllm"])
    fit = Fit(begun, dict.fromkeys(names_of((*STEP, *FIRST), ["vllm"]), 0.05))
    block = pace(fit, "vllm", "2 rows", "0.13", {"tpot": (0.1, 0.3), "ttft": (0.3, 1.0)})
    text = (
        f'kvspec 1\nengine own {{\n  family = vllm\n  version = "1"\n{block}}}\n'
        "deployment run {\n  model = models.llama_3_1_8b\n  on = 1 x nodes.hgx_h100\n"
        "  weights = formats.bf16\n  kv = formats.bf16\n  engine = own\n  layout { tp = 1 }\n"
        "  workload { prompt = 1024 tok; output = 256 tok; concurrency = 4 req }\n}\n"
    )
    one = kvdsl.bulk(text)[0]
    assert one.refusal == ""
    assert one.pools[0].serving.constants.layer.value == pytest.approx(begun["layer.vllm"])


def test_rows_are_frozen(tmp_path: Path) -> None:
    row = reading(tmp_path, LLAMA).rows[0]
    assert isinstance(row, Row)
    with pytest.raises(AttributeError):
        row.tpot = 1.0  # type: ignore[misc]
