"""Words of users that would break what shows them: markup, formulas, escapes, reversed text.

A spec may hold any visible character in its texts, comments and the names of its files; the names
of a file hold even what no spec may. Whatever form is written, they are words and nothing else.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any
from unicodedata import bidirectional, category

import pytest

from kvdsl.cli import main
from kvdsl.pipeline import compile_text
from kvdsl.placement.graph_forms import dot, mermaid
from kvdsl.render import machine
from kvdsl.render.html import report_html
from kvdsl.render.machine_plan import plans_form
from kvdsl.render.paint import PLAIN
from kvdsl.render.plan_tables import tables
from kvdsl.render.spreadsheet import as_csv
from kvdsl.render.tables import as_markdown
from kvdsl.render.terminal import plan_text

MARKUP = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "](javascript:alert(1))", "`a`",
    "| a | b |", "**bold** _it_", "&lt;", "{{ 7 * 7 }}", "{0} {name}", "%s", "$(reboot)", "' OR 1",
    "=cmd|' /C calc'!A0", "@SUM(1)", "-->", "]]>", "\\\\x1b[31m", "שלום", "مرحبا", "é" * 3, "漢字",
    "a" * 300,
)  # fmt: skip
"""What a text between quotes may hold."""

UNSEEN = ("\x1b[31m", "\x07", "\x00", "\x9b2J", "\u202e", "\u2066", "\u200b", "\u2028", "\ufeff")
"""What no spec may hold, and a name of a file may."""

SPEC = """\
kvspec 1

## {doc}

device gpu {{ memory = 80 GB from "{text}"; bandwidth = 2 TB/s; compute {{ bf16 = 400 TFLOP/s }} }}
link wire {{ bandwidth = 100 GB/s; source = "{text}" }}
node box {{ devices = 8 x gpu; scale_up {{ link = wire; shape = switch }} }}

## {doc}
deployment prod {{
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x box
  layout   {{ tp = 4 }}
  workload {{ context = 8 ktok; concurrency = 16 req }}
  require kv.tokens >= 1 Gtok because "{text}"
  allow KV143 because "{text}"
  sweep {{ workload.concurrency = [- -1 req, (2 req)]; show = [kv.tokens] }}
}}
"""
ESCAPES = re.compile("\x1b\\[[0-9;]*m")


def spec(text: str) -> str:
    return SPEC.format(doc=text, text=text)


def is_plain(shown: str) -> bool:
    """Whether nothing in it moves a cursor, hides, or turns the reading order."""
    return not any(
        (category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in "\n")
        or bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")
        for c in shown
    )


def strings(data: Any) -> list[str]:
    if isinstance(data, dict):
        return [text for each in data.values() for text in strings(each)]
    if isinstance(data, list):
        return [text for each in data for text in strings(each)]
    return [data] if isinstance(data, str) else []


@pytest.mark.parametrize("text", MARKUP)
def test_a_text_is_words_in_every_form(text: str) -> None:
    compilation = compile_text(spec(text), "prod.kvspec")
    assert not [d for d in compilation.report.diagnostics if d.code < "KV100"]
    (plan,) = compilation.plans
    assert is_plain(plan_text(plan, 80, PLAIN))
    told = json.loads(machine.text(plans_form([plan])))
    assert plan.findings
    assert text in strings(told)
    for row in csv.reader(io.StringIO(as_csv([plan]))):
        assert len(row) == 6
        assert all(is_plain(cell) for cell in row)
    for table in tables(plan):
        lines = [line for line in as_markdown(table).splitlines() if line.startswith("|")]
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(bars) == 1, lines


@pytest.mark.parametrize("sign", UNSEEN)
def test_a_spec_may_not_hold_what_cannot_be_seen(sign: str) -> None:
    report = compile_text(spec(f"a{sign}b"), "prod.kvspec").report
    assert report.failed
    assert "KV002" in {each.code for each in report.diagnostics}


def test_no_cell_of_a_csv_starts_a_formula() -> None:
    (plan,) = compile_text(spec("a"), "prod.kvspec").plans
    rows = list(csv.reader(io.StringIO(as_csv([plan]))))
    assert any(cell.startswith("'- -1") for row in rows for cell in row)
    for row in rows:
        for cell in row:
            number = re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?|inf", cell)
            assert number or cell == "-" or not re.match(r"[=+\-@\t\r]", cell), row


@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot be there")
@pytest.mark.parametrize("sign", [*UNSEEN, *MARKUP[:5], "\n", "=1+1", "'", '"', "%0A::error::"])
@pytest.mark.parametrize("content", [spec("a"), "kvspec 1\nlayout a { tp = = 8 }\n"])
def test_the_name_of_a_file_is_a_name_in_every_output(
    sign: str,
    content: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "\x00" in sign:
        pytest.skip("no name holds a NUL")
    name = f"a{sign.replace('/', '')}b.kvspec"
    (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for arguments in (
        ("check", name),
        ("check", "--output", "concise", name),
        ("plan", name),
        ("plan", name, "--output", "markdown"),
        ("plan", name, "--output", "csv"),
        ("fmt", "--check", "--diff", name),
        ("graph", name),
        ("get", name, "prod.kv.tokenz"),
        ("check", f"gone{sign}.kvspec"),
    ):
        main(list(arguments))
        out, err = capsys.readouterr()
        assert is_plain(out), arguments
        assert is_plain(err), arguments
        assert "fault in kvdsl" not in err
    main(["check", name, "--output", "json"])
    found = json.loads(capsys.readouterr().out)
    assert name in {each["file"] for each in found["inputs"]}


def test_an_argument_is_shown_as_words(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["check\x1b[31m"],
        ["rule", "KV\x1b[31m"],
        ["check", "--output", "j\x1b[31m", "a"],
        ["plan", "a", "--set", "\x1b[31m"],
        ["get", "a.kvspec", "\x1b[31m"],
        ["--\x1b[31m"],
    ):
        assert main(arguments) in (1, 2)
        out, err = capsys.readouterr()
        assert is_plain(out + err), arguments


def test_a_label_of_a_graph_stays_in_its_quotes() -> None:
    from networkx import MultiDiGraph

    made: MultiDiGraph[str] = MultiDiGraph()
    made.add_node('a"];b', kind="node", label='x"] -> y; "#\x1b[31m\n<b>')
    assert '"a\\"];b" [label="x\\"] -> y; \\"#' in dot(made)
    assert '["x#quot;] -> y; #quot;#35; [31m <b>"]' in mermaid(made)


CONFIG = {
    "model_type": "llama", "hidden_size": 1024, "vocab_size": 32_000, "num_hidden_layers": 8,
    "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 4096,
    "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip
ON_IT = """
deployment prod {{
  model    = {name}
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   {{ tp = 4 }}
  workload {{ context = 8 ktok; concurrency = 16 req }}
  sweep {{ layout.tp = [4, 3, 16]; show = [kv.tokens] }}
}}
"""


@pytest.mark.parametrize("text", [*MARKUP, "a\x1b[31mb", "a\u202eb", 'a"}b', "a\nb", "a\x00b"])
def test_what_a_configuration_or_its_source_says_is_words(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {**CONFIG, "_name_or_path": text, "architectures": [text], text: text}
    (tmp_path / "config.json").write_text(json.dumps(said), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    main(["import", "hf", "config.json", "--name", "own", "--source", text])
    spec, told = capsys.readouterr()
    assert is_plain(told)
    assert "fault in kvdsl" not in told
    if not spec:  # a source that no spec may hold is refused
        return
    compilation = compile_text(spec + ON_IT.format(name="own"), "prod.kvspec")
    assert not compilation.report.failed, compilation.report.diagnostics
    (plan,) = compilation.plans
    assert is_plain(plan_text(plan, 80, PLAIN))
    assert is_plain(as_csv([plan]))
    page = report_html([plan], "0")
    assert is_plain(page)
    assert not re.search(r"<script>alert|<img src=x|onerror=alert\(1\)>", page)
    assert {"", *plan.sweeps[0].reasons} != {""}
    assert json.loads(machine.text(plans_form([plan])))["plans"][0]["sweeps"][0]["rows"][1]["why"]
