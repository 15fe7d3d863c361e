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

PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
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


# --- names of requirements -----------------------------------------------------------------------

REQUIRED = {
    "deployment asked extends chat": (
        "kv.tokens", "kv.bytes_per_token_per_gpu", "decode.tpot", "prefill.ttft", "memory.free",
        "tier.host.tokens", "tier.host.load_time", "workload.concurrency", "cost.per_mtok", "long",
        "decode.weight_read.attention", "layout.attention.dp", "gpus", "power", "model.parameters",
    ),
    "deployment asked extends apart": (
        "transfer.time", "balance.ratio", "pools.decode.kv.tokens", "pools.prefill.memory.weights",
        "workload.rate", "prefill.throughput", "pools.decode.decode.tpot", "kv.sequences",
    ),
    "fleet asked": (
        "gpus", "power", "cost.per_hour", "cost.per_year", "decode.throughput",
        "deployments.chat.kv.tokens", "deployments.apart.cost.per_hour",
        "deployments.chat.workload.concurrency",
    ),
}  # fmt: skip


def unanswered(head: str, names: Sequence[str]) -> dict[str, list[Diagnostic]]:
    """What is said of requirements on each name, those of units left out."""
    own = "\n  deployments = [chat, apart]" if head.startswith("fleet") else ""
    start = f"{SPEC}{head} {{{own}\n"
    lines = [f"  require {name} <= 1 tok" for name in names]
    first = start.count("\n") + 1
    told: dict[str, list[Diagnostic]] = {name: [] for name in names}
    for problem in Resolver(load_text(start + "\n".join(lines) + "\n}\n")).check():
        if problem.code != "KV041":
            line, _ = problem.span.file.position(problem.span.start)
            told[names[line - first]].append(problem)
    return told


@pytest.mark.parametrize("head", REQUIRED)
def test_a_name_that_is_suggested_for_a_requirement_can_be_required(head: str) -> None:
    names = REQUIRED[head]
    assert not any(unanswered(head, names).values())
    wrong = [each for name in names for each in mistyped(name) if PATH.fullmatch(each)]
    wrong = list(dict.fromkeys(wrong))
    problems = [p for told in unanswered(head, wrong).values() for p in told if p.code == "KV054"]
    near = [h for p in problems for h in p.helps if h.startswith("did you mean")]
    suggested = list(dict.fromkeys(name for line in near for name in QUOTED.findall(line)))
    parts = ("host", "prefill", "decode", "chat", "apart")  # of a name, underlined alone
    whole = [name for name in suggested if name not in parts]
    assert {n: told for n, told in unanswered(head, whole).items() if told} == {}
    assert len(problems) > 80
    assert len(near) > len(problems) * 0.8


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("gpus <= 24", "holds"),
        ("power <= 1 kW", "fails"),
        ("cost.per_hour <= 500 USD/h", "holds"),
        ("cost.per_year <= 400_000 USD", "fails"),
        ("cost.per_year within 5 % of 8760 h * cost.per_hour", "holds"),
        ("decode.throughput >= 1 tok/s", "holds"),
        ("deployments.chat.cost.per_hour <= deployments.apart.cost.per_hour", "holds"),
    ],
)
def test_a_fleet_is_judged_by_each_figure_that_it_has(text: str, status: str) -> None:
    spec = f"{SPEC}fleet asked {{ deployments = [chat, apart]; price = 2 USD/h per device\n"
    made = compile_text(f"{spec}  require {text}\n}}\n", only="asked").fleets[0]
    assert [(r.text, r.status) for r in made.requirements] == [(text, status)]


def test_what_a_fleet_cannot_add_up_is_told_of_the_requirement_on_it() -> None:
    bare = "device bare extends devices.h100_sxm { drop price }\n"
    bare += "deployment free extends chat { on = 1 x bare; drop tiers; layout = { tp = 1 } }\n"
    spec = f"{SPEC}{bare}fleet asked {{ deployments = [free, apart]\n"
    found = compile_text(f"{spec}  require cost.per_year <= 1 USD\n}}\n", only="asked").report
    said = [(d.headline, d.primary.text) for d in found.diagnostics if d.code == "KV912"]
    assert said == [
        (
            "cost.per_year is not answered by this plan, so cost.per_year <= 1 USD was not judged",
            "`free` lacks it: nothing says what bare costs: give it a `price`, or write "
            "`price = 2 USD/h per device`",
        )
    ]


# --- blocks that are not written -----------------------------------------------------------------

UNWRITTEN = """
deployment bare extends chat { drop tiers }
deployment kept extends chat { engine = engines.vllm_0_33 }
deployment sent extends apart { transfer { library = libraries.mooncake } }
"""
DEEP = (
    "engine.sizes.small.step", "engine.sizes.large.sequences", "tiers.host.capacity",
    "transfer.library.algorithms.transfer.launch",
    "transfer.library.algorithms.transfer.band.latency",
)  # fmt: skip


@pytest.mark.parametrize("deployment", ["bare", "kept", "sent", "apart"])
def test_no_path_is_suggested_into_a_block_that_is_not_there(deployment: str) -> None:
    whole = Resolver(load_text(f"{SPEC}{UNWRITTEN}"))

    def refusals(path: str) -> list[Diagnostic]:
        found = whole.deployment(deployment, (Change(path, "1"),))[1]
        return [d for d in found if d.code in ("KV027", "KV038")]

    for path in DEEP:
        for wrong in (path, *mistyped(path)):
            for problem in refusals(wrong) if PATH.fullmatch(wrong) else ():
                near = [h for h in problem.helps if not re.match(r"(a deployment|it) has", h)]
                for name in QUOTED.findall(" ".join(near)):
                    assert "." not in name or refusals(name) == [], (wrong, name)


def test_a_block_that_is_not_written_has_no_blocks_with_names() -> None:
    (problem,) = refused("chat", "engine.sizes.small.step")
    assert problem.headline == (
        "cannot change `engine.sizes.small.step`: this `engine` has no sizes"
    )
    (problem,) = refused("chat", "transfer.library.algorithms.send.launch")
    assert problem.headline.endswith("this `library` has no algorithms")
