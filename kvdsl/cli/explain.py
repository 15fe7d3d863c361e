"""`kvdsl explain`: one number's chain, down to spec lines and sources."""

from __future__ import annotations

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError
from kvdsl.cli.get import answer_exit, answered, tokens
from kvdsl.cli.options import Overrides, color_option, file_names, override_options
from kvdsl.render import machine
from kvdsl.render.characters import safe
from kvdsl.render.derivation import derivation_text


@click.command("explain")
@click.argument("file", shell_complete=file_names)
@click.argument("dotted", metavar="DEPLOYMENT.VALUE")
@override_options
@click.option("--length", metavar="LENGTH", help='Of a request, for a model: "8192 tok".')
@click.option(
    "--depth", type=click.IntRange(1), metavar="N", help="Levels below the value; all: 99."
)
@click.option("--output", type=click.Choice(("text", "json")), default="text")
@color_option
@click.pass_obj
def command(
    console: Console,
    file: str,
    dotted: str,
    overrides: Overrides,
    length: str | None,
    depth: int | None,
    output: str,
) -> int:
    """Show how a value comes about.

    Formulas, numbers put in, and where each figure is from:

    kvdsl explain prod.kvspec llama_405b.kv.tokens

    A long chain is shown as deep as it stays short; `--depth` says how deep.
    """
    answer = answered(console, file, dotted, overrides.changes(), tokens(length))
    if answer.value is not None:
        if output == "json":
            console.write(machine.text(machine.derivation(dotted, answer.value)))
        else:
            paint = console.data_paint
            console.write(derivation_text(dotted, answer.value, console.columns, paint, depth))
    elif answer.values:
        raise CommandError(f"name a value of `{safe(dotted)}`: `kvdsl get` lists them")
    return answer_exit(answer)
