"""What names, inheritance, expressions and overrides mean, each rule in a sentence."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from kvdsl.project.loader import load, load_text
from kvdsl.resolve.resolver import Change, Resolver
from kvdsl.spec.declaration import Block, Declaration, Origin
from kvdsl.spec.deployment import Deployment, Pool
from kvdsl.spec.hardware import Cluster, Device, Selection
from kvdsl.spec.layout import Layout
from kvdsl.spec.model import Model
from tests.plain import plain

BASE = """\
layout tp8 { tp = 8 }
deployment base {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   = tp8
  budget   { utilization = 92 %; reserve = 3 GB from "a log" }
  workload { context = 8 ktok; concurrency = 16 req }
  tiers    { host { tier = tiers.ddr5; capacity = 1 TB per node } }
  require kv.tokens >= 1 Mtok as room
  require kv.copies == 1
  allow KV108 because "known"
}
"""


def resolver_of(text: str) -> Resolver:
    return Resolver(load_text("kvspec 1\n" + text))


def deployment_of(text: str, name: str, *changes: Change) -> Deployment:
    deployment, problems = resolver_of(text).deployment(name, changes)
    assert plain(problems) == ""
    assert deployment is not None
    return deployment


def pool_of(text: str, name: str = "child", *changes: Change) -> Pool:
    pools = deployment_of(BASE + text, name, *changes).pools
    assert list(pools) == [""]
    return pools[""]


def declared(text: str, name: str) -> Declaration:
    spec, problems = resolver_of(text).declaration(name)
    assert plain(problems) == ""
    assert spec is not None
    return spec


def layout_of(text: str, name: str = "wide") -> Layout:
    layout = declared(text, name)
    assert isinstance(layout, Layout)
    return layout


def device_memory(expression: str, lets: str = "") -> int | Fraction:
    card = declared(f"{lets}\ndevice card {{ memory = {expression}; bandwidth = 1 TB/s }}", "card")
    assert isinstance(card, Device)
    return card.memory


def told(text: str) -> str:
    return plain(resolver_of(text).check())


def given(block: Block | None, attribute: str) -> Origin:
    assert block is not None
    origin = block.origin(attribute)
    assert origin is not None
    return origin


# --- expressions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("80 GB", 80 * 10**9),
        ("80 GiB", 80 * 2**30),
        ("100 GB - 3 * 2 GB", 94 * 10**9),
        ("100 GB - 3 GB - 2 GB", 95 * 10**9),
        ("100 GB / 3 * 3", 100 * 10**9),
        ("1 TB/s * 2 ms", 2 * 10**9),
        ("10 GB * 92 %", 9_200_000_000),
        ("min(3 GB, 2 GB)", 2 * 10**9),
        ("max([3 GB, 2 GB])", 3 * 10**9),
        ("sum(each)", 6 * 10**9),
        ("ceil(10 GB, 3 GB)", 12 * 10**9),
        ("floor(10 GB, 3 GB)", 9 * 10**9),
        ("-(1 GB - 3 GB)", 2 * 10**9),
        ("devices.h100_sxm.memory / 2", 40 * 10**9),
        ("8 bit", 1),
    ],
)
def test_arithmetic_is_exact_and_carries_its_dimension(
    expression: str, value: int | Fraction
) -> None:
    assert device_memory(expression, "let each = [1 GB, 2 GB, 3 GB]") == value


def test_a_part_of_a_byte_is_kept_as_a_fraction() -> None:
    assert device_memory("1 B / 3") == Fraction(1, 3)


def test_a_let_may_come_after_its_use_and_name_another() -> None:
    assert device_memory("twice", "let twice = 2 * once\nlet once = 3 GB") == 6 * 10**9


def test_a_let_of_a_block_is_seen_in_the_blocks_inside_it_only() -> None:
    layout = layout_of("layout wide { let n = 4; tp = n; attention { dp = n / 2; tp = 2 } }")
    assert layout.attention is not None
    assert (layout.tp, layout.attention.dp) == (4, 2)
    assert "no name `n`" in told("layout a { let n = 4; tp = n }\nlayout b { tp = n }")


def test_an_attribute_of_a_declaration_answers_with_its_default_too() -> None:
    assert layout_of("layout other { tp = 8 }\nlayout wide { tp = other.pp }").tp == 1


def test_a_word_is_read_as_a_word_even_where_a_name_is_the_same() -> None:
    layout = layout_of("let split = 3\nlayout wide { attention { tp = split; latent = split } }")
    assert layout.attention is not None
    assert (layout.attention.tp, layout.attention.latent) == (3, "split")


def test_mixed_hardware_keeps_its_order() -> None:
    text = "cluster c { nodes = [3 x nodes.hgx_h100, 5 x nodes.hgx_h200] }"
    cluster = declared(text, "c")
    assert isinstance(cluster, Cluster)
    found = [(many.count, many.of.catalog) for many in cluster.nodes]
    assert found == [(3, "nodes.hgx_h100"), (5, "nodes.hgx_h200")]


# --- selections --------------------------------------------------------------------------------


def selection(expression: str) -> Selection:
    text = (
        "cluster pod { nodes = 6 x nodes.hgx_h100; fabric = links.infiniband_ndr }\n"
        f"deployment child extends base {{ on = {expression} }}"
    )
    on = pool_of(text).on
    assert on is not None
    return on


@pytest.mark.parametrize(
    ("expression", "level", "runs"),
    [
        ("pod.nodes[0..1]", "nodes", ((0, 1),)),
        ("pod.devices[0, 4..7]", "devices", ((0, 0), (4, 7))),
        ("nodes.hgx_h100.devices[7]", "devices", ((7, 7),)),
    ],
)
def test_a_selection_counts_from_zero_with_both_ends(
    expression: str, level: str, runs: tuple[tuple[int, int], ...]
) -> None:
    pick = selection(expression).pick
    assert pick is not None
    assert (pick.level, pick.runs) == (level, runs)


def test_a_cluster_stands_alone_and_machines_with_a_number() -> None:
    assert (selection("pod").count, selection("pod").of.name) == (1, "pod")
    assert selection("3 x nodes.hgx_h200").count == 3
    assert selection("3 x devices.h200_sxm").of.catalog == "devices.h200_sxm"


# --- inheritance -------------------------------------------------------------------------------


def test_an_assignment_replaces_a_block_and_a_block_merges_into_it() -> None:
    merged = pool_of("deployment child extends base { budget { reserve = 5 GB } }").budget
    replaced = pool_of("deployment child extends base { budget = { reserve = 5 GB } }").budget
    assert merged is not None
    assert replaced is not None
    assert (merged.utilization, merged.reserve) == (Fraction(92, 100), 5 * 10**9)
    assert (replaced.utilization, replaced.reserve) == (None, 5 * 10**9)


def test_a_block_merges_into_an_inherited_reference() -> None:
    layout = pool_of("deployment child extends base { layout { pp = 2 } }").layout
    assert layout is not None
    assert (layout.tp, layout.pp) == (8, 2)


def test_a_block_merges_into_a_bare_format_as_a_recipe() -> None:
    recipe = pool_of("deployment child extends base { weights { head = formats.fp8 } }").weights
    assert recipe is not None
    found = [(line.name, line.format.catalog) for line in recipe.lines]
    assert found == [("default", "formats.bf16"), ("head", "formats.fp8")]


def test_a_block_merges_into_a_bare_link_as_a_fabric() -> None:
    text = (
        "cluster pod { nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }\n"
        "cluster thin extends pod { fabric { oversubscription = 4 } }"
    )
    cluster = declared(text, "thin")
    assert isinstance(cluster, Cluster)
    assert cluster.fabric is not None
    assert cluster.fabric.link.catalog == "links.infiniband_ndr"
    assert cluster.fabric.oversubscription == 4


def test_a_block_may_extend_a_declaration_in_place() -> None:
    layout = pool_of("deployment child extends base { layout extends tp8 { pp = 4 } }").layout
    assert layout is not None
    assert (layout.tp, layout.pp) == (8, 4)


def test_what_is_inherited_goes_with_drop_as_deep_as_written() -> None:
    child = "deployment child extends base { drop tiers; drop budget.reserve; drop room }"
    deployment = deployment_of(BASE + child, "child")
    assert deployment.tiers == {}
    budget = deployment.pools[""].budget
    assert budget is not None
    assert (budget.utilization, budget.reserve) == (Fraction(92, 100), None)
    assert [r.label for r in deployment.requirements] == [None]


def test_a_requirement_is_replaced_by_its_name_and_others_are_added() -> None:
    child = """deployment child extends base {
  require kv.tokens >= 2 Mtok as room because "agreed"
  require kv.tokens >= 1 tok
  allow KV109 because "too"
}"""
    deployment = deployment_of(BASE + child, "child")
    conditions = [r.condition.span.text for r in deployment.requirements]
    assert conditions == ["kv.tokens >= 2 Mtok", "kv.copies == 1", "kv.tokens >= 1 tok"]
    assert deployment.requirements[0].because == "agreed"
    assert [w.code for w in deployment.waivers] == ["KV108", "KV109"]


def test_a_part_merges_by_name_and_is_replaced_with_a_form() -> None:
    text = """model child extends models.deepseek_v3 {
  attention latent { q_rank = 3 }
  ffn dense = plain { intermediate = 5 }
  drop mtp
}"""
    model = declared(text, "child")
    assert isinstance(model, Model)
    latent, dense = model.parts["latent"], model.parts["dense"]
    assert (latent.form, vars(latent)["q_rank"], vars(latent)["kv_rank"]) == ("mla", 3, 512)
    assert (dense.form, vars(dense)["intermediate"]) == ("plain", 5)
    assert (model.mtp, model.layers) == ((), 61)


def test_being_abstract_is_not_inherited() -> None:
    text = "layout wide { abstract = true; pp = 2 }\nlayout child extends wide { tp = 8 }"
    assert layout_of(text, "child").pp == 2


def test_what_is_inherited_means_what_it_meant_in_its_own_file(tmp_path: Path) -> None:
    shared = "kvspec 1\nlet n = 4\nlayout wide { tp = n }\n"
    (tmp_path / "shared.kvspec").write_text(shared, encoding="utf-8")
    main = tmp_path / "main.kvspec"
    text = 'kvspec 1\nimport "shared.kvspec"\nlet n = 2\n'
    main.write_text(text + "layout child extends shared.wide { pp = n }\n", encoding="utf-8")
    layout, problems = Resolver(load(str(main))).declaration("child")
    assert plain(problems) == ""
    assert isinstance(layout, Layout)
    assert (layout.tp, layout.pp) == (4, 2)


# --- pools -------------------------------------------------------------------------------------


def test_a_pool_merges_over_what_the_deployment_says() -> None:
    text = """deployment child extends base {
  pool prefill { budget { reserve = 5 GB } }
  pool decode  { layout = { tp = 4 }; replicas = 2 }
}"""
    pools = deployment_of(BASE + text, "child").pools
    prefill, decode = pools["prefill"], pools["decode"]
    assert (prefill.role, decode.role) == ("prefill", "decode")
    assert prefill.budget is not None
    assert (prefill.budget.utilization, prefill.budget.reserve) == (Fraction(92, 100), 5 * 10**9)
    assert prefill.layout is not None
    assert decode.layout is not None
    assert (prefill.layout.tp, decode.layout.tp, decode.replicas) == (8, 4, 2)


def test_a_deployment_without_pools_is_one_nameless_pool() -> None:
    pool = pool_of("", "base")
    assert (pool.name, pool.role) == ("", "both")


def test_classes_take_what_they_leave_out_from_the_workload() -> None:
    text = """workload mixed {
  prompt = 1 ktok; output = 100 tok; concurrency = 4 req
  class short { share = 60 %; output = 50 tok }
  class long  { share = 40 %; context = 64 ktok }
}"""
    found = vars(declared(text, "mixed"))["classes"]
    lengths = {name: (c.prompt, c.output, c.context) for name, c in found.items()}
    assert lengths == {"short": (1000, 50, None), "long": (None, None, 64_000)}


# --- where values come from --------------------------------------------------------------------


def test_a_value_knows_where_it_was_written_and_what_it_overrode() -> None:
    budget = pool_of("deployment child extends base { budget { reserve = 5 GB } }").budget
    reserve = given(budget, "reserve")
    assert reserve.span.text == "5 GB"
    assert [span.text for span in reserve.overridden] == ["3 GB"]
    assert given(budget, "utilization").span.text == "92 %"


def test_a_default_has_no_origin() -> None:
    layout = layout_of("layout wide { tp = 8 }")
    assert layout.origin("pp") is None


def test_a_figure_has_the_source_behind_it_or_that_of_its_block() -> None:
    assert given(pool_of("", "base").budget, "reserve").source == "a log"
    text = 'device card { source = "sheet"; memory = 80 GB; bandwidth = 1 TB/s from "test" }\n'
    card = declared(text + "device child extends card { memory = 96 GB }", "child")
    sources = [given(card, name).source for name in ("memory", "bandwidth")]
    assert sources == [None, "test"]
    assert given(declared(text, "card"), "memory").source == "sheet"


# --- changes from outside ----------------------------------------------------------------------


def test_a_change_of_a_path_merges_and_one_of_an_attribute_replaces() -> None:
    text = "layout tp4 { tp = 4 }"
    merged = pool_of(text, "base", Change("layout.pp", "2")).layout
    replaced = pool_of(text, "base", Change("layout", "tp4")).layout
    assert merged is not None
    assert replaced is not None
    assert (merged.tp, merged.pp) == (8, 2)
    assert (replaced.name, replaced.tp) == ("tp4", 4)


def test_changes_are_made_in_their_order_and_leave_the_original_alone() -> None:
    resolver = resolver_of(BASE)
    changes = (Change("workload.context", "4 ktok"), Change("workload.context", "2 ktok"))
    changed, _ = resolver.deployment("base", changes)
    original, _ = resolver.deployment("base")
    for deployment, context in ((changed, 2000), (original, 8000)):
        assert deployment is not None
        workload = deployment.pools[""].workload
        assert workload is not None
        assert workload.context == context


def test_a_point_of_an_inherited_sweep_means_what_it_meant_in_its_file() -> None:
    text = BASE + "deployment swept extends base { let most = 4; sweep { layout.tp = [2, most] } }"
    resolver = resolver_of(text)
    deployment, problems = resolver.deployment("swept")
    assert plain(problems) == ""
    assert deployment is not None
    axis = deployment.sweeps[0].axes[0]
    changed, problems = resolver.deployment("swept", (Change(axis.path, axis.values[1]),))
    assert plain(problems) == ""
    assert changed is not None
    layout = changed.pools[""].layout
    assert layout is not None
    assert layout.tp == 4


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("layuot", "tp8", "did you mean `layout`?"),
        ("layout.tpp", "8", "has no attribute `tpp`"),
        ("workload.concurrency", "8 tok", "`concurrency` wants requests"),
        ("layout", "a b", "`a b` is no value"),
        ("layout", "tp8 }\nlayout b {", "is no value"),
        ("lay out", "tp8", "cannot change `lay out`"),
        ("pools.decode.layout", "tp8", "this deployment has no pools"),
    ],
)
def test_a_change_that_means_nothing_is_told(path: str, value: str, words: str) -> None:
    deployment, problems = resolver_of(BASE).deployment("base", (Change(path, value),))
    assert deployment is None
    assert words in plain(problems)


def test_a_change_of_what_every_pool_says_itself_is_told() -> None:
    text = (
        BASE
        + """deployment child extends base {
  pool prefill { layout = tp8 }
  pool decode  { layout = tp8 }
}"""
    )
    deployment, problems = resolver_of(text).deployment("child", (Change("layout", "tp8"),))
    assert deployment is None
    assert "pools.prefill.layout" in plain(problems)
    changed = deployment_of(text, "child", Change("pools.decode.layout.pp", "2"))
    layouts = [pool.layout.pp for pool in changed.pools.values() if pool.layout]
    assert layouts == [1, 2]


# --- requirements ------------------------------------------------------------------------------


def test_names_outside_the_vocabulary_are_computed_in_constants() -> None:
    text = """let floor_of_it = 1 Mtok
deployment child extends base {
  require kv.tokens >= 2 * floor_of_it when memory.kv < devices.h100_sxm.memory
}"""
    requirement = deployment_of(BASE + text, "child").requirements[-1]
    assert {name: str(value) for name, value in requirement.constants.items()} == {
        "floor_of_it": "1,000,000 tok",
        "devices.h100_sxm.memory": "80 GB",
    }


def test_the_vocabulary_comes_before_other_names() -> None:
    text = "let gpus = 3 GB\ndeployment child extends base { require gpus <= 8 }"
    assert deployment_of(BASE + text, "child").requirements[-1].constants == {}


# --- one fault, one diagnostic -----------------------------------------------------------------


def test_a_fault_in_one_declaration_leaves_the_others_checked() -> None:
    text = BASE + "layout bad { tp = 0 }\nlayout worse { tp = nothing }\n"
    resolver = resolver_of(text)
    assert len(resolver.check()) == 2
    deployment, problems = resolver.deployment("base")
    assert deployment is not None
    assert problems == ()


def test_a_fault_in_what_two_use_is_told_once() -> None:
    text = BASE.replace("tp = 8", "tp = 0") + "deployment child extends base { }"
    assert len(resolver_of(text).check()) == 1


def test_a_long_line_of_children_or_values_is_refused_and_no_crash() -> None:
    line = "\n".join(f"layout a{i} extends a{i + 1} {{ }}" for i in range(400))
    assert "KV037" in told(line + "\nlayout a400 { tp = 8 }")
    chain = "\n".join(f"let a{i} = 2 * (1 + (a{i + 1}))" for i in range(400))
    assert "KV037" in told(chain + "\nlet a400 = 1")
    nest = "\n".join(f"cluster c{i} {{ clusters = 2 x c{i + 1} }}" for i in range(100))
    assert "KV037" in told(nest + "\ncluster c100 { nodes = 1 x nodes.hgx_h100 }")


@pytest.mark.parametrize(
    "body",
    ["draft {}", "pool prefill { draft {} }", "draft { method = eagle }", "weights {}",
     "transfer {}", "workload { class a { share = 100 % } }", "sweep {}", "search {}",
     "limits {}; budget {}", "engine {}; layout {}", "workload {}", "measured {}"],
)  # fmt: skip
def test_what_is_abstract_may_leave_anything_out(body: str) -> None:
    """Also what a block needs to be one: it is told where something extends it."""
    assert told(f"deployment half {{ abstract = true; {body} }}") == ""
