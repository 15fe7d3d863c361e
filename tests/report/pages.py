"""Reports to look at: the examples through the whole compiler, hard ones, one that means harm."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

from kvdsl.pipeline import compile_path, compile_text
from kvdsl.render.html import report_html
from tests.sample_plan import PLAN
from tests.test_report import report

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = {path.stem: path for path in sorted((ROOT / "specs" / "examples").glob("*.kvspec"))}

SERVED = """\
kvspec 1

## {doc}
deployment {name} {{
  model   = models.{model}
  weights = formats.fp8
  kv      = formats.bf16
  on      = {many} x nodes.hgx_h100
  layout  {{ tp = 8 }}
  budget   {{ reserve = 3 GB }}
  workload {{ context = 8 ktok; concurrency = 64 req }}
  require kv.tokens >= 1 Mtok as {label} because "{because}"
}}
"""
LONG = "a_name_that_a_naming_scheme_of_an_enterprise_made_eu_west_3_production_blue_v17" * 2
SENTENCE = "It is told at length, and then at more length, until the auditor alone reads on. "
SCRIPTS = "\u05e0\u05ea\u05d5\u05e0\u05d9\u05dd \u0642\u062f\u0631\u0629 \u63a8\u7406\u96c6\u7fa4"
HARD = {
    "no_room": SERVED.format(
        doc="Does not fit.", name="big", model="llama_3_1_405b", many=1, label="r", because="so"
    ).replace("formats.fp8", "formats.bf16"),
    "long_words": SERVED.format(
        doc=SENTENCE * 12,
        name=LONG,
        model="llama_3_3_70b",
        many=1,
        label=LONG,
        because=SENTENCE * 4,
    ),
    "other_scripts": SERVED.format(
        doc=SCRIPTS * 3, name="cjk", model="llama_3_3_70b", many=1, label="r", because=SCRIPTS
    ),
    "fleet": SERVED.format(
        doc=SENTENCE, name=LONG, model="llama_3_3_70b", many=1, label="r", because="so"
    )
    + f"""
device mute extends devices.h100_sxm {{ drop price; drop power }}
node bare {{ devices = 8 x mute; scale_up {{ link = links.nvlink4; shape = switch }} }}
deployment dark extends {LONG} {{ on = 1 x bare }}
## {SENTENCE * 3}
fleet {LONG}_all {{
  deployments = [{LONG}, dark]
  require deployments.{LONG}.kv.tokens >= 1 Mtok and gpus <= 8 because "{SENTENCE * 2}"
  require power <= 9 kW as {LONG}
}}
fleet half {{ deployments = [dark]; price = 3 USD/h per device; require gpus <= 8 }}
""",
}
NAMES = (*EXAMPLES, *HARD, "forty", "several", "hostile")


@cache
def page(name: str) -> str:
    if name in HARD:
        made = compile_text(HARD[name], f"{name}.kvspec")
        return report_html(made.plans, "0.1.0", made.fleets)
    if name == "forty":
        findings = tuple(f for f in PLAN.findings for _ in range(-(-40 // len(PLAN.findings))))
        return report_html([replace(PLAN, findings=findings)], "0.1.0")
    if name not in EXAMPLES:
        return report({"several": "two"}.get(name, name))
    return report_html(compile_path(os.path.relpath(EXAMPLES[name])).plans, "0.1.0")
