"""Laws of the syntax: nothing raises, trees say what was written, one grammar stands behind all."""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdsl import units
from kvdsl.resources import grammar_text
from kvdsl.source import SourceFile
from kvdsl.syntax import nodes as n
from kvdsl.syntax.formatter import equivalent, format_module
from kvdsl.syntax.outline import outline, scan
from kvdsl.syntax.parser import parse
from kvdsl.syntax.tables import TABLES, build, fingerprint, parser
from kvdsl.units import Quantity

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "specs/examples").glob("*.kvspec"))
TEXTS = [example.read_text(encoding="utf-8") for example in EXAMPLES]


def tree(text: str) -> n.Module:
    module, problems = parse(SourceFile("case.kvspec", text))
    assert problems == (), [problem.headline for problem in problems]
    return module


def value(text: str) -> n.Expr:
    (_, let) = tree(f"kvspec 1\nlet a = {text}\n").statements
    assert isinstance(let, n.Let)
    return let.value


# --- specs drawn at random ---------------------------------------------------------------------

SOFT_WORDS = ["x", "per", "from", "within", "of", "when", "as", "because", "extends", "min", "h"]
words = st.sampled_from(["tp", "kv", "a_b", "layout", "node", "true_", *SOFT_WORDS])
numbers = st.sampled_from(["1", "1_402_348", "0.5", "4.8e12", "0"])
quantities = st.tuples(numbers, st.sampled_from(["", " "]), st.sampled_from(sorted(units.UNITS)))
texts = st.sampled_from(['"a"', '""', '"# no comment"', '"{ ("'])
spaces = st.sampled_from(["", " ", "  "])
indexes = st.sampled_from(["0", "0..1", "0, 4 .. 7"])


@st.composite
def paths(draw: st.DrawFn) -> str:
    names = [draw(words.filter(lambda word: word not in SOFT_WORDS)), *draw(st.lists(words))[:2]]
    index = f"[{draw(indexes)}]" if draw(st.booleans()) else ""
    return ".".join(names) + index


atoms = st.one_of(
    numbers, quantities.map("".join), texts, paths(), st.just("true"), paths().map("8 x {}".format)
)


def chains(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.sampled_from([" + ", " - ", "*", " / ", " or ", " and ", " +\n  ", " - # why\n"])
    grouped = inner.map(lambda text: f"({text})")
    return st.one_of(
        grouped,
        st.tuples(grouped, signs, grouped).map("".join),
        st.tuples(atoms, signs, atoms, signs, grouped).map("".join),
        st.tuples(grouped, st.sampled_from([" == ", "<", " >= "]), grouped).map("".join),
        st.tuples(grouped, grouped, grouped).map(lambda t: f"{t[0]} within {t[1]} of {t[2]}"),
        grouped.map("not {}".format),
        grouped.map("-{}".format),
        st.tuples(grouped, paths()).map(" per ".join),
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda items: "[\n" + ", # of\n".join(items) + "]"
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda items: f"max({', '.join(items)})"),
    )


expressions = st.recursive(atoms, chains, max_leaves=6)
lines = st.sampled_from(
    ["\n", "\n\n", "\n\n\n", "  # beside\n", "\n# above\n", "\n\n## of\n", "\r\n"]
)
separators = st.one_of(lines, st.just("; "))


def statements(
    blocks: st.SearchStrategy[str],
) -> st.SearchStrategy[str]:
    clauses = st.lists(
        st.sampled_from([" when a", " as b", ' because "c"']), unique=True, max_size=3
    ).map("".join)
    return st.one_of(
        st.tuples(paths(), expressions).map(" = ".join),
        st.tuples(paths(), expressions).map(lambda t: f'{t[0]}={t[1]} from "s"'),
        st.tuples(paths(), blocks).map(" = ".join),
        st.tuples(words, words, blocks).map(lambda t: f"{t[0]}_ {t[1]}_ {t[2]}"),
        st.tuples(paths(), blocks).map(lambda t: f"kind extends {t[0]} {t[1]}"),
        st.tuples(words, blocks).map(lambda t: f"kind {t[0]}_ = form {t[1]}"),
        blocks.map("58 x layer {}".format),
        st.just("latent"),
        st.tuples(st.sampled_from(["require", "expect"]), expressions, clauses).map(
            lambda t: f"{t[0]} {t[1]}{t[2]}"
        ),
        st.just('allow KV108 because "known"'),
        st.lists(expressions, min_size=1, max_size=3).map(lambda t: f"compare {', '.join(t)}"),
        paths().map("drop {}".format),
        st.tuples(words, expressions).map(lambda t: f"let {t[0]} = {t[1]}"),
    )


def blocks_of(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(st.tuples(inner, separators).map("".join), max_size=3).map("".join)
    return st.tuples(st.sampled_from(["{", "{ # opened\n", "{\n\n", "{ "]), body).map(
        lambda t: f"{t[0]}{t[1]}}}"
    )


empty = st.sampled_from(["{}", "{ }", "{ # nothing\n}", "{\n\n}"])
bodies = st.recursive(empty, lambda inner: blocks_of(statements(inner)), max_leaves=4)
modules = st.lists(st.tuples(statements(bodies), lines).map("".join), max_size=5).map(
    lambda parts: "# first\nkvspec 1\n" + "".join(parts)
)


@given(modules)
def test_formatting_keeps_meaning_and_comments_and_settles_at_once(text: str) -> None:
    given_tree = tree(text)
    once = format_module(given_tree)
    again = tree(once)
    assert equivalent(given_tree, again)
    assert format_module(again) == once
    before = outline(SourceFile("case.kvspec", text)).comments
    after = outline(SourceFile("case.kvspec", once)).comments
    assert sorted(c.text for c in before) == sorted(c.text for c in after)
    assert once.endswith("\n")
    assert not re.search(r"[ \t\r]\n|\n\n\n|\n\n\Z|\A\n", once)


@given(st.sampled_from(TEXTS), st.data())
def test_damaged_text_gives_diagnostics_and_never_raises(text: str, data: st.DataObject) -> None:
    tokens = [token.text for token in scan(SourceFile("case.kvspec", text))]
    extra = ["'", '"', ":", "{", "}", "[", ")", "..", "1e999999", "é", "\x00", "x", "\n", "="]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(tokens) - 1))
        tokens[at] = data.draw(st.sampled_from([*extra, tokens[at] * 2, "", tokens[at - 1]]))
    module, _ = parse(SourceFile("case.kvspec", " ".join(tokens)))
    format_module(module)


@given(st.text())
def test_any_text_at_all_is_parsed_or_explained(text: str) -> None:
    module, problems = parse(SourceFile("case.kvspec", text))
    format_module(module)
    assert problems or isinstance(module.statements[0], n.Edition)


@pytest.mark.parametrize("text", TEXTS, ids=[example.stem for example in EXAMPLES])
def test_a_file_cut_anywhere_keeps_what_was_whole(text: str) -> None:
    whole = tree(text)
    for token in scan(SourceFile("case.kvspec", text)):
        module, problems = parse(SourceFile("case.kvspec", text[: token.start]))
        finished = [s for s in whole.statements if s.span.end <= token.start]
        assert len(module.statements) >= len(finished)
        assert not any(isinstance(s, n.Broken) for s in module.statements[: len(finished)])
        # One fault: the cut. The edition may be missing beside it.
        assert len(problems) <= 2


@pytest.mark.parametrize("text", TEXTS, ids=[example.stem for example in EXAMPLES])
def test_the_grammar_alone_reads_whole_files_too(text: str) -> None:
    assert len(parser().parse(text).children) == len(tree(text).statements)


# --- what trees say ----------------------------------------------------------------------------


def shape(node: n.Expr) -> str:
    """An expression with all its parentheses, in prefix form."""
    match node:
        case n.Binary():
            return f"({node.operator} {shape(node.left)} {shape(node.right)})"
        case n.Unary():
            return f"({node.operator} {shape(node.operand)})"
        case n.Within():
            return f"(within {shape(node.value)} {shape(node.tolerance)} {shape(node.target)})"
        case n.Items():
            return f"[{' '.join(map(shape, node.items))}]"
        case n.Path():
            return node.dotted
        case _:
            return node.span.text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a or b and not c == d + e * -f", "(or a (and b (not (== c (+ d (* e (- f)))))))"),
        ("a - b - c / d / e", "(- (- a b) (/ (/ c d) e))"),
        ("-1 TB per node", "(- (per 1 TB node))"),
        ("2 x nodes.a per rack", "(per (x 2 nodes.a) rack)"),
        ("a within 5 % of b + c", "(within a 5 % (+ b c))"),
        ("80 GB/h", "80 GB/h"),
        ("80 GB / h", "(/ 80 GB h)"),
        ("80 GB/hosts", "(/ 80 GB hosts)"),
        ("5 min", "5 min"),
        ("[3 x nodes.a, 5 x box]", "[(x 3 nodes.a) (x 5 box)]"),
        ("a\n", "a"),
        ("a *\n\n  b", "(* a b)"),
        ("(a\n + b)", "(+ a b)"),
        ("[a\n, b\n]", "[a b]"),
    ],
)
def test_operators_bind_as_the_language_says(text: str, wanted: str) -> None:
    assert shape(value(text)) == wanted


def test_ranges_are_two_whole_numbers_and_no_decimals() -> None:
    path = value("pod.devices[0..1, 4, 6 .. 7]")
    assert isinstance(path, n.Path)
    assert [(r.first, r.last) for r in path.ranges] == [(0, 1), (4, 4), (6, 7)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1_402_348", 1_402_348),
        ("0.1", Fraction(1, 10)),
        ("4.8e12", 4_800_000_000_000),
        ("25e-2", Fraction(1, 4)),
        ("9" * 40, 10**40 - 1),
        ("1e99", 10**99),
    ],
)
def test_numbers_are_exact(text: str, wanted: int | Fraction) -> None:
    number = value(text)
    assert isinstance(number, n.Number)
    assert number.value == wanted


def test_every_unit_and_rate_is_one_quantity() -> None:
    simple = [unit for unit in units.UNITS if unit != "%"]
    rates = ["/".join(pair) for pair in product(simple, simple)]
    for unit in ["%", *simple, *rates]:
        measure = value(f"3 {unit}")
        assert isinstance(measure, n.Measure), unit
        assert measure.quantity == Quantity.of(3, unit)


def test_the_grammar_lists_the_units_that_there_are() -> None:
    _, _, rules = grammar_text().partition("\nUNIT:")
    rules, _, _ = rules.partition("\nCOMPARISON:")
    assert set(re.findall(r'"(\w+)"', rules)) == set(units.UNITS) - {"%"}


def test_words_are_reserved_only_where_they_stand() -> None:
    text = "kvspec 1\nmodel extends_ {\n"
    text += "".join(f"  {word} = {word}.{word}\n" for word in [*SOFT_WORDS, "import", "kvspec"])
    assert len(tree(text + "}\n").statements) == 2


def test_documentation_is_of_the_declaration_or_of_the_file() -> None:
    module = tree(
        "kvspec 1\n\n## Of the\n## file.\n\n# aside\n## Of a.\nlayout a { }\n## Of none\n"
    )
    layout = module.statements[1]
    assert isinstance(layout, n.Declare)
    assert (module.doc, layout.doc) == ("Of the\nfile.", "Of a.")
    assert [comment.text for comment in module.dangling] == ["## Of none"]


def test_comments_stay_with_what_they_stand_beside() -> None:
    text = "kvspec 1\nlayout a { # open\n\n  # above\n  tp = 8 # beside\n\n  # below\n} # closed\n"
    layout = tree(text).statements[1]
    assert isinstance(layout, n.Declare)
    (tp,) = layout.body.statements
    assert layout.body.opening is not None
    assert layout.body.opening.text == "# open"
    assert [comment.text for comment in tp.trivia.leading] == ["# above"]
    assert tp.trivia.blanks == (True, False)
    assert tp.trivia.trailing is not None
    assert tp.trivia.trailing.text == "# beside"
    assert [comment.text for comment in layout.body.dangling] == ["# below"]
    assert layout.trivia.trailing is not None
    assert layout.trivia.trailing.text == "# closed"


@pytest.mark.parametrize("text", TEXTS, ids=[example.stem for example in EXAMPLES])
def test_spans_hold_the_text_of_their_nodes(text: str) -> None:
    windows = tree("\ufeff" + text.replace("\n", "\r\n"))
    for ours, theirs in zip(tree(text).statements, windows.statements, strict=True):
        assert theirs.span.text.replace("\r\n", "\n") == ours.span.text
        assert ours.span.text == ours.span.text.strip()


# --- limits and tables -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part", ["{", "(", "[", "- ", "not ", "1 + ", "a.", "a b {\n", "# c\n", ";"]
)
def test_ten_thousand_of_anything_neither_crash_nor_recurse(part: str) -> None:
    for text in (part * 10_000, f"kvspec 1\nlet a = {part * 10_000}1\n"):
        depth = sys.getrecursionlimit()
        module, problems = parse(SourceFile("case.kvspec", text))
        format_module(module)
        assert problems
        assert sys.getrecursionlimit() == depth


def test_work_grows_with_the_text_and_no_faster() -> None:
    # Counted, not timed: the steps that Python takes for a text and for one ten times as long.
    def steps(text: str) -> int:
        count = 0

        def step(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(step)
        try:
            parse(SourceFile("case.kvspec", text))
        finally:
            sys.setprofile(None)
        return count

    parse(SourceFile("case.kvspec", TEXTS[0]))  # the parser is made once
    for part in ("a b {\n", "layout a { tp = 8 }\n", "a = [\n", "let a = 1 +\n", '"\n', "a\n{\n"):
        assert steps(part * 500) < 12 * steps(part * 50)


def test_the_shipped_tables_are_of_this_grammar() -> None:
    stored = TABLES.read_text(encoding="utf-8")
    assert f'"grammar":"{fingerprint(grammar_text())}"' in stored, "python -m kvdsl.syntax.tables"


def test_a_part_that_rules_hand_up_keeps_its_tree_and_its_positions() -> None:
    plain = build(grammar_text())
    for path in sorted(Path("specs/examples").glob("*.kvspec")):
        text = path.read_text(encoding="utf-8")
        found, whole = (made.parse(text) for made in (parser(), plain))
        assert found == whole, path
        for one, other in zip(found.iter_subtrees(), whole.iter_subtrees(), strict=True):
            spans = [(t.meta.start_pos, t.meta.end_pos) for t in (one, other) if not t.meta.empty]
            assert len(set(spans)) <= 1, path


def test_the_shipped_tables_read_as_the_grammar_does() -> None:
    fresh = build(grammar_text())
    for text in TEXTS:
        assert parser().parse(text) == fresh.parse(text)


def test_the_grammar_has_no_conflict() -> None:
    build(grammar_text(), strict=True)
