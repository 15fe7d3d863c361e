"""`kvdsl levers`: what may be done about a cache that is too small or too dear, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, exit_of
from kvdsl.cli.files import shown_file
from kvdsl.cli.options import Overrides, color_option, file_names, override_options
from kvdsl.cli.plan import no_deployment, say_errors
from kvdsl.render import machine
from kvdsl.render.characters import safe, wrapped
from kvdsl.render.tables import NOTHING, Cell, Table, as_markdown, as_text

if TYPE_CHECKING:
    from kvdsl.planning.lever_studies import Levers, LeversOf
    from kvdsl.planning.levers import Row

VALUES = ("gpus", "kv.sequences", "kv.tokens", "memory.weights", "decode.tpot", "decode.throughput")
"""What is shown of each lever, beside its relief and its cost."""


@click.command("levers")
@click.argument("file", shell_complete=file_names)
@click.argument("names", nargs=-1, metavar="[DEPLOYMENT]...")
@override_options
@click.option("--relief", type=click.IntRange(2, 64), help="Times less cache a GPU, as a target.")
@click.option(
    "--format", "formats", multiple=True, metavar="NAME", help="Of the cache; repeatable."
)
@click.option("--keep", "keeps", multiple=True, metavar="PERCENT", help="Of tokens; repeatable.")
@click.option("--output", type=click.Choice(("text", "json", "markdown")), default="text")
@color_option
@click.pass_obj
def command(
    console: Console,
    file: str,
    names: tuple[str, ...],
    overrides: Overrides,
    relief: int | None,
    formats: tuple[str, ...],
    keeps: tuple[str, ...],
    output: str,
) -> int:
    """Put levers side by side: more GPUs, or a smaller cache.

    More TP, PP, DP attention, context parallelism, replicas, larger devices; smaller formats of
    the cache, and shares of its tokens. Each is planned like the deployment itself, with the
    requirements that it leaves open and what it cannot mend. Costs of runs that a deployment of
    the file has `measured` stand instead of reckoned ones.

    \b
    kvdsl levers specs/examples/llama_2_levers.kvspec llama_7b
    kvdsl levers prod.kvspec chat --relief 4 --format fp8 --keep 50
    """
    from kvdsl.pipeline import levers
    from kvdsl.planning.lever_studies import Asked, NoFormat

    asked = Asked(names, formats, tuple(_share(text) for text in keeps), relief or 0)
    try:
        found = levers(file, asked, overrides.changes())
    except NoFormat as why:
        raise CommandError(safe(str(why))) from None
    say_errors(console, found.report)
    known = {each.name for each in found.found}
    missing = [name for name in names if name not in known]
    if missing and not found.report.failed:
        raise no_deployment(file, missing[0], found.known)
    if not found.found and not names and not found.report.failed:
        console.say(f"no deployment in {shown_file(file)}")
    if output == "json":
        console.write(machine.text({"format": machine.FORMAT, "levers": list(_forms(found))}))
        return exit_of(found.report)
    for each in found.found:
        tables = [_table(each.name, each.rows, relief), *_matched(each)]
        if output == "markdown":
            console.write("\n".join([f"## {each.name}\n", *(as_markdown(t) for t in tables)]))
        else:
            for table in tables:
                console.write("\n".join([table.title, *as_text(table, console.columns)]) + "\n\n")
            for line in _remarks(each.rows):
                console.write("\n".join(wrapped(line, console.columns, "", "    ")) + "\n")
    return exit_of(found.report)


def _share(text: str) -> Fraction:
    try:
        share = Fraction(text.strip().rstrip("%").strip()) / 100
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise click.BadParameter("a share is a per cent, as in 25", param_hint="--keep")
    return share


def _table(name: str, rows: Sequence[Row], relief: int | None) -> Table:
    heads = ["lever", "GPUs", "relief", "requests", "tokens", "weights", "TPOT", "output", "cost"]
    measured = any(row.measured is not None for row in rows)
    judged = any(row.failed for row in rows)
    heads += ["measured output", "measured cost"] if measured else []
    heads += [f"relief {relief}"] if relief else []
    heads += ["requirements"] if judged else []
    body = []
    for row in rows:
        cells: list[Cell] = [row.lever.name]
        shown_values = {n: row.values[n].quantity if n in row.values else None for n in VALUES}
        if not row.fits:
            shown_values = dict.fromkeys(VALUES) | {"gpus": shown_values["gpus"]}
        cells += [shown_values["gpus"], _times(row)]
        cells += [shown_values[n] for n in VALUES[1:]]
        cost = row.values.get("cost.per_mtok") if row.fits else None
        cells.append(cost.quantity if cost is not None else None)
        cells += _of_run(row) if measured else []
        cells += [_reaches(row, relief)] if relief else []
        cells += ["fail" if row.failed else "hold" if row.fits else NOTHING] if judged else []
        body.append(tuple(cells))
    return Table("levers", f"Levers of {name}", tuple(heads), tuple(body), ("",) * len(heads))


def _of_run(row: Row) -> list[Cell]:
    """What a run gave, where a deployment of the file has measured it."""
    if row.measured is None:
        return [None, None]
    return [row.measured.quantity, row.cost.quantity if row.cost is not None else None]


def _times(row: Row) -> str:
    return f"{float(row.relief):.3g}x" if row.relief is not None else NOTHING


def _reaches(row: Row, relief: int) -> str:
    return "yes" if row.fits and row.relief is not None and row.relief >= relief else "no"


def _matched(each: LeversOf) -> Iterator[Table]:
    if not each.matches:
        return
    rows = tuple(
        (
            f"{float(m.relief):.3g}x",
            m.devices.lever.name,
            m.devices.cost.quantity if m.devices.cost is not None else None,
            m.cache.lever.name,
            m.cache.cost.quantity if m.cache.cost is not None else None,
            f"{m.ratio:.2f}x",
        )
        for m in each.matches
    )
    heads = ("relief", "more GPUs", "cost", "smaller cache", "its cost", "dearer")
    yield Table("matched", "At the same relief", heads, rows, ("",) * len(heads))


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    """What each lever is written as, cannot be, or cannot mend."""
    yield "What they cannot mend"
    for row in rows:
        if row.lever.sort == "base" and not row.refused:
            continue
        said = [row.lever.missing] if row.lever.missing else list(row.cannot)
        said = [f"a check refuses it, {row.refused}"] if row.refused else said
        said += [f"leaves open: {text}" for text in row.failed]
        if said:
            yield f"  {row.lever.name} (`{row.lever.change}`): {'; '.join(said)}"


def _forms(found: Levers) -> Iterator[machine.Json]:
    for each in found.found:
        yield {
            "deployment": each.name,
            "levers": [_form(row) for row in each.rows],
            "matched": [
                {
                    "relief": float(m.relief),
                    "devices": m.devices.lever.name,
                    "cache": m.cache.lever.name,
                    "ratio": m.ratio,
                }
                for m in each.matches
            ],
        }


def _form(row: Row) -> machine.Json:
    values = {n: machine.quantity(row.values[n].quantity) for n in VALUES if n in row.values}
    return {
        "lever": row.lever.name,
        "sort": row.lever.sort,
        "write": row.lever.change,
        "fits": row.fits,
        "relief": float(row.relief) if row.relief is not None else None,
        "values": values if row.fits else {},
        "cost": machine.quantity(row.cost.quantity) if row.fits and row.cost is not None else None,
        "measured": machine.quantity(row.measured.quantity) if row.measured is not None else None,
        "missing": row.lever.missing,
        "refused": row.refused,
        "cannot": list(row.cannot),
        "failed": list(row.failed),
    }
