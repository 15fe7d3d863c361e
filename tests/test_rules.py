"""The planning rules, from real text: each fires where it should, stays silent next to it, and is
documented by an example that fires it alone.

A file under `rules/` is a shared beginning and many chunks, separated by `---`. A line that must be
reported ends in `#! KV101`; several codes may stand there, and a severity where it is not the
rule's own (`KV101:info`). All that is told must be marked, remarks too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from kvdsl.checks.findings import RULES, examine, judged
from kvdsl.checks.study import Study
from kvdsl.costs.estimate import estimate
from kvdsl.diagnostics import Diagnostic, Message, Severity
from kvdsl.placement.subject import Subject
from kvdsl.planning.deploy import Rulebook, outcome
from kvdsl.planning.fleets import fleet_outcome, members_of
from kvdsl.planning.subjects import subject
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.rules import SECTIONS, Rule
from kvdsl.spec.deployment import Fleet, Policy

CATALOG = Catalog()
FILES = sorted((Path(__file__).resolve().parent / "rules").glob("*.kvspec"))
BY_CODE = {rule.code: rule for rule in RULES}

WITHOUT_BETTER = {"KV901", "KV902", "KV903"}
"""Rules on `allow`: a child inherits them, so that nothing better can extend the example."""

COMPANIONS = {
    "KV109": {"KV911"},
    "KV124": {"KV202"},
    "KV145": {"KV202"},
    "KV171": {"KV170"},
    "KV148": {"KV911"},
    "KV180": {"KV101:info"},
    "KV903": {"KV143"},
    "KV183": {"KV145", "KV202"},
    "KV224": {"KV170", "KV172"},
    "KV226": {"KV101"},
}
"""What must fire beside a rule, by its nature: it speaks of a bound that fails, of a queue (which
makes a token dear), of a link so slow that one pool is better, or where it has softened another."""


def resolver_of(text: str) -> Resolver:
    return Resolver(load_text(text, catalog=CATALOG))


def told(text: str, only: str | None = None) -> list[Diagnostic]:
    """Everything that is said of a text, or of one deployment in it."""
    resolver = resolver_of(text)
    found = list(resolver.check())
    policies = [resolver.declaration(each)[0] for each in resolver.concrete("policy")]
    book = Rulebook(tuple(p for p in policies if isinstance(p, Policy)), today="2026-02-01")
    for name in resolver.concrete("deployment"):
        if only is None or name == only:
            deployment, _ = resolver.deployment(name)
            assert deployment is not None, [d.headline for d in found]
            found.extend(outcome(deployment, book=book).diagnostics)
    for name in resolver.concrete("fleet"):
        fleet, _ = resolver.declaration(name)
        if isinstance(fleet, Fleet) and (only is None or name == only):
            made = fleet_outcome(fleet, members_of(fleet, {}))
            found.extend(one.diagnostic for one in made.told)
    return found


def mark(problem: Diagnostic) -> str:
    """As it is marked in a chunk: the code, and the severity where it is not the rule's own."""
    rule = BY_CODE.get(problem.code)
    own = rule.severity if rule is not None else Severity.ERROR
    return problem.code if problem.severity is own else f"{problem.code}:{problem.severity.value}"


def loud(problems: Iterable[Diagnostic]) -> list[str]:
    return [f"{p.code} {p.headline}" for p in problems if p.severity is not Severity.INFO]


# --- the register ------------------------------------------------------------------------------


def test_codes_are_unique_and_listed_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))


def test_names_are_unique_and_read_well_after_allow() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert [n for n in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", n)] == []
    commands = {"allow", "avoid", "check", "do", "split", "use"}
    assert [n for n in names if n.split("-")[0] in commands] == []


def test_rules_silence_and_soften_rules_that_exist() -> None:
    for rule in RULES:
        others = {*rule.silences, *rule.softens}
        assert others <= BY_CODE.keys() - {rule.code}, rule.code
        assert all(Severity.INFO in BY_CODE[code].severities for code in rule.softens), rule.code


def test_every_severity_that_a_rule_lists_fires_in_a_chunk() -> None:
    marked = {code for chunk in CHUNKS for _, code in chunk.wanted}
    listed = {f"{rule.code}:{each.value}" for rule in RULES for each in rule.also}
    assert sorted(listed - marked) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_documented_in_four_sections(rule: Rule) -> None:
    lines = [line for line in rule.doc.splitlines() if line and not line.startswith(" ")]
    assert rule.summary.endswith(".")
    assert lines[1:] == list(SECTIONS)
    assert all(rule.section(title) for title in SECTIONS)


COUNTED = re.compile(
    r"\{\w+\} (?:\w+ )?(?:ranks|heads|copies|devices|nodes|stages|layers|experts|requests|ways"
    r"|times|replicas|values|tokens|bits|parameters|domains|micro-batches|all-reduces)\b"
)


def test_a_count_and_its_noun_are_written_so_that_one_is_singular() -> None:
    """`{heads:query heads}` gives `1 query head`, `{heads} query heads` would not."""
    templates = [t for r in RULES for t in (r.headline, r.label, r.flips, *r.notes, *r.helps)]
    for message in Message.__subclasses__():
        templates += [message.headline, message.label, *message.notes, *message.helps]
    assert [text for text in templates if COUNTED.search(text)] == []
    assert len(templates) > 300


# --- examples ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_example_of_a_rule_gives_that_finding_alone(rule: Rule) -> None:
    problems = told(f"kvspec 1\n{rule.section('Example')}\n")
    marks = {mark(p) for p in problems}
    wanted = {rule.code, *COMPANIONS.get(rule.code, ())}
    assert wanted <= marks
    assert {m for m in marks if not _is_remark(m)} <= wanted, loud(problems)


def _is_remark(told_as: str) -> bool:
    code, _, severity = told_as.partition(":")
    return severity == "info" or (not severity and BY_CODE[code].severity is Severity.INFO)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_what_a_rule_advises_instead_gives_no_finding(rule: Rule) -> None:
    _, better = rule.parts("Instead")
    if rule.severity is Severity.INFO or rule.code in WITHOUT_BETTER:
        assert better == ""
        return
    text = f"kvspec 1\n{rule.section('Example')}\n{better}\n"
    problems = told(text, "better")
    assert loud(problems) == []
    assert [mark(p) for p in problems if p.code == rule.code] == []  # not as information either


# --- chunks ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    """One text of a file, on the lines where it stands there; `wanted` are (line, mark)."""

    file: str
    line: int
    text: str
    wanted: frozenset[tuple[int, str]]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def chunks_of(path: Path) -> Iterator[Chunk]:
    lines = path.read_text(encoding="utf-8").splitlines()
    edges = [n for n, line in enumerate(lines) if line == "---"] + [len(lines)]
    shared = lines[: edges[0]]
    for start, end in pairwise(edges):
        blank = [""] * (start + 1 - len(shared))
        text = "\n".join([*shared, *blank, *lines[start + 1 : end], ""])
        yield Chunk(path.name, start + 2, text, frozenset(_marks(text)))


def _marks(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        _, found, codes = line.partition("#!")
        if found:
            yield from ((number, code) for code in codes.split())


CHUNKS = [chunk for path in FILES for chunk in chunks_of(path)]


@pytest.mark.parametrize("chunk", CHUNKS, ids=str)
def test_exactly_the_marked_lines_are_reported(chunk: Chunk) -> None:
    problems = told(chunk.text)
    found = {(p.span.line, mark(p)) for p in problems}
    unlisted = [mark(p) for p in problems if p.code in BY_CODE
                and p.severity not in BY_CODE[p.code].severities]  # fmt: skip
    assert unlisted == []
    extra = [f"line {p.span.line}: {mark(p)} {p.headline}" for p in problems
             if (p.span.line, mark(p)) not in chunk.wanted]  # fmt: skip
    assert (extra, sorted(chunk.wanted - found)) == ([], [])


def test_every_rule_fires_in_a_chunk() -> None:
    marked = {code.partition(":")[0] for chunk in CHUNKS for _, code in chunk.wanted}
    assert sorted(BY_CODE.keys() - marked) == []


# --- rules among one another -------------------------------------------------------------------


def subject_of(text: str) -> Subject:
    """The first deployment of a text, or its first pool."""
    resolver = resolver_of(f"kvspec 1\n{text}")
    deployment, _ = resolver.deployment(resolver.concrete("deployment")[0])
    assert deployment is not None
    made, _ = subject(deployment, next(iter(deployment.pools.values())))
    assert made is not None
    return made


def study_of(text: str) -> Study:
    """The first deployment of a text, ready for a rule of any stage."""
    made = subject_of(text)
    found = estimate(made)
    return Study(made, found.placement, found)


WHERE = {
    ("KV102", "KV221"): ("layout ", "engine = engines.vllm_0_33; layout "),
    ("KV142", "KV201"): ("replicas = 8", "replicas = 4"),
}
"""Where a rule's example does not show that another is silenced: the change that does."""


@pytest.mark.parametrize(
    ("code", "silenced"), [(r.code, other) for r in RULES for other in r.silences]
)
def test_a_rule_that_fires_silences_the_one_that_it_explains(code: str, silenced: str) -> None:
    text = BY_CODE[code].section("Example").replace(*WHERE.get((code, silenced), ("", "")))
    study, other = study_of(text), BY_CODE[silenced]
    assert other.function is not None
    assert list(other.function(study)) != []
    found = {f.rule.code for f in examine(study.subject).fired}
    assert code in found
    assert silenced not in found


@pytest.mark.parametrize(
    ("code", "softened"), [(r.code, other) for r in RULES for other in r.softens]
)
def test_a_rule_that_fires_softens_the_one_that_it_limits(code: str, softened: str) -> None:
    study = study_of(BY_CODE[code].section("Example"))
    found = {f.rule.code: f.severity for f in examine(study.subject).fired}
    assert found[softened] is Severity.INFO
    assert BY_CODE[softened].severity is not Severity.INFO


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_suggests_no_layout_that_a_rule_refuses(rule: Rule) -> None:
    if rule.stage == "service" or rule.function is None:
        return
    planned = subject_of(rule.section("Example"))
    fired = examine(planned).fired
    known = {each.rule.code for each in fired}
    for made in (each.fact.suggestion for each in fired):
        if made is None or made.estimate.subject.topology is not planned.topology:
            continue
        wrong, _ = judged(made.estimate.subject)
        assert {each.rule.code for each in wrong} <= known, made.text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_what_a_finding_suggests_does_not_have_that_finding(rule: Rule) -> None:
    if rule.stage == "service" or rule.function is None:
        return
    for text in (rule.section("Example"), *LESS_PLAIN.get(rule.code, ())):
        for each in examine(subject_of(text)).fired:
            made = each.fact.suggestion
            if made is not None:
                again = [f.rule.code for f in examine(made.estimate.subject).fired]
                assert each.rule.code not in again, made.text


LESS_PLAIN = {
    "KV145": (
        BY_CODE["KV145"]
        .section("Example")
        .replace("tp = 4; replicas = 2", "tp = 1; replicas = 8")
        .replace("llama_3_1_70b", "llama_2_7b")
        .replace("8 ktok; concurrency = 150", "4 ktok; concurrency = 900"),
    ),
    "KV114": (
        BY_CODE["KV114"].section("Example").replace("prompt = 2 ktok", "prompt = 8 ktok"),
        BY_CODE["KV114"].section("Example").replace("prompt = 2 ktok", "prompt = 16 ktok"),
    ),
    "KV190": (
        BY_CODE["KV190"].section("Example").replace("pcp = 4; tp = 2", "pcp = 8"),
        BY_CODE["KV190"].section("Example").replace("= 90 %", "= 40 %"),
    ),
}
"""Variants of an example, in which another step would be the one to take."""


# --- figures of the worked cases ---------------------------------------------------------------

DEEPSEEK = """
layout dp_ep { attention { dp = 8 }; experts { ep = 8 } }
deployment served {
  model    = models.deepseek_v3
  weights  = formats.fp8
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h200
  layout   = dp_ep
  budget   { utilization = 92 % }
  workload { context = 4096 tok; concurrency = 512 req }
}
"""


@pytest.mark.parametrize(
    ("change", "code", "figures"),
    [
        ("", "KV121", ("4.991 GB", "4,081,832 tok", "3,513,632 tok")),
        ("concurrency = 512 -> concurrency = 6", "KV107", ("6 req", "81,210 tok")),
        ("= dp_ep -> { tp = 8 }", "KV105", ("kv.tokens 4,081,832 tok", "162,419 tok")),
        ("= dp_ep -> { tp = 8 }; 512 req -> 39 req", "KV181", ("159,744 tok", "162,419 tok")),
    ],
)
def test_the_figures_of_the_worked_case_are_told(
    change: str, code: str, figures: tuple[str, ...]
) -> None:
    text = DEEPSEEK
    for step in filter(None, change.split("; ")):
        old, new = step.split(" -> ")
        assert old in text
        text = text.replace(old, new)
    found = next(p for p in told(f"kvspec 1\n{text}") if p.code == code)
    said = " ".join((found.headline, found.primary.text, *found.notes, *found.helps))
    assert [figure for figure in figures if figure not in said] == []


# --- where ranks stand -------------------------------------------------------------------------

STRADDLING = """\
kvspec 1
cluster pod { nodes = 4 x nodes.hgx_h100; fabric = links.infiniband_ndr }
deployment sixes {
  model    = models.llama_3_2_3b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = pod
  layout   { attention { dp = 6 }; ffn { tp = 6 }; vocab { dp = 6 }; replicas = 3 }
  budget   { reserve = 3 GB }
  workload { context = 8 ktok; concurrency = 36 req }
}
deployment apart extends sixes { on = pod.devices[0..5, 8..13, 16..21] }
"""


def test_groups_that_straddle_nodes_are_told_which_devices_to_choose() -> None:
    """Three stages of six on nodes of eight: the second has two ranks in the first node."""
    found = {p.code: p for p in told(STRADDLING, "sixes")}
    wanted = "6 ranks fit in one domain of 8; `on = pod.devices[0..5, 8..13, 16..21]` gives each"
    assert [each for each in found["KV104"].helps if each.startswith(wanted)]
    assert "KV104" not in {p.code for p in told(STRADDLING, "apart")}


CROSSING = """\
kvspec 1
cluster two { nodes = 2 x nodes.hgx_h200; fabric = links.infiniband_ndr }
deployment fitted {
  model    = models.llama_3_1_405b
  weights  = formats.fp8
  kv       = formats.bf16
  engine   = engines.vllm_0_33
  on       = two
  layout   { tp = 16 }
  budget   { reserve = 3 GB }
  workload { prompt = 4 ktok; output = 1 ktok; concurrency = 64 req }
}
deployment ideal extends fitted { time = ideal }
"""


def test_steps_of_a_ring_are_told_only_where_they_are_what_is_counted() -> None:
    fitted, ideal = (
        next(p for p in told(CROSSING, name) if p.code == "KV104").notes
        for name in ("fitted", "ideal")
    )
    assert len(fitted) == 1
    assert ideal[1:] == ("small payloads are bound by latency: 2.7 us x 2 (16 - 1) steps x 252",)


SMALL = """\
kvspec 1
cluster hall { nodes = 4 x nodes.hgx_h100; fabric = links.infiniband_ndr }
deployment served {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = hall.nodes[0]
  layout   { tp = 8; replicas = 2 }
  budget   { reserve = 3 GB }
  workload { context = 8 ktok; concurrency = 36 req }
}
"""


def test_devices_that_are_too_few_are_those_that_were_chosen() -> None:
    (problem,) = told(SMALL)
    assert problem.headline == "the layout needs 16 devices, and hall.nodes[0] has 8"


def test_shares_of_a_budget_are_written_alike() -> None:
    budget = "utilization = 85 %; reserve = 3 GB }\n  engine = engines.tensorrt_llm_1_2"
    text = SMALL.replace("; replicas = 2", "").replace("reserve = 3 GB }", budget)
    (found,) = (p for p in told(text) if p.code == "KV228")
    assert found.headline.startswith("85 % is of what weights and overheads leave under ")
    assert re.search(r"this budget is \d\d\.\d %$", found.headline)
    assert not any(re.search(r"\d%", said) for said in (found.headline, *found.notes))


@pytest.mark.parametrize(
    ("word", "helped"),
    [
        ("overload", "write `KV202`"),
        ("prefill_overload", "known nearby: "),
        ("KV199", "known nearby: KV1"),
        ("nothing_like_it_at_all", "`kvdsl rule` lists the codes"),
    ],
)
def test_an_allow_of_no_code_is_told_the_code(word: str, helped: str) -> None:
    one = SMALL.replace("; replicas = 2", "").replace("}\n}", f'}}\n  allow {word} because "x"\n}}')
    (problem,) = (p for p in told(one) if p.code == "KV902")
    assert problem.headline == f"no rule has the code `{word}`"
    assert problem.helps[0].startswith(helped)


def test_idle_devices_are_told_by_whole_and_half_used_nodes() -> None:
    found = {p.code: p for p in told(STRADDLING, "sixes")}
    assert found["KV201"].notes == (
        "the layout uses 18: 6 a stage x 3 replicas",
        "6 of them stand in a node that holds ranks: it is half used",
        "1 whole node idle",
    )


@pytest.mark.parametrize(
    ("on", "way"),
    [
        ("1 x bare", "give the node a `scale_up`, or a `host` with its `link`"),
        ("8 x devices.h100_sxm", "stand on `1 x nodes.dgx_h100` or `1 x nodes.hgx_h100`, where"),
        ("8 x own", "declare a node with these `devices` and a `scale_up`"),
        ("2 x four", "declare a cluster with a `fabric` and `nodes = 2 x four`"),
        ("alone", "give `alone` a `fabric`"),
    ],
)
def test_a_group_that_nothing_joins_is_told_what_would_join_it(on: str, way: str) -> None:
    text = f"""\
kvspec 1
device own extends devices.h100_sxm {{}}
node bare {{ devices = 8 x devices.h100_sxm }}
node four {{ devices = 4 x devices.h100_sxm; scale_up {{ link = links.nvlink4 }} }}
cluster alone {{ nodes = 2 x four }}
deployment served {{
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = {on}
  layout   {{ tp = 8 }}
  budget   {{ reserve = 3 GB }}
  workload {{ context = 8 ktok; concurrency = 36 req }}
}}
"""
    (problem,) = told(text)
    assert problem.code == "KV204"
    assert problem.helps[0].startswith(way)
