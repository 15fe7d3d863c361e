"""What this folder tests, as its README says: `python -m tests.known.contents` prints it."""

from __future__ import annotations

from collections import Counter

from tests.known.paper_answers import ANSWERS as PAPERS
from tests.known.planning_reports import KINDS, REPORTS
from tests.known.published import PUBLISHED, SEEDS
from tests.known.test_class_counts import CLASSES, ROWS
from tests.known.test_engine_logs import FIGURES, NOT_PREDICTED, PREDICTED
from tests.known.test_hardware import DEVICES, LINKS, NODES, TIERS
from tests.known.test_hf_configs import CACHES, DIFFERENT, PARAMETERS
from tests.known.test_hf_configs import WAITING as UNCOUNTED
from tests.known.test_parameters import COUNTED
from tests.known.test_seed_cases import ANSWERS
from tests.known.test_seed_diagnostics import FOUND
from tests.known.waiting import WAITING, WAITING_DIAGNOSTICS, WRONG_CLAIMS

HEAD = """\
# Known numbers

Numbers that are published or were worked by hand, and what kvdsl gives for them. A number that
changes here is a mistake until someone shows that the source was wrong.

| source | tests | what is compared |
|---|---|---|
"""

WAYS = """
A published number is asked in one of four ways: `spec`, a value of the plan of a real spec
(`specs/*.kvspec`); `terms`, what `kvdsl explain` shows behind a value, a finding's quantities, a
collective, the memory ledger; `formula`, a formula of the library, where the document's own inputs
are rounded; `refused`, a published mistake that a check must refuse and name.

A new number goes into `data/seed_cases.json` and one of the tables `*_answers.py`; a test fails
while it stands in none. This page is printed by `python -m tests.known.contents`.

## Published numbers, by case

| case | spec | terms | formula | refused | waiting |
|---|---|---|---|---|---|
"""


def readme() -> str:
    rows = (
        (
            "`data/seed_cases.json`, cases: the documents that kvdsl was written for",
            "`test_seed_cases.py`",
            f"{len(PUBLISHED)} numbers, {len(WAITING)} of them waiting",
        ),
        (
            "`data/seed_cases.json`, diagnostics",
            "`test_seed_diagnostics.py`",
            f"{len(SEEDS['diagnostics'])} diagnostics, {len(WAITING_DIAGNOSTICS)} of them waiting",
        ),
        (
            "`data/paper_figures.json`: figures of papers on sharding, formats and levers",
            "`test_paper_figures.py`",
            f"{len(PAPERS)} figures through specs and formulas; what was measured is quoted",
        ),
        (
            "`data/parameter_counts.csv`: transformers, from published configs",
            "`test_parameters.py`",
            f"{sum(map(len, COUNTED.values()))} counts of {len(COUNTED)} models",
        ),
        (
            "`data/configs`, `data/config_parameters.csv`, `data/config_caches.csv`: configs as "
            "published, imported",
            "`test_hf_configs.py`",
            f"{len(PARAMETERS)} configs by group of parameters, {len(CACHES)} by cache at 5 "
            f"lengths; {len(UNCOUNTED)} without a count",
        ),
        (
            "`data/hardware.json`: figures of accelerators, machines, links, tiers and prices, "
            "each with its source",
            "`test_hardware.py`",
            f"{len(DEVICES)} accelerators, {len(NODES)} machines, {len(LINKS)} links, "
            f"{len(TIERS)} tiers; none left out",
        ),
        (
            "`data/class_counts.jsonl`: transformers, from configs of classes that no published "
            "config here has",
            "`test_class_counts.py`",
            f"{len(ROWS)} totals of {len(CLASSES)} classes",
        ),
        (
            "`data/engine_cases.json`: start-up logs of engines, as people published them",
            "`test_engine_logs.py`",
            f"{len(FIGURES)} figures of {len(PREDICTED)} logs; {len(NOT_PREDICTED)} are not "
            "predicted",
        ),
        (
            "`planning_reports.py`: public reports where a plan was wrong",
            "`test_planning_bugs.py`",
            f"{len(REPORTS)} configurations of {len(KINDS)} kinds, each with a twin in which "
            "nothing is wrong",
        ),
        (
            "formulas in the sources of vLLM, SGLang and TensorRT-LLM, worked by hand",
            "`test_engine_pages.py`, `test_engine_policies.py`",
            "pages, pools and shares; DeepSeek V3 on eight H200 under each engine, module by "
            "module",
        ),
        (
            "the two worked deployments of `specs/examples`",
            "`test_worked_examples.py`",
            "every figure of their comments and of the capacity tables",
        ),
    )
    return (
        HEAD
        + "".join(f"| {a} | {b} | {c} |\n" for a, b, c in rows)
        + WAYS
        + cases()
        + waits()
        + reports()
        + differences()
    )


def reports() -> str:
    lines = [
        "\n## Reports of wrong plans, and what is said of each\n\n",
        "Deployments are those of `specs/planning_bugs.kvspec`.\n\n",
        "| report | what was wrong | rule | deployment |\n|---|---|---|---|\n",
    ]
    for one in REPORTS:
        rule = f"{one.code}, {one.severity.value}"
        lines.append(
            f"| {one.source} | {one.kind}. {KINDS[one.kind]} | {rule} | `{one.deployment}` |\n"
        )
    return "".join(lines)


def differences() -> str:
    lines = [f"- {name}: {reason}.\n" for name, reason in DIFFERENT.items()]
    return "".join(["\n## Totals that differ from what is published elsewhere\n\n", *lines])


def cases() -> str:
    kinds = {key: answer.kind for key, answer in ANSWERS.items()}
    kinds_of: Counter[tuple[str, str]] = Counter()
    for key in PUBLISHED:
        kind = "waiting" if key in WAITING else "refused" if key in WRONG_CLAIMS else kinds[key]
        kinds_of[key[0], kind] += 1
    columns = ("spec", "terms", "formula", "refused", "waiting")
    names = list(dict.fromkeys(case for case, _ in PUBLISHED))
    counts = [(name, [kinds_of[name, column] for column in columns]) for name in names]
    counts.append(("all", [sum(row[i] for _, row in counts) for i in range(len(columns))]))
    return "".join(
        f"| {name} | {' | '.join(str(n or '') for n in row)} |\n" for name, row in counts
    )


def waits() -> str:
    lines = ["\n## What waits, and why\n\n"]
    reasons: dict[str, dict[str, list[str]]] = {}
    for (case, name), reason in WAITING.items():
        reasons.setdefault(reason, {}).setdefault(case, []).append(name)
    for diagnostic, reason in WAITING_DIAGNOSTICS.items():
        reasons.setdefault(reason, {})[diagnostic] = []
    for reason, waiting in reasons.items():
        said = [f"{c} ({', '.join(names)})" if names else c for c, names in waiting.items()]
        lines.append(f"- {', '.join(said)}: {reason}.\n")
    lines.append(
        f"\nOf {len(SEEDS['diagnostics'])} diagnostics {len(FOUND)} are found and "
        f"{len(WAITING_DIAGNOSTICS)} wait.\n"
    )
    return "".join(lines)


if __name__ == "__main__":
    print(readme(), end="")
