"""`kvdsl collective`: how long one collective takes on some hardware."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, Exit, exit_of, unreadable
from kvdsl.cli.options import color_option, file_names
from kvdsl.cli.plan import errors_of, say_errors
from kvdsl.diagnostics import Report
from kvdsl.render import machine
from kvdsl.render.characters import safe
from kvdsl.render.derivation import derivation_text
from kvdsl.render.diagnostics import tally
from kvdsl.render.tables import Table, as_text
from kvdsl.spec.library import COLLECTIVES
from kvdsl.units import BYTE_RATE, BYTES, TIME, Quantity, shown, unit

if TYPE_CHECKING:
    from kvdsl.planning.quotes import Question, Quote, Quoter

_SIZE = re.compile(r"(?P<number>\d[\d_]*(?:\.\d+)?)\s*(?P<unit>[A-Za-z]*)")


_COUNTED = re.compile(r"\s*\d+\s*[x*]")

EXPERTS = ("dispatch", "combine")
"""What NCCL's tests do not measure, so no bus bandwidth is told."""


@click.command("collective")
@click.argument("kind", metavar="KIND", type=click.Choice(COLLECTIVES))
@click.option("--on", "hardware", required=True, metavar="HARDWARE", help="As nodes.hgx_h100.")
@click.option("--ranks", type=click.IntRange(2), required=True, help="Devices in the group.")
@click.option("--bytes", "sizes", multiple=True, metavar="SIZE", help="32768, or 1MiB; repeatable.")
@click.option("--nodes", type=click.IntRange(1), help="Spread evenly over so many nodes.")
@click.option("--library", "libraries", multiple=True, metavar="NAME", help="In the order asked.")
@click.option("--tokens", type=click.IntRange(1), help="Of a rank, for dispatch and combine.")
@click.option("--hidden", type=click.IntRange(1), help="Values of a token.")
@click.option("--experts", "copies", type=click.IntRange(1), default=1, help="A token visits.")
@click.option("--backend", metavar="WORD", help="As an engine's all_to_all.")
@click.option("--in", "file", shell_complete=file_names, help="A spec whose names may be used.")
@click.option("--explain", is_flag=True, help="Show how the time comes about.")
@click.option("--output", type=click.Choice(("text", "json")), default="text")
@color_option
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one a flag
    console: Console,
    kind: str,
    hardware: str,
    ranks: int,
    sizes: tuple[str, ...],
    nodes: int | None,
    libraries: tuple[str, ...],
    tokens: int | None,
    hidden: int | None,
    copies: int,
    backend: str | None,
    file: str | None,
    explain: bool,
    output: str,
) -> int:
    """Tell how long a collective takes, with its band.

    KIND is all_reduce, all_gather, reduce_scatter, all_to_all, send, dispatch or combine.

    Bytes are counted as NCCL's tests count them. Without --library it is the one that the device's
    maker gives.

    \b
    kvdsl collective all_reduce --on nodes.hgx_h100 --ranks 8 --bytes 32768
    kvdsl collective dispatch --on nodes.hgx_h100 --ranks 8 --tokens 128 \\
      --hidden 7168 --experts 8 --library deepep
    """
    from kvdsl.planning.quotes import Question

    if not sizes and (tokens is None or hidden is None):
        raise click.UsageError("give --bytes, or --tokens and --hidden")
    if sizes and tokens is not None:
        raise click.UsageError("give --bytes or --tokens, not both")
    shared = Question(kind, ranks, None, nodes or 0, tokens, hidden or 0, copies, 0, backend)
    source, report = _source(file)
    if any(map(unreadable, report.diagnostics)):
        say_errors(console, report)
        return exit_of(report)
    # A name of the catalog needs its kind before it, unless the file may have it.
    names = [name if "." in name or file else f"libraries.{name}" for name in libraries]
    found = _quotes(source, hardware, shared, [_bytes(size) for size in sizes], names)
    if errors := tally(errors_of(report)):
        console.say(f"note: {errors} of the spec; see `kvdsl check`")
    if output == "json":
        console.write(machine.text(_data(kind, hardware, found)))
    elif explain:
        for each in found:
            console.write(
                derivation_text(each.term.label, each.term, console.columns, console.data_paint)
            )
    else:
        console.write(_text(kind, hardware, found, console.columns))
    return Exit.FINE


def _source(file: str | None) -> tuple[Quoter, Report]:
    """Whose names may be used, and what is wrong with it."""
    from kvdsl.pipeline import quoter, quoter_of

    return (quoter(), Report()) if file is None else quoter_of(file)


def _quotes(
    source: Quoter,
    hardware: str,
    shared: Question,
    sizes: Sequence[int],
    names: Sequence[str],
) -> list[Quote]:
    from dataclasses import replace

    from kvdsl.planning.quotes import Refused

    if _COUNTED.match(hardware):
        raise CommandError(
            f"`{safe(hardware)}` is so many of a machine: declare a cluster of them in a spec, and "
            "name it with --in SPEC"
        )
    asked = [replace(shared, size=size) for size in sizes] or [shared]
    try:
        return [source.quote(hardware, each, names) for each in asked]
    except Refused as why:
        raise CommandError(safe(str(why))) from None


def _text(kind: str, hardware: str, found: Sequence[Quote], columns: int) -> str:
    first = found[0]
    rows = []
    for each in found:
        times = [Quantity(float(value), TIME) for value in (each.time, each.low, each.high)]
        rows.append(
            (
                shown(Quantity(each.size, BYTES)),
                *(shown(time) for time in times),
                *(() if kind in EXPERTS else (_rate(kind, each),)),
                each.algorithms[0].replace("_", " "),
                f"{each.basis} ({each.lent})" if each.lent else each.basis,
            )
        )
    rate = () if kind in EXPERTS else ("bus bandwidth",)
    head = ("bytes", "time", "from", "to", *rate, "algorithm", "constants")
    title = f"{kind.replace('_', '-')} of {first.ranks} ranks on {safe(hardware)}, {first.library}"
    table = Table("collective", title, head, tuple(rows), ("",) * len(head))
    return "\n".join([title, *as_text(table, columns)]) + "\n"


def _rate(kind: str, each: Quote) -> str:
    """Bus bandwidth as NCCL's tests print it."""
    factor = {"all_reduce": 2 * (each.ranks - 1), "send": each.ranks}.get(kind, each.ranks - 1)
    return shown(Quantity(each.size / float(each.time) * factor / each.ranks, BYTE_RATE))


def _data(kind: str, hardware: str, found: Sequence[Quote]) -> machine.Json:
    return {
        "format": machine.FORMAT,
        "collective": kind,
        "on": hardware,
        "ranks": found[0].ranks,
        "times": [
            {
                "bytes": machine.quantity(Quantity(each.size, BYTES)),
                "time": machine.quantity(Quantity(float(each.time), TIME)),
                "low": machine.quantity(Quantity(float(each.low), TIME)),
                "high": machine.quantity(Quantity(float(each.high), TIME)),
                "library": each.library,
                "algorithm": each.algorithms[0],
                "constants": each.basis,
                **({"borrowed_row": each.lent} if each.lent else {}),
            }
            for each in found
        ],
    }


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    known = unit(match["unit"] or "B") if match else None
    if match is None or known is None or known[0] != BYTES:
        raise click.BadParameter(
            f"`{safe(text)}` is no size, as in 32768 or 1MiB", param_hint="--bytes"
        )
    value = Quantity.of(Fraction(match["number"].replace("_", "")), match["unit"] or "B").value
    if value != int(value) or value <= 0:
        raise click.BadParameter("a size is a whole number of bytes", param_hint="--bytes")
    return int(value)
