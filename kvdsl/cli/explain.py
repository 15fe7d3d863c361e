"""`kvdsl explain`: one number's chain, down to spec lines and sources."""

from __future__ import annotations

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import exit_of
from kvdsl.cli.get import answered
from kvdsl.cli.options import Overrides, color_option, override_options
from kvdsl.cli.plan import say_errors
from kvdsl.render import machine
from kvdsl.render.derivation import derivation_text


@click.command("explain")
@click.argument("file")
@click.argument("dotted", metavar="DEPLOYMENT.VALUE")
@override_options
@click.option("--length", metavar="LENGTH", help='Of a request, as in "8192 tok".')
@click.option("--output", type=click.Choice(("text", "json")), default="text")
@color_option
@click.pass_obj
def command(
    console: Console,
    file: str,
    dotted: str,
    overrides: Overrides,
    length: str | None,
    output: str,
) -> int:
    """Show how a value comes about.

    Formulas, numbers put in, and where each figure is from:

    kvdsl explain prod.kvspec llama_405b.kv.tokens
    """
    answer = answered(file, dotted, overrides.changes(), length)
    say_errors(console, answer.report)
    terms = {dotted: answer.value} if answer.value is not None else {}
    if not terms and answer.values:
        names = ", ".join(sorted(answer.values))
        raise click.UsageError(f"name one of its values: {names}")
    for name, term in terms.items():
        if output == "json":
            console.write(machine.text(machine.derivation(name, term)))
        else:
            console.write(derivation_text(name, term, console.columns, console.data_paint))
    return exit_of(answer.report)
