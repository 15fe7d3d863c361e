"""`kvdsl get`: one exact number for a script, or all that a deployment answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, exit_of
from kvdsl.cli.options import Overrides, color_option, override_options
from kvdsl.cli.plan import say_errors
from kvdsl.formulas import Term
from kvdsl.render import machine
from kvdsl.render.characters import safe
from kvdsl.units import EXAMPLES, MISTAKEN, Quantity, unit

if TYPE_CHECKING:
    from kvdsl.pipeline import Answer
    from kvdsl.resolve.changes import Change


@click.command("get")
@click.argument("file")
@click.argument("dotted", metavar="DEPLOYMENT[.VALUE]")
@override_options
@click.option("--length", metavar="LENGTH", help='Of a request, as in "8192 tok".')
@click.option("--unit", "unit_name", metavar="UNIT", help="Write it in this unit, as in GB.")
@click.option("--output", type=click.Choice(("text", "json")), default="text")
@color_option
@click.pass_obj
def command(
    console: Console,
    file: str,
    dotted: str,
    overrides: Overrides,
    length: str | None,
    unit_name: str | None,
    output: str,
) -> int:
    """Print one value, exact.

    In base units: bytes, seconds, tokens. Of a deployment alone, everything that it answers.

    \b
    kvdsl get prod.kvspec llama_405b.kv.tokens --layout tp16
    kvdsl get prod.kvspec models.deepseek_v3.parameters
    kvdsl get prod.kvspec llama_405b --output json
    """
    answer = answered(file, dotted, overrides.changes(), length)
    say_errors(console, answer.report)
    if answer.value is not None:
        console.write(_one(dotted, answer.value.quantity, unit_name, output))
    elif unit_name is not None:
        raise click.UsageError("--unit needs one value: DEPLOYMENT.VALUE")
    elif output == "json":
        console.write(machine.text(machine.values(dotted, answer.values)))
    else:
        console.write(_list(answer.values.items()))
    return exit_of(answer.report)


def answered(file: str, dotted: str, made: Sequence[Change], length: str | None) -> Answer:
    """The answer. Raises CommandError where there is none and no diagnostic says why."""
    from kvdsl.pipeline import ask

    answer = ask(file, dotted, made, length=length)
    if answer.value is None and not answer.values and not answer.report.failed:
        raise CommandError(f"`{safe(dotted)}` has no value in {safe(file)}")
    return answer


def _one(dotted: str, value: Quantity, unit_name: str | None, output: str) -> str:
    try:
        form = machine.in_unit(value, unit_name) if unit_name else machine.quantity(value)
        number = value.in_unit(unit_name) if unit_name else value.value
    except ValueError:
        raise CommandError(_no_unit(str(unit_name), value)) from None
    if output == "json":
        return machine.text({"format": machine.FORMAT, "name": dotted, **form})
    return machine.number_text(number) + "\n"


def _no_unit(name: str, value: Quantity) -> str:
    if unit(name) is None:
        meant = MISTAKEN.get(name)
        return f"`{safe(name)}` is not a unit" + (f"; write {meant}" if meant else "")
    example = EXAMPLES.get(value.dimension)
    hint = f"; as in `{example}`" if example else ""
    return f"{name} does not measure {value.dimension.noun} (in {value.unit}){hint}"


def _list(items: object) -> str:
    assert hasattr(items, "__iter__")
    pairs: list[tuple[str, Term]] = sorted(items)
    longest = max((len(name) for name, _ in pairs), default=0)
    return "".join(
        f"{name:<{longest}}  {machine.number_text(term.value)} {term.quantity.unit}\n"
        for name, term in pairs
    )
