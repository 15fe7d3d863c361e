"""What a terminal shows: places drawn under their lines, plans in columns, chains as trees."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from fractions import Fraction
from inspect import cleandoc

import pytest

from kvdsl.diagnostics import Diagnostic, Label, Report, Severity
from kvdsl.formulas import Formula, Term, total
from kvdsl.plan import Finding, Plan, SweepTable, Tile, Verdict
from kvdsl.render import machine
from kvdsl.render.characters import cells, clipped, safe, width, wrapped
from kvdsl.render.derivation import derivation_text
from kvdsl.render.diagnostics import MOST_LABELS, concise, drawn, tally
from kvdsl.render.machine_plan import plans_form
from kvdsl.render.paint import Paint
from kvdsl.render.plan_tables import comparison_table, sweep_table, tables
from kvdsl.render.spreadsheet import as_csv
from kvdsl.render.substitution import with_numbers
from kvdsl.render.tables import Table, as_markdown, as_text
from kvdsl.render.terminal import plan_text
from kvdsl.source import SourceFile, Span
from kvdsl.units import BYTES, NONE, TIME, Quantity, number_text
from tests.sample_plan import COMPARISON, PLAN, VALUES

SPEC = SourceFile(
    "prod.kvspec",
    "kvspec 1\n\nlayout tp16 { tp = 16 }\n\tlet 漢字 = 1; let b = 2\n"
    "deployment prod {\n  on = box\n  kv = x\n}\n",
)
CATALOG = SourceFile("catalog/models/llama.kvspec", "kvspec 1\nmodel llama {\n  kv_heads = 8\n}\n")


def at(words: str, file: SourceFile = SPEC) -> Span:
    start = file.text.index(words)
    return file.span(start, start + len(words))


def fault(
    span: Span,
    label: str = "",
    *labels: Label,
    headline: str = "it is wrong",
    notes: tuple[str, ...] = (),
    helps: tuple[str, ...] = (),
) -> Diagnostic:
    primary = Label(span, label)
    return Diagnostic("KV101", Severity.WARNING, headline, primary, labels, notes, helps)


def picture(text: str) -> str:
    return cleandoc(text) + "\n"


# --- diagnostics -------------------------------------------------------------------------------


def test_a_fault_is_drawn_with_its_line_a_place_in_the_catalog_notes_and_help() -> None:
    told = fault(
        at("tp = 16"),
        "each head is stored twice",
        Label(at("kv_heads = 8", CATALOG), "8 KV heads"),
        headline="8 KV heads over 16 ranks",
        notes=("16 ranks / 8 KV heads = 2 copies of each, so the cache on a rank does not shrink",),
        helps=("write `tp = 8; pp = 2`",),
    )
    assert drawn(told) == picture(
        """
        warning[KV101]: 8 KV heads over 16 ranks
         --> prod.kvspec:3:15
          |
        3 | layout tp16 { tp = 16 }
          |               ^^^^^^^ each head is stored twice
          |
         ::: catalog/models/llama.kvspec:3:3
          |
        3 |   kv_heads = 8
          |   ------------ 8 KV heads
          |
          = note: 16 ranks / 8 KV heads = 2 copies of each, so the cache on a rank does
                  not shrink
          = help: write `tp = 8; pp = 2`
        """
    )


def test_tabs_and_wide_characters_do_not_move_the_marks() -> None:
    assert drawn(fault(at("漢字"), "this", Label(at("let b"), "and this"))) == picture(
        """
        warning[KV101]: it is wrong
         --> prod.kvspec:4:6
          |
        4 |     let 漢字 = 1; let b = 2
          |         ^^^^ this
          |                   ----- and this
        """
    )


def test_of_a_block_only_the_first_and_the_last_line_are_shown() -> None:
    block = at("deployment prod {\n  on = box\n  kv = x\n}")
    assert drawn(fault(block, "this block")) == picture(
        """
        warning[KV101]: it is wrong
         --> prod.kvspec:5:1
          |
        5 | deployment prod {
          | ^^^^^^^^^^^^^^^^^
        ...
        8 | }
          | ^ this block
        """
    )


def test_a_span_that_ends_with_a_newline_does_not_reach_the_next_line() -> None:
    assert drawn(fault(at("kvspec 1\n"))).count(" | ^") == 1


def test_two_marks_with_one_line_between_them_show_it() -> None:
    told = fault(at("deployment"), "here", Label(at("kv = x"), "and here"))
    assert "6 |   on = box\n7 |   kv = x\n" in drawn(told)


def test_a_long_line_is_cut_to_what_is_marked() -> None:
    file = SourceFile("long.kvspec", "a = " + "x" * 300 + " + wrong + " + "y" * 300)
    text = drawn(fault(at("wrong", file), "this"))
    assert text == picture(
        """
        warning[KV101]: it is wrong
         --> long.kvspec:1:308
          |
        1 | …xxxxxxxxx + wrong + yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…
          |              ^^^^^ this
        """
    )
    assert max(map(width, text.splitlines())) <= 80


def test_the_end_of_the_file_and_an_empty_file_have_a_place() -> None:
    end = SPEC.span(len(SPEC.text), len(SPEC.text))
    assert "9 |\n  | ^ more was expected" in drawn(fault(end, "more was expected"))
    empty = SourceFile("gone.kvspec", "")
    assert drawn(fault(empty.span(0, 0))) == "warning[KV101]: it is wrong\n --> gone.kvspec\n"


def test_places_beyond_the_limit_are_counted() -> None:
    labels = [Label(at("on = box"), f"place {number}") for number in range(MOST_LABELS + 2)]
    text = drawn(fault(at("tp = 16"), "", *labels))
    assert f"place {MOST_LABELS - 1}" in text
    assert f"place {MOST_LABELS}" not in text
    assert "= note: and 2 more places" in text


@pytest.mark.parametrize("sign", ["\x1b[31m", "\u202e", "\r", "\x07", "\x9b", "\u2028", "\ud800"])
def test_nothing_that_steers_a_terminal_is_printed_raw(sign: str) -> None:
    file = SourceFile(f"a{sign}.kvspec", f"# {sign} x = wrong\n")
    told = fault(
        at("wrong", file), sign, headline=f"a {sign} b", notes=(sign,), helps=(f"x{sign}",)
    )
    for text in (drawn(told), concise(told)):
        assert sign[0] not in text
        assert "<U+" in text


def test_colours_change_no_character_of_the_text() -> None:
    told = fault(at("tp = 16"), "here", notes=("so",), helps=("do",))
    coloured = drawn(told, paint=Paint(colour=True))
    for code in ("1;31", "1;33", "1;36", "1;32", "1", "34", "2", "0"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == drawn(told)


def test_a_tally_counts_each_severity() -> None:
    told = fault(at("tp = 16"))
    error = replace(told, severity=Severity.ERROR)
    other = replace(error, headline="another")
    assert tally(Report.of([told, error, other])) == "2 errors, 1 warning"
    assert tally(Report()) == ""


# --- characters --------------------------------------------------------------------------------


def test_width_counts_columns_and_not_characters() -> None:
    assert [width(text) for text in ("ab", "漢", "e\u0301", "·")] == [2, 2, 1, 1]
    assert "".join(text for text, _ in cells("a\tb\tc")) == "a   b   c"
    assert clipped("漢字漢字", 5) == "漢字…"


def test_wrapping_keeps_long_words_and_the_writers_newlines() -> None:
    address = "https://example.org/" + "a" * 30
    assert wrapped(f"see {address} there\n  so", 20, "- ", "  ") == [
        "- see",
        f"  {address}",
        "  there",
        "    so",
    ]
    assert safe("a\tb\nc") == "a\\tb\\nc"


# --- plans -------------------------------------------------------------------------------------


def test_a_plan_fits_its_columns() -> None:
    text = plan_text(PLAN, 80)
    assert max(map(width, text.splitlines())) <= 80
    for words in ("1.40 Mtok", "room for cache", "A decode step", "* best of its row", "fails"):
        assert words in text


def test_the_engine_stands_in_the_line_below_the_name() -> None:
    lines = plan_text(replace(PLAN, engine="vLLM 0.33.0"), 200).splitlines()
    assert lines[1] == (
        "  tp8_pp2: tp = 8; pp = 2; vLLM 0.33.0; weights fp8, cache bf16; "
        "context 8,000 tok, 128 requests in flight"
    )
    assert "; ;" not in plan_text(PLAN, 200)


def test_a_plan_without_values_says_why() -> None:
    text = plan_text(replace(PLAN, unplanned="attention does not divide", values={}))
    assert text.endswith("\nattention does not divide\n")


def test_figures_of_a_table_end_in_one_column_also_beside_a_star() -> None:
    rows = as_text(comparison_table(COMPARISON), 80)
    assert rows[1].rstrip(" *").endswith("615,956 tok")
    assert rows[1].index("1,402,348 tok *") + 13 == rows[3].index("28.1 ms *") + 7
    assert all(line == line.rstrip() for line in rows)


def test_a_table_too_wide_is_cut_into_pieces_with_its_first_column() -> None:
    rows = as_text(comparison_table(COMPARISON), 50)
    assert sum(line.startswith("  KV tokens") for line in rows) == 2
    assert max(map(width, rows)) <= 50


def hostile(sign: str) -> Plan:
    """A plan whose every word that a user may choose has the sign in it."""
    name = f"a{sign}b"
    column = replace(COMPARISON.columns[0], name=name)
    finding = PLAN.findings[0]
    told = replace(finding.diagnostic, headline=name)
    return replace(
        PLAN,
        name=name,
        model=name,
        hardware=name,
        layout_name=name,
        workload=name,
        verdict=Verdict("bad", name),
        tiles=(Tile(name, "1", name, name),),
        comparison=replace(COMPARISON, columns=(column,), flips=name),
        requirements=tuple(replace(r, label=name, because=name) for r in PLAN.requirements),
        findings=(replace(finding, diagnostic=told, waived=name), finding),
        memory=tuple(replace(bar, title=name, device=name) for bar in PLAN.memory),
        sweeps=tuple(replace(sweep, name=name, axes=(name, name)) for sweep in PLAN.sweeps),
    )


def test_words_among_figures_are_no_wider_than_those() -> None:
    columns = tuple(replace(c, findings=("KV101", "KV104", "KV144", "KV202")) for c in
                    COMPARISON.columns)  # fmt: skip
    found = as_text(comparison_table(replace(COMPARISON, columns=columns)), 200)
    wide = as_text(comparison_table(COMPARISON), 200)
    assert width(found[0]) == width(wide[0])
    assert sum("KV1" in line for line in found) == 2


def test_every_piece_of_a_sweep_has_the_names_of_its_rows() -> None:
    rows = tuple(
        ((f"{n} ktok", form), tuple(Quantity(n * 10**9 + k, BYTES) for k in range(8)))
        for n in (8, 32) for form in ("bf16", "fp8")
    )  # fmt: skip
    sweep = SweepTable("", ("context", "kv"), tuple(f"value {n}" for n in range(8)), rows)
    lines = as_text(sweep_table(sweep), 60)
    assert lines.count("") >= 1
    assert sum(line.startswith("  32 ktok  fp8") for line in lines) == lines.count("") + 1


def test_what_is_there_and_small_is_not_printed_as_nothing() -> None:
    table = Table("t", "T", ("a", "GB"), (("x", Quantity(1, BYTES)), ("y", Quantity(0, BYTES))),
                  ("", "GB"))  # fmt: skip
    assert as_text(table, 80)[1:] == ["  x  < 0.01", "  y    0.00"]


@pytest.mark.parametrize("sign", ["\x1b[31m", "\u202e", "\x07"])
def test_a_plan_prints_no_name_raw(sign: str) -> None:
    plan = hostile(sign)
    assert sign[0] not in plan_text(plan)
    assert sign[0] not in "".join(as_markdown(table) for table in tables(plan))


def test_markdown_takes_no_name_for_markup() -> None:
    text = "".join(as_markdown(table) for table in tables(hostile("|<b>*")))
    assert "a\\|\\<b\\>\\*b" in text


def test_the_csv_form_has_a_line_a_cell_exact_and_in_base_units() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv([PLAN]))))
    tokens = [row for row in rows if row["row"] == "kv.tokens" and row["column"] == "figure"]
    assert [(row["value"], row["unit"]) for row in tokens] == [("1402348", "tok")]
    fits = [row["value"] for row in rows if row["table"] == "comparison" and row["row"] == "fits"]
    assert fits == ["yes", "yes", "yes"]
    sweep = [row for row in rows if row["table"] == "sweep.context"]
    assert (sweep[0]["row"], sweep[0]["column"]) == ("8 ktok tp8_pp2", "kv.sequences")


# --- machine forms -----------------------------------------------------------------------------


def test_the_json_of_a_plan_is_whole_and_keeps_whole_numbers() -> None:
    text = machine.text(plans_form([PLAN]))
    form = json.loads(text)
    assert form["format"] == 1
    (plan,) = form["plans"]
    assert plan["values"]["kv.tokens"] == {"value": 1402348, "unit": "tok"}
    assert plan["values"]["cost.per_hour"] == {"value": 48, "unit": "USD/h"}
    assert plan["engine"] is None
    assert plan["comparison"]["rows"][1]["best"] == ["tp8_pp2", "two_tp8"]
    assert len(plan["findings"]) == len(PLAN.findings)
    assert machine.text(plans_form([PLAN])) == text


@pytest.mark.parametrize(
    ("value", "form", "alone"),
    [
        (3, {"value": 3}, "3"),
        (Fraction(6, 2), {"value": 3}, "3"),
        (Fraction(1, 8), {"value": 0.125, "exact": "1/8"}, "0.125"),
        (Fraction(236, 5), {"value": 47.2, "exact": "236/5"}, "47.2"),
        (0.1, {"value": 0.1}, "0.1"),
        (float("inf"), {"value": None, "exact": "inf"}, "inf"),
    ],
)
def test_a_number_is_whole_exact_or_a_decimal(
    value: int | Fraction | float, form: dict[str, object], alone: str
) -> None:
    assert machine.number(value) == form
    assert number_text(value) == alone


def test_a_chain_in_json_writes_a_shared_term_once() -> None:
    shared = Term("a", 2, BYTES, basis="spec", span=at("tp = 16"))
    term = total("both", [total("one", [shared, shared]), shared])
    form = machine.derivation("x.y", term)
    terms = form["terms"]
    assert isinstance(terms, list)
    assert [each["label"] for each in terms] == ["both", "one", "a"]
    assert [each["inputs"] for each in terms] == [[1, 2], [2, 2], []]
    assert terms[2]["place"] == "prod.kvspec:3"


# --- derivations -------------------------------------------------------------------------------


def test_a_chain_goes_down_to_lines_and_sources() -> None:
    text = derivation_text("llama_405b.kv.tokens", VALUES["kv.tokens"])
    assert max(map(width, text.splitlines())) <= 80
    for words in (
        "│  │  floor(45.23 GB / 32,256 B/tok)",
        "0.92 x 80 GB",
        "catalog/devices/h100_sxm.kvspec:1",
        "source: NVIDIA H100 data sheet",
    ):
        assert words in text


def test_what_a_chain_has_said_it_does_not_say_again() -> None:
    def part() -> Term:
        return total("part", [Term("a", 1, BYTES, note="why"), Term("b", 2, BYTES)])

    assert derivation_text("x", total("all", [part(), part()])) == picture(
        """
        x = 6 B

        all = 6 B
        │  sum of the terms
        │  3 B + 3 B
        ├─ part = 3 B
        │  │  sum of the terms
        │  │  1 B + 2 B
        │  ├─ a = 1 B
        │  │     why
        │  └─ b = 2 B
        └─ part = 3 B (as above)
        """
    )


def test_a_default_and_an_assumption_are_called_so() -> None:
    default = Term("activations", 2, BYTES, basis="default")
    assumed = Term("latency", 1e-6, TIME, basis="assumed", note="nothing gives it")
    assert "default: nobody wrote it" in derivation_text("x", default)
    assert "nothing gives it\n   assumed" in derivation_text("x", assumed)


def test_a_chain_of_any_depth_stays_within_its_columns() -> None:
    term = Term("leaf", 1, BYTES)
    for number in range(60):
        term = total(f"level {number}", [term, Term(f"other {number}", 1, BYTES)])
    assert max(map(width, derivation_text("x", term).splitlines())) <= 80


def derived(text: str, value: int | Fraction | float, **inputs: int | Fraction | float) -> Term:
    terms = tuple(Term(label.replace("_", " "), given, NONE) for label, given in inputs.items())
    return Term("x", value, NONE, Formula("f", text, NONE, "", lambda: 0), terms)


@pytest.mark.parametrize(
    ("term", "line"),
    [
        (derived("a / b of it", Fraction(3, 2), b_of_it=2, a=3), "3 / 2"),
        (derived("room / size", 2, bytes_each=4, place_left=8), "8 / 4"),
        (derived("2 (n - 1) alpha", 12, latency=2, ranks=4), "2 (4 - 1) 2"),
        (derived("max(1, heads / ways)", 2, heads=8, ways=4), "max(1, 8 / 4)"),
        (derived("a x b", 7, a=2, b=3), None),
        (derived("a / b", 7, a=2, b=0), None),
        (derived("a x b x c", 6, a=2, b=3), None),
    ],
)
def test_figures_are_put_in_only_where_the_line_is_then_true(term: Term, line: str | None) -> None:
    assert with_numbers(term) == line


def test_findings_that_were_waived_say_why() -> None:
    waived = [finding for finding in PLAN.findings if finding.waived]
    text = plan_text(PLAN)
    assert waived
    assert all(_told(finding) in text for finding in waived)


def _told(finding: Finding) -> str:
    return f"waived[{finding.code}]"


def test_a_quantity_in_another_unit_is_refused_where_it_does_not_measure() -> None:
    assert machine.in_unit(Quantity(3 * 10**9, BYTES), "GB") == {"value": 3, "unit": "GB"}
    with pytest.raises(ValueError, match="does not measure"):
        machine.in_unit(Quantity(1, BYTES), "ms")
