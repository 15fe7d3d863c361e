"""What is suggested instead of a name that nothing has is itself a name that something has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from kvdsl.diagnostics import Diagnostic
from kvdsl.pipeline import compile_text
from kvdsl.planning.questions import Questions
from kvdsl.project.loader import load_text
from kvdsl.resolve.changes import Change
from kvdsl.resolve.resolver import Resolver

SPEC = """kvspec 1

cluster hall { nodes = 4 x nodes.hgx_h100; fabric = links.infiniband_ndr }
layout tp8 { tp = 8 }
let long = 8 ktok
workload mixed {
  concurrency = 10 req
  class short { share = 50 %; prompt = 1 ktok; output = 200 tok }
  class wide  { share = 50 %; prompt = long; output = 200 tok }
}

deployment chat {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = hall.nodes[0]
  layout   = tp8
  budget   { reserve = 3 GB }
  tiers    { host { tier = tiers.ddr5; capacity = 1 TB per node } }
  workload = mixed
}
deployment night extends chat {
  tiers { disk { tier = tiers.nvme_gen5; capacity = 4 TB per node } }
}
deployment apart {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  budget   { reserve = 3 GB }
  workload { prompt = long; output = 500 tok; rate = 2 req/s }
  pool prefill { on = hall.nodes[1]; layout { tp = 8 } }
  pool decode  { on = hall.nodes[2]; layout { attention { dp = 8 } } }
  transfer { over = links.infiniband_ndr }
}
fleet both { deployments = [chat, apart] }
"""

QUOTED = re.compile(r"`([^`]+)`")


def mistyped(name: str, most: int = 1000) -> Iterator[str]:
    """A letter less, twice, swapped or another; a segment less; capitals; signs of other tools."""
    at = sum(map(ord, name)) % len(name)
    yield name[:at] + name[at + 1 :]
    yield name[: at + 1] + name[at:]
    yield name[: max(at - 1, 0)] + name[max(at - 1, 0) : at + 1][::-1] + name[at + 1 :]
    yield f"{name[:-1]}x"
    yield name.upper()
    parts = name.split(".")
    for number in range(len(parts)):
        if len(parts) > 1:
            yield ".".join(parts[:number] + parts[number + 1 :])
        yield ".".join([*parts[:number], parts[number] + "s", *parts[number + 1 :]])
        yield ".".join([*parts[:number], parts[number][:-1], *parts[number + 1 :]])
    yield f"{name}_size"


# --- paths of changes ----------------------------------------------------------------------------


@cache
def resolver() -> Resolver:
    return Resolver(load_text(SPEC))


def told(deployment: str, path: str) -> tuple[Diagnostic, ...]:
    """What is said of a change of that path. The value is of no kind that a refusal depends on."""
    return resolver().deployment(deployment, (Change(path, "1"),))[1]


def refused(deployment: str, path: str) -> list[Diagnostic]:
    return [d for d in told(deployment, path) if d.code in ("KV027", "KV038")]


PATHS = (
    "layout.tp", "layout.attention.dp", "layout.experts.ep", "budget.reserve", "limits.step",
    "budget.utilization", "workload.concurrency", "workload.prompt", "workload.prefix_hits",
    "model.hidden", "model.parts.global.kv_heads", "model.attention.global.head_dim",
    "model.ffn.mlp.intermediate", "weights", "replicas", "engine.overhead.graphs", "price", "time",
)  # fmt: skip
NAMED = {
    "chat": ("tiers.host.capacity", "workload.classes.short.prompt", "workload.classes.wide.share"),
    "night": ("tiers.disk.tier", "tiers.host.capacity", "workload.classes.wide.output"),
    "apart": ("pools.decode.layout.attention.dp", "pools.prefill.replicas", "transfer.lanes",
              "pools.decode.workload.rate"),
}  # fmt: skip


@pytest.mark.parametrize("deployment", NAMED)
def test_a_path_that_is_suggested_for_a_change_can_be_changed(deployment: str) -> None:
    asked = suggested = 0
    for path in (*PATHS, *NAMED[deployment]):
        assert refused(deployment, path) == [], path
        for wrong in mistyped(path):
            for problem in refused(deployment, wrong):
                asked += 1
                near = [h for h in problem.helps if not re.match(r"(a deployment|it) has", h)]
                for name in QUOTED.findall(" ".join(near)):
                    if "." not in name and name not in PATHS:
                        continue  # what a name is, before the path to write
                    suggested += 1
                    assert refused(deployment, name) == [], (wrong, name)
    assert asked > 200
    assert suggested > asked * 0.8


@pytest.mark.parametrize(
    ("deployment", "path", "value", "name", "factor"),
    [
        ("chat", "tiers.host.capacity", "2 TB per node", "tier.host.tokens", 2),
        ("night", "tiers.disk.capacity", "2 TB per node", "tier.disk.tokens", 0.5),
        ("night", "tiers.host.capacity", "500 GB per node", "tier.host.tokens", 0.5),
        ("chat", "workload.classes.short.prompt", "8 ktok", "workload.prompt", 16 / 9),
        ("chat", "model.attention.global.kv_heads", "4", "kv.bytes_per_token", 0.5),
    ],
)
def test_a_block_with_a_name_is_reached_by_it(
    deployment: str, path: str, value: str, name: str, factor: float
) -> None:
    def asked(*changes: Change) -> float:
        made = compile_text(SPEC, changes=changes, only=deployment).plan(deployment)
        return float(made.values[name].value)

    assert asked(Change(path, value)) == pytest.approx(asked() * factor, rel=0.01)


@pytest.mark.parametrize(
    ("deployment", "path", "said"),
    [
        ("chat", "tiers.hst.capacity", ("there is no tier `hst`",
                                        "did you mean `tiers.host.capacity`?")),
        ("chat", "tiers.qqqq.capacity", ("there is no tier `qqqq`", "there is `host`")),
        ("chat", "tiers.host", ("it names no attribute of a tier",
                                "an attribute of a tier is written `tiers.host.tier`")),
        ("chat", "host.capacity", ("a deployment has no attribute `host`",
                                   "`host` is a tier: write `tiers.host.capacity`")),
        ("chat", "workload.short.prompt",
         ("this `workload` has no attribute `short`",
          "`short` is a class: write `workload.classes.short.prompt`")),
        ("chat", "workload.class.wide.prompt",
         ("it names no attribute of a class",
          "an attribute of a class is written `workload.classes.wide.prompt`")),
        ("apart", "workload.classes.short.prompt",
         ("this `workload` has no classes",
          "it has `prompt`, `output`, `context`, `concurrency`, `rate`, `prefix_hits`, "
          "`prefix_common` and `reuse`")),
        ("chat", "model.stack", ("it has no value of its own", "change `stack` in the spec")),
    ],
)  # fmt: skip
def test_what_can_be_changed_of_blocks_with_names_is_told(
    deployment: str, path: str, said: Sequence[str]
) -> None:
    (problem,) = refused(deployment, path)
    assert (problem.headline, *problem.helps) == (f"cannot change `{path}`: {said[0]}", said[1])


def test_an_axis_of_a_sweep_reaches_a_block_with_a_name() -> None:
    sweep = (
        "sweep { tiers.host.capacity = [1 TB per node, 2 TB per node]; show = [tier.host.tokens] }"
    )
    text = f"{SPEC}deployment swept extends chat {{ {sweep} }}\n"
    (table,) = compile_text(text, only="swept").plan("swept").sweeps
    one, two = (float(row[0].value) for _, row in table.rows if row[0] is not None)
    assert two == pytest.approx(2 * one, rel=1e-6)


# --- names that are asked ------------------------------------------------------------------------

VALUES = (
    "chat.kv.tokens", "chat.workload.concurrency", "chat.tier.host.tokens", "chat.decode.tpot",
    "night.tier.disk.load_time", "apart.pools.decode.kv.tokens", "apart.workload.rate",
    "apart.transfer.time", "both.gpus", "both.cost.per_year", "both.deployments.chat.kv.tokens",
    "models.llama_3_1_8b.parameters", "models.llama_3_1_8b.kv.bytes_per_token", "chat.power",
    "apart.pools.prefill.kv.copies", "chat.layout.attention.dp", "chat.budget.reserve",
)  # fmt: skip


@cache
def questions() -> Questions:
    return Questions(resolver())


def is_answered(name: str) -> bool:
    found = questions().answer(name)
    return found.value is not None or bool(found.values)


def test_a_name_that_is_suggested_for_a_value_is_answered() -> None:
    asked = suggested = 0
    for name in VALUES:
        assert is_answered(name), name
        for wrong in mistyped(name):
            if is_answered(wrong):
                continue
            meant = questions().answer(wrong).meant
            asked += 1
            suggested += bool(meant)
            assert not meant or is_answered(meant), (wrong, meant)
    assert asked > 250
    assert suggested > asked * 0.8
