"""The report: sections in order, one file, escaped, reachable. How it looks: report/."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest

from kvdsl import units
from kvdsl.diagnostics import Diagnostic, Label, Severity
from kvdsl.plan import Alternative, Answer, Change, Entry, Finding, Plan, Tile, Verdict
from kvdsl.render.chapters import SECTIONS
from kvdsl.render.html import report_html
from kvdsl.render.listing import pieces
from kvdsl.render.pdf import PdfUnavailable, report_pdf
from kvdsl.render.places import cited
from kvdsl.render.visible import visible
from kvdsl.units import TOKENS
from tests import sample_plan as sample
from tests.sample_plan import PLAN

HOSTILE = '</style><script>alert("1")</script><img src=x onerror=alert(2)>\u202e\u0007&amp;'
VOID = {"meta", "br", "link", "img", "input", "wbr", "hr"}


class Page(HTMLParser):
    """What a test asks of a page: tags with attributes, and words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if not {"style", "title"} & set(self.open[-1:]):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, attribute: str) -> list[str]:
        return [v for _, attrs in self.tags if (v := attrs.get(attribute))]

    @property
    def headings(self) -> list[int]:
        return [int(tag[1]) for tag, _ in self.tags if re.fullmatch("h[1-6]", tag)]


def second() -> Plan:
    return replace(PLAN, name="tp16", pictures=(sample.tp16_picture(),), findings=())


def bare() -> Plan:
    """A plan that never came to be: a verdict, and why."""
    return replace(
        PLAN,
        verdict=Verdict("bad", "Does not divide: 8 KV heads over TP=3."),
        tiles=(), values={}, requirements=(), findings=(), pictures=(), memory=(), cache=(),
        charts=(), collectives=(), steps=(), comparison=None, sweeps=(), assumptions=(),
        sources=(), unplanned="tp must divide the KV heads or be divided by them",
    )  # fmt: skip


def hostile() -> Plan:
    span = PLAN.span
    finding = Finding(
        HOSTILE, HOSTILE, Severity.ERROR,
        Diagnostic(HOSTILE, Severity.ERROR, HOSTILE, Label(span, HOSTILE), (), (HOSTILE,),
                   (HOSTILE,)),
    )  # fmt: skip
    return replace(
        PLAN,
        name=HOSTILE, doc=HOSTILE, file=HOSTILE, model=HOSTILE, layout=HOSTILE,
        engine=HOSTILE,
        verdict=Verdict("bad", HOSTILE),
        tiles=(Tile(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        values={HOSTILE: PLAN.values["kv.tokens"].named(HOSTILE), **PLAN.values},
        requirements=tuple(replace(r, text=HOSTILE, because=HOSTILE) for r in PLAN.requirements),
        findings=(finding, replace(finding, waived=HOSTILE)),
        pictures=tuple(replace(p, caption=HOSTILE, note=HOSTILE) for p in PLAN.pictures),
        memory=tuple(replace(m, title=HOSTILE, device=HOSTILE) for m in PLAN.memory),
        charts=tuple(replace(c, title=HOSTILE, x_label=HOSTILE) for c in PLAN.charts),
        assumptions=(Entry(HOSTILE, HOSTILE, HOSTILE, f"https://example.org/{HOSTILE}", None),),
        texts=((HOSTILE, f"# {HOSTILE}\n"), *PLAN.texts),
    )  # fmt: skip


@cache
def report(name: str = "one") -> str:
    plans = {"one": [PLAN], "two": [PLAN, second()], "bare": [bare()], "hostile": [hostile()]}
    return report_html(plans[name], "0.1.0")


REPORTS = ("one", "two", "bare", "hostile")


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_well_formed_and_its_headings_are_in_order(name: str) -> None:
    page = Page(report(name))
    assert page.wrong == []
    assert page.open == []
    assert page.headings.count(1) == 1
    assert page.headings[0] == 1
    jumps = [(a, b) for a, b in zip(page.headings, page.headings[1:], strict=False) if b > a + 1]
    assert jumps == []
    assert ("html", {"lang": "en"}) in page.tags


@pytest.mark.parametrize("name", REPORTS)
def test_every_link_inside_leads_somewhere_and_every_id_is_one(name: str) -> None:
    page = Page(report(name))
    ids = page.values("id")
    assert sorted({i for i in ids if ids.count(i) > 1}) == []
    inside = [href[1:] for href in page.values("href") if href.startswith("#")]
    assert inside
    assert [href for href in inside if href not in ids] == []
    labels = [i for value in page.values("aria-labelledby") for i in value.split()]
    assert [i for i in labels if i not in ids] == []


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_fetches_nothing_and_runs_nothing(name: str) -> None:
    text, page = report(name), Page(report(name))
    assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "img"} == set()
    assert [k for _, attrs in page.tags for k in attrs if k.startswith("on")] == []
    assert page.values("src") == []
    assert set(re.findall(r"url\(\s*['\"]?([a-z]+:|#)", text)) <= {"data:", "#"}
    assert "@import" not in text
    fetched = [a for tag, attrs in page.tags if tag != "a" for a in attrs.values() if a]
    assert [a for a in fetched if re.match(r"(https?:)?//", a) and "w3.org" not in a] == []


@pytest.mark.parametrize("name", REPORTS)
def test_every_picture_has_a_title_and_words_for_those_who_cannot_see_it(name: str) -> None:
    page = Page(report(name))
    pictures = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert len(pictures) == sum(tag == "desc" for tag, _ in page.tags)
    assert all(p.get("role") == "img" and p.get("aria-labelledby") for p in pictures)


def test_sections_stand_in_the_order_of_a_decision() -> None:
    page = Page(report())
    ids = page.values("id")
    wanted = [key for key, _, filled in SECTIONS if filled(PLAN)]
    assert [i for i in ids if i in wanted] == wanted
    assert wanted[:4] == ["verdict", "requirements", "findings", "placement"]
    assert ids.index("spec") > ids.index("sources")
    shown = [attrs["href"] for tag, attrs in page.tags if tag == "a" and attrs.get("href")]
    assert [f"#{key}" for key in wanted] == [h for h in shown if h and h[1:] in wanted]


def test_a_section_without_content_is_left_out() -> None:
    page = Page(report("bare"))
    assert set(page.values("id")) & {key for key, *_ in SECTIONS} == {"verdict"}
    assert "tp must divide the KV heads" in page.text


def test_the_head_of_a_report_names_the_engine_where_there_is_one() -> None:
    engine = "<div><dt>Engine</dt><dd>vLLM 0.33.0</dd></div>"
    assert engine in report_html([replace(PLAN, engine="vLLM 0.33.0")], "prod.kvspec")
    assert "<dt>Engine</dt>" not in report()


def test_figures_are_rounded_for_people_and_exact_on_hover() -> None:
    text = report()
    assert 'title="45234163200 B">45.23\N{NO-BREAK SPACE}GB' in text
    assert "20,610,809,856" in text  # the memory table
    assert "19.195" in text  # the same in GiB


def test_findings_requirements_and_derivations_point_into_the_spec() -> None:
    text = report()
    line = sample.TEXT[: sample.TEXT.index("require kv.tokens")].count("\n") + 1
    assert text.count(f'href="#L1-{line}"') >= 3  # the requirement, the finding, the line itself
    page = Page(text)
    assert "floor(45.23 GB / 32,256 B/tok)" in page.text
    assert 'href="#step-' in text  # what is derived once is linked, not told again
    assert "NVIDIA H100 data sheet" in page.text


def test_an_alternative_shows_what_it_gains_and_what_would_flip_it() -> None:
    text = Page(report()).text
    assert "1,402,348 tok → 2,804,697 tok 2.00×" in text
    assert "What would flip this: Keep bf16" in text
    assert "the router balances long-context ranks" in text


def test_the_best_of_each_row_is_marked_and_ties_all_are() -> None:
    rows = re.findall(r"<tr><th scope=\"row\"><a[^>]*>copies<.*?</tr>", report(), re.DOTALL)
    assert len(rows) == 1
    assert rows[0].count("best</span>") == 2


def test_what_a_user_wrote_can_neither_break_the_page_nor_hide() -> None:
    text = report("hostile")
    page = Page(text)
    assert "<script" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "\u0007" not in text
    assert "<U+202E><U+0007>" in page.text
    assert text.count("</style>") == 2


def test_invisible_signs_are_spelt_out_and_others_kept() -> None:
    assert visible("a\u202eb\x00\u200b\ufeff") == "a<U+202E>b<U+0000><U+200B><U+FEFF>"
    kept = "äµ→ 中文 العربية 👩\u200d🔬\n\tx"
    assert visible(kept) == kept


@pytest.mark.parametrize(
    "line", [*sample.TEXT.splitlines(), '"open', "a#b", "## doc", "€ = 1.5e3 % x"]
)
def test_a_highlighted_line_is_the_line(line: str) -> None:
    assert "".join(text for _, text in pieces(line)) == line


def test_a_report_needs_a_plan() -> None:
    with pytest.raises(ValueError, match="needs a plan"):
        report_html([], "0.1.0")


def test_without_pango_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real = builtins.__import__

    def fails(name: str, *rest: object, **more: object) -> object:
        if name == "weasyprint":
            raise OSError("cannot load library 'libpango-1.0-0'")
        return real(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", fails)
    with pytest.raises(PdfUnavailable, match=r"libpango-1\.0-0 libpangoft2-1\.0-0"):
        report_pdf("<p>")


def test_a_figure_that_is_not_rounded_has_nothing_to_hover() -> None:
    text = report()
    assert 'title="1402348 tok"' not in text
    assert "1,402,348\N{NO-BREAK SPACE}tok" in text


def test_a_place_in_the_only_file_is_its_line_and_in_one_of_several_has_the_file() -> None:
    assert re.search(r'href="#L1-\d+">line \d+</a>', report())
    other = replace(PLAN, texts=(*PLAN.texts, ("other.kvspec", "kvspec 1\n")))
    assert ">line " not in report_html([other], "0.1.0").replace('aria-label="line ', "")


def test_a_change_says_whether_it_is_better() -> None:
    before, after = units.Quantity(100, TOKENS), units.Quantity(200, TOKENS)
    assert Change("kv.tokens", "KV tokens", before, after, more=True).better is True
    assert Change("gpus", "GPUs", before, after, more=False).better is False
    assert Change("gpus", "GPUs", before, before, more=False).better is None
    assert Change("x", "x", before, after).better is None
    below = units.Quantity(-100, TOKENS)
    alternative = Alternative("more", "", (Change("x", "room", below, after, more=True),))
    finding = replace(PLAN.findings[0], alternative=alternative)
    text = report_html([replace(PLAN, findings=(finding,))], "0.1.0")
    assert "-2.00×" not in text
    assert '<span class="way better">better</span>' in text


def test_what_a_request_cannot_do_has_no_times() -> None:
    none = PLAN.values["memory.kv"]
    none = replace(none, value=-1)
    page = Page(report_html([replace(PLAN, values={**PLAN.values, "memory.kv": none})], "0.1.0"))
    assert {"communication", "time", "cost"}.isdisjoint(page.values("id"))
    assert {"memory", "derivations"} <= set(page.values("id"))


def test_answers_stand_above_the_key_figures_and_lead_to_their_sections() -> None:
    said = (
        Answer("Does it fit?", ("Yes: 61 % of `budget`.",), "good", "memory"),
        Answer("What would be better?", ("Nothing.",), "", "nowhere"),
    )
    text = report_html([replace(PLAN, answers=said)], "0.1.0")
    assert '<a href="#memory">Does it fit?</a>' in text
    assert "61\N{NO-BREAK SPACE}% of <code>budget</code>" in text
    assert 'href="#nowhere"' not in text
    assert text.index("Does it fit?") < text.index('class="tiles"')


def test_several_deployments_stand_side_by_side_with_their_key_figures() -> None:
    text = report("two")
    table = text[text.index('<table class="summary">') :].partition("</table>")[0]
    assert table.count("<tr>") == 3
    assert all(label in table for label in ("KV tokens", "TTFT", "TPOT"))


def test_a_citation_of_the_catalog_is_a_link_and_one_of_the_spec_only_by_its_address() -> None:
    commit = "stas00/ml-engineering network/README.md @744d01e1 (2026-08)"
    assert cited(commit)[0] == (
        "stas00/ml-engineering network/README.md @744d01e1",
        "https://github.com/stas00/ml-engineering/tree/744d01e1",
    )
    stored = "meta-llama/Llama config.json, as stored in ai-dynamo/aiconfigurator @095f58a5"
    assert cited(stored)[1][1] == "https://github.com/ai-dynamo/aiconfigurator/tree/095f58a5"
    assert [address for _, address in cited("a paper, table 3 (2026)")] == [""]
    assert cited("see https://a.org/x, p. 2")[1] == ("https://a.org/x", "https://a.org/x")
    own = Entry("x", "1 B", "", commit, PLAN.span)
    far = replace(own, span=sample.CATALOG.span(0, 1), source=commit.replace("744", "755"))
    text = report_html([replace(PLAN, sources=(own, far))], "0.1.0")
    assert "tree/744d01e1" not in text
    assert "tree/755d01e1" in text


def test_long_words_about_a_deployment_do_not_stand_before_its_verdict() -> None:
    text = report_html([replace(PLAN, doc="A long sentence of it. " * 30)], "0.1.0")
    assert text.count('<details class="doc">') == 1
    assert Page(text).wrong == []


def test_a_condition_leads_to_the_derivation_of_what_it_names() -> None:
    text = report()
    assert re.search(r'<code>require <a class="chain-link" href="#value-kv-tokens"', text)
    assert "layout.tp" not in re.sub(r"<pre.*?</pre>", "", text).partition('id="spec"')[0]
