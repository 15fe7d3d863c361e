"""A difference as the comment of a pull request: Markdown that GitHub and GitLab draw.

Comes in: a difference. Goes out: one text of at most `MOST` bytes with a stable marker, by which a
bot finds its own comment. Where it is too long, sections give way in this order, and each says what
it left out: findings that are still there, findings that are gone, all values of a deployment, the
tree of the spec, figures of the catalog, findings that are new or waived and policies that still
fail, values that fail the change, the table,
requirements, files that cannot be planned. Not its job:
escaping (markup), or measuring (fitting).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvdsl.difference import (
    WATCHED,
    DeploymentChange,
    Difference,
    FindingChange,
    Flip,
    ValueChange,
)
from kvdsl.render.changes import (
    TROUBLED,
    causes,
    counted,
    delta,
    figure_text,
    finding_text,
    flip_text,
    headline,
    leading,
    reason,
    short_delta,
    sides,
    summary,
    telling,
    tree_lines,
)
from kvdsl.render.fitting import Section, fitted, size
from kvdsl.render.markup import cell, code, fenced, plain_line, prose

MARKER = "<!-- kvdsl-diff -->"
"""The first line of every comment."""

MOST = 65_536
"""GitHub's limit of a comment is 65,536 characters; counted in bytes, it holds in every script."""

OPEN = 3
"""So many deployments show all their values unfolded; with more, each is folded."""

_STATES = {
    "added": "new",
    "removed": "removed",
    "renamed": "renamed",
    "unreadable": "unreadable",
    "mended": "no figures before",
    "changed": "",
}


def comment(difference: Difference, most: int = MOST, *, unchanged: str = "") -> str:
    """The comment; empty where nothing changed, unless `unchanged` is to be said then."""
    if difference.empty:
        return f"{MARKER}\n{prose(unchanged)}\n" if unchanged else ""
    said = [] if headline(difference).text == summary(difference) else ["", _summary(difference)]
    head = "\n".join([MARKER, f"### {_headline(difference)}", *said, ""])
    foot = f"\n<sub>From {code(difference.before)} to {code(difference.after)}.</sub>\n"
    sections = (
        _troubles(difference),
        _flips(difference),
        _table(difference),
        _worsened(difference),
        _findings(difference, ("new",), "New findings", 5, folded=False),
        _findings(difference, ("still",), "Policies that still fail", 5, folded=False),
        _findings(difference, ("waived",), "Findings that are waived now", 5, folded=False),
        _figures(difference),
        _tree(difference),
        _values(difference),
        _findings(difference, ("gone",), "Findings that are gone", 9, folded=True),
        _findings(difference, (), "Findings that are still there", 10, folded=True),
    )
    return f"{head}\n{fitted(sections, most - size(head) - size(foot) - 1)}{foot}"


def _headline(difference: Difference) -> str:
    made = headline(difference)
    text = prose(made.text)
    return f"{code(made.deployment)}: {text}" if made.deployment else text


def _summary(difference: Difference) -> str:
    return prose(summary(difference)[:1].upper() + summary(difference)[1:] + ".")


# --- sections ----------------------------------------------------------------------------------


def _worsened(difference: Difference) -> Section:
    """Values that fail the change; requirements, findings and files have sections of their own."""
    items = tuple(
        f"- {code(each.subject)}: {prose(each.text)}"
        for each in difference.regressions
        if each.sort == "value"
    )
    return Section(4, "**Worse than may be**\n", items, "", _more("value"))


def _troubles(difference: Difference) -> Section:
    items = tuple(
        f"- {code(t.place or t.file)} {prose(t.fault)}"
        + (f", and {t.count - 1:,} more" if t.count > 1 else "")
        + TROUBLED[t.side]
        for t in sorted(difference.troubles, key=lambda t: not t.stands)
    )
    head = "Files that cannot be planned" if any(t.stands for t in difference.troubles) else (
        "Files that could not be planned before"
    )  # fmt: skip
    return Section(1, f"**{head}**\n", items, "", _more("file"))


def _flips(difference: Difference) -> Section:
    items = []
    for change in difference.deployments:
        for flip in change.flips:
            mark = _mark(flip)
            because = f", because {code(flip.because)}" if flip.because else ""
            asked = code(f"{flip.keyword} {flip.text}")
            items.append(
                f"- {mark}: {code(change.name)} {asked}: {prose(flip_text(flip))}{because}"
            )
    return Section(2, "**Requirements**\n", tuple(items), "", _more("requirement"))


def _mark(flip: Flip) -> str:
    if flip.broken:
        return "**broken**"
    if flip.stands:
        return "**still broken**"
    if flip.after == "waived":
        return "waived"
    return "ok" if flip.after == "holds" else "changed"


def _table(difference: Difference) -> Section:
    head = "| deployment | before | after | change |\n| --- | --: | --: | --: |"
    items = tuple(_row(change) for change in difference.deployments)
    return Section(3, head, items, "", _more("deployment", blank=True))


def _row(change: DeploymentChange) -> str:
    value = leading(change)
    name = cell(change.name)
    state = _STATES[change.state]
    if state:
        name += f" *{state}*"
    if change.was:
        name += f"<br>was {cell(change.was)}"
    elif change.was_file:
        name += f"<br>from {cell(change.was_file)}"
    if value is None:
        return f"| {name} | | | {_no_value(change)} |"
    before, after = sides(value)
    return (
        f"| {name}<br>{prose(value.label)} | {prose(before)} | {prose(after)} |"
        f" {prose(short_delta(value))}{_worth(value)} |"
    )


def _no_value(change: DeploymentChange) -> str:
    """What changed where no value did."""
    if change.state == "unreadable":
        return "cannot be planned"
    return "values as before"


def _worth(value: ValueChange) -> str:
    worse = "**worse**" if value.name in WATCHED else "worse"
    return {"better": "<br>better", "worse": f"<br>{worse}", "neutral": ""}[value.worth]


def _findings(
    difference: Difference, states: Sequence[str], title: str, rank: int, *, folded: bool
) -> Section:
    """Findings of these states that moved; without any, those that did not."""
    found = [
        (change, each)
        for change in difference.deployments
        for each in change.findings
        if (each.state in states if each.moved else not states)
    ]
    found.sort(key=lambda pair: pair[1].finding.severity.rank)
    items = tuple(_finding(change, each) for change, each in found)
    more = _more("finding")
    if folded:
        head = f"<details><summary>{title} ({len(items):,})</summary>\n"
        return Section(rank, head, items, "\n</details>", more)
    return Section(rank, f"**{title}**\n", items, "", more)


def _finding(change: DeploymentChange, each: FindingChange) -> str:
    finding = each.finding
    severity = finding.severity.value
    strong = f"**{severity}**" if severity == "error" else severity
    place = code(str(finding.diagnostic.span))
    told = prose(finding_text(each))
    return f"- {strong} {finding.code} {code(change.name)}: {told} ({place})"


def _figures(difference: Difference) -> Section:
    items = []
    for figure in difference.figures:
        used = ", ".join(code(name, 40) for name in figure.deployments[:5])
        more = len(figure.deployments) - 5
        used += f" and {more:,} more" if more > 0 else ""
        note = "" if figure.replayed else " (not computed back)"
        source = f" from {code(figure.source)}" if figure.source else ""
        items.append(f"- {code(figure.entry)} {prose(figure_text(figure))}{source}"
                     + (f": {used}" if used else "") + note)  # fmt: skip
    return Section(6, "**The catalog changed**\n", tuple(items), "", _more("figure"))


def _tree(difference: Difference) -> Section:
    lines: list[str] = []
    for change in difference.deployments:
        if change.spec:
            lines.append(f"~ {change.name}{_in_file(change)}")
            lines += tree_lines(change.spec)
        elif change.state in ("added", "removed"):
            sign = "+" if change.state == "added" else "-"
            lines.append(f"{sign} {change.name}{_in_file(change)}")
    items = tuple(_kept(line) for line in lines)
    opening, closing = fenced(list(items), "diff")
    count = sum(len(c.spec) for c in difference.deployments)
    told = counted(count, "line", "lines") if count else "whole deployments"
    head = f"<details><summary>What changed in the spec ({told})</summary>\n\n{opening}"
    return Section(7, head, items, f"{closing}\n</details>", _more("line", blank=True))


def _in_file(change: DeploymentChange) -> str:
    """Two files that are compared by hand have no name."""
    return f"  ({change.file})" if change.file else ""


def _kept(line: str) -> str:
    """A line of the tree with its indent."""
    body = line.lstrip(" ") if line[:1] == " " else line
    if line[:1] == " ":
        return " " * (len(line) - len(body)) + plain_line(body)
    rest = line[1:]
    inner = rest.lstrip(" ")
    return line[0] + " " * (len(rest) - len(inner)) + plain_line(inner)


def _values(difference: Difference) -> Section:
    changed = [c for c in difference.deployments if c.values and c.state in ("changed", "renamed")]
    fold = len(changed) > OPEN
    items = tuple("\n".join(_details(change, folded=fold)) for change in changed)
    if fold:
        return Section(8, "**All values, and why**\n", items, "", _more("deployment"))
    return Section(8, "", items, "", _more("deployment"))


def _details(change: DeploymentChange, *, folded: bool) -> Iterator[str]:
    opened = "" if folded else " open"
    values = telling(change)
    yield f"<details{opened}><summary>{_name(change)}: all values, and why</summary>\n"
    yield "| value | before | after | change |"
    yield "| --- | --: | --: | --: |"
    for value in values:
        before, after = sides(value)
        yield (
            f"| {prose(value.label)} | {prose(before)} | {prose(after)} |"
            f" {prose(delta(value))}{_worth(value).replace('<br>', ' ')} |"
        )
    why = list(_why(values))
    if why:
        yield ""
        yield from why
    left = len(change.values) - len(values)
    if left:
        yield f"\n{counted(left, 'more value', 'more values')} changed, parts of these."
    if change.small:
        yield f"\n{counted(change.small, 'value', 'values')} changed by less than the threshold."
    if change.compiler:
        yield "\nNeither the spec nor the catalog changed: kvdsl computes it otherwise."
    yield "\n</details>\n"


def _name(change: DeploymentChange) -> str:
    """A name in a summary, where GitHub reads HTML."""
    table = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
    return f"<code>{plain_line(change.name).translate(table)}</code>"


MOST_REASONS = 6


def _why(values: Sequence[ValueChange]) -> Iterator[str]:
    """Reasons of the largest changes; a value that moved like another has the same one."""
    said: set[str] = set()  # of the last terms: what ends in the same has one reason
    for value in sorted(values, key=lambda v: -abs(v.ratio or 0)):
        text = "; ".join(part for part in (causes(value), reason(value.movers)) if part)
        last = reason(value.movers[-1:]) or text
        if text and last not in said and len(said) < MOST_REASONS:
            said.add(last)
            yield f"- {prose(value.label)}: {prose(text)}"


def _more(noun: str, *, blank: bool = False) -> Callable[[int], str]:
    def told(count: int) -> str:
        start = "\n" if blank else ""
        return (
            f"{start}*… and {counted(count, f'more {noun}', f'more {noun}s')} left out for length.*"
        )

    return told
