"""Which row of a library's tables a device's generation has, and what is said where it borrows."""

from __future__ import annotations

import pytest

from kvdsl.pipeline import compile_text, quoter
from kvdsl.planning.quotes import Question
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.backends import way_of

SPEC = """kvspec 1
library mine {{
  family      = mine
  generations = [volta, ampere, ada, hopper, blackwell, rubin]
  algorithm ring {{
    does       = [all_reduce, all_gather, reduce_scatter]
    way        = ring
    launch     {{ {launch} }}
    efficiency = 80 %
  }}
}}
device card extends devices.h100_sxm {{ generation = {generation} }}
node box {{ devices = 4 x card; scale_up {{ link = links.nvlink4 }} }}
engine own {{ family = vllm; version = "1"; block = 16 tok; libraries = [mine] }}
deployment served {{
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  engine   = own
  on       = 1 x box
  layout   {{ tp = 4 }}
  budget   {{ reserve = 3 GB }}
  workload {{ context = 8 ktok; concurrency = 8 req }}
}}
"""
ROWS = "ampere = 8 us; hopper = 4 us; blackwell = 7 us"
ASKED = Question("all_reduce", 4, 8)


@pytest.mark.parametrize(
    ("generation", "rows", "lent"),
    [
        ("hopper", ROWS, ""),
        ("rubin", ROWS, "blackwell"),
        ("volta", ROWS, "ampere"),
        ("ada", ROWS, "ampere"),  # as near to hopper: the older
        ("cdna3", ROWS, "ampere"),  # in no order: the first
        ("rubin", ROWS + "; other = 9 us", "other"),
        ("rubin", "other = 9 us", "other"),
    ],
)
def test_a_generation_without_a_row_borrows_the_nearest(
    generation: str, rows: str, lent: str
) -> None:
    source = quoter(SPEC.format(launch=rows, generation=generation))
    found = source.quote("box", ASKED, ["mine"])
    assert (found.lent, found.basis) == (lent, "borrowed" if lent else "fitted")
    time = dict(part.split(" = ") for part in rows.split("; "))[lent or generation]
    assert found.time == pytest.approx(float(time.removesuffix(" us")) * 1e-6, rel=1e-3)
    row = next(leaf for leaf in found.term.leaves() if leaf.label.startswith("launch"))
    assert row.label == f"launch ({lent or generation})"
    assert row.note == (f"borrowed: no row for {generation}" if lent else "")


def test_a_row_for_all_generations_is_borrowed_by_none() -> None:
    text = SPEC.replace("launch     {{ {launch} }}", "launch     = 5 us")
    found = quoter(text.format(generation="rubin")).quote("box", ASKED, ["mine"])
    assert (found.lent, found.basis) == ("", "fitted")


def test_a_plan_says_which_row_its_collectives_borrow() -> None:
    plan = compile_text(SPEC.format(launch=ROWS, generation="rubin")).plan("served")
    rows = [row for row in plan.collectives if row.kind == "all-reduce"]
    assert rows
    assert {(row.basis, row.lent) for row in rows} == {("borrowed", "blackwell")}


DEEPEP = """kvspec 1
cluster two { nodes = 2 x nodes.hgx_h200; fabric = links.infiniband_ndr }
deployment served {
  model    = models.deepseek_v3; weights = recipes.deepseek_v3_fp8; kv = formats.bf16
  engine extends engines.sglang_0_5_23 { all_to_all = WORD }
  on       = two
  layout   { attention { dp = 16 }; experts { ep = 16 } }
  workload { prompt = 4 ktok; output = 1 ktok; concurrency = 256 req }
}
"""


@pytest.mark.parametrize(
    ("word", "decode", "prefill"),
    [
        ("deepep", "low latency", "normal"),  # `--deepep-mode auto`
        ("deepep_low_latency", "low latency", "low latency"),
        ("deepep_normal", "normal", "normal"),
    ],
)
def test_a_backend_may_mean_other_kernels_in_prefill(word: str, decode: str, prefill: str) -> None:
    plan = compile_text(DEEPEP.replace("WORD", word)).plan("served")
    found = {row.phase: row.algorithm for row in plan.collectives if "dispatch" in row.algorithm}
    assert found == {"decode": f"{decode} dispatch", "prefill": f"{prefill} dispatch"}


def test_a_backend_goes_where_the_algorithms_that_name_it_send() -> None:
    both = "libraries = [libraries.deepep, libraries.tensorrt_llm_one_sided]"
    text = DEEPEP.replace("WORD", f"deepep; {both}")
    deployment, _ = Resolver(load_text(text, catalog=Catalog())).deployment("served")
    assert deployment is not None
    engine = deployment.pools[""].engine
    assert engine is not None
    for library in engine.libraries:
        for algorithm in library.algorithms.values():
            words = algorithm.words("decode")
            assert {way_of(word) for word in words} <= {algorithm.way}, algorithm.name


SENT = """kvspec 1
library quick extends libraries.deepep {
  algorithm low_latency_dispatch { backend = [nixl_ep] }
  algorithm low_latency_combine  { backend = [nixl_ep] }
}
engine house extends engines.vllm_0_33 {
  libraries  = [libraries.vllm_kernels, LIBRARY, libraries.nccl]
  all_to_all = allgather_reducescatter
}
deployment prod {
  model    = models.deepseek_v3
  weights  = recipes.deepseek_v3_fp8
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h200
  engine   = house
  layout   { attention { dp = 8 }; experts { ep = 8 } }
  budget   { reserve = 4 GB }
  workload { prompt = 4 ktok; output = 500 tok; concurrency = 64 req }
}
"""


@pytest.mark.parametrize(
    ("library", "word"), [("quick", "nixl_ep"), ("libraries.deepep", "deepep_low_latency")]
)
def test_a_backend_that_is_suggested_is_one_that_the_engines_libraries_have(
    library: str, word: str
) -> None:
    made = compile_text(SENT.replace("LIBRARY", library)).plan("prod")
    (told,) = [f for f in made.findings if f.code == "KV122"]
    assert told.alternative is not None
    assert told.alternative.title == f"all_to_all = {word}"
    assert told.diagnostic.headline == (
        "`all_to_all = allgather_reducescatter` sends each token to every rank of EP=8, and its "
        "experts lie on 5.295 ranks on average"
    )
    assert told.diagnostic.helps == (
        "choose a backend that sends tokens to their experts alone, in the engine: `engine mine "
        f"extends house {{ all_to_all = {word} }}`, and `engine = mine`",
    )
    moved = {c.name: (c.before.value, c.after.value) for c in told.alternative.changes}
    before, after = moved["decode.collectives"]
    assert after < before


def test_an_engine_without_a_name_is_told_the_line_alone() -> None:
    text = SENT.replace("LIBRARY", "libraries.deepep")
    inline = "engine extends house { all_to_all = allgather_reducescatter }"
    text = text.replace("engine   = house", inline)
    (told,) = [f for f in compile_text(text).plan("prod").findings if f.code == "KV122"]
    assert told.diagnostic.helps == (
        "choose a backend that sends tokens to their experts alone, in the engine: "
        "`all_to_all = deepep_low_latency`",
    )


@pytest.mark.parametrize(
    ("model", "ep", "few"),
    [
        ("deepseek_v3", 8, "EP=4 a token reaches 3.614 of them"),
        ("gpt_oss_120b", 8, "EP=2 a token reaches 1.881 of them"),
        ("gpt_oss_120b", 4, "EP=2 a token reaches 1.881 of them"),
    ],
)
def test_what_flips_a_gather_is_fewer_ranks_than_it_is_told_at(
    model: str, ep: int, few: str
) -> None:
    layout = f"attention {{ dp = {ep} }}; experts {{ ep = {ep} }}; ffn {{ tp = {ep} }}"
    (made,) = compile_text(
        "kvspec 1\n"
        f"deployment prod {{ model = models.{model}; weights = formats.fp8; kv = formats.bf16\n"
        f"  on = 1 x racks.gb200_nvl72; layout {{ {layout} }}; engine = engines.vllm_0_33\n"
        "  budget { reserve = 6 GB }; workload { context = 2 ktok; concurrency = 512 req } }\n"
    ).plans
    (told,) = [f for f in made.findings if f.code == "KV122"]
    assert told.flips == f"few ranks: at {few} anyway"
