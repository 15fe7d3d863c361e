"""`kvdsl sweep`: the tables of a deployment's sweeps, for people and for spreadsheets."""

from __future__ import annotations

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, exit_of
from kvdsl.cli.files import deliver, shown_file, spare
from kvdsl.cli.options import (
    Output,
    Overrides,
    color_option,
    file_names,
    output_option,
    outputs_or,
    override_options,
)
from kvdsl.cli.plan import say_errors
from kvdsl.render.plan_tables import sweep_table
from kvdsl.render.spreadsheet import sweep_csv
from kvdsl.render.tables import as_markdown, as_text

FORMS = ("text", "csv", "markdown")


@click.command("sweep")
@click.argument("file", shell_complete=file_names)
@click.argument("name", required=False, metavar="[NAME]")
@override_options
@output_option(FORMS, "text without it.")
@color_option
@click.pass_obj
def command(
    console: Console, file: str, name: str | None, overrides: Overrides, outputs: tuple[Output, ...]
) -> int:
    """Run the sweeps of a spec.

    NAME is a deployment. In CSV a row is a point; values are exact, in the unit that the head of
    their column says.
    """
    from kvdsl.pipeline import swept

    asked = outputs_or(outputs, "text")
    spare([file], (output.path for output in asked))
    report, tables = swept(file, name, overrides.changes())
    say_errors(console, report)
    if not tables and not report.failed:
        whose = f" of `{name}`" if name else ""
        raise CommandError(f"no sweep{whose} in {shown_file(file)}")
    for output in asked:
        parts = []
        for title, table in tables:
            if output.form == "csv":
                parts.append(sweep_csv(title, table))
            elif output.form == "markdown":
                parts.append(f"## {title}\n\n" + as_markdown(sweep_table(table)))
            else:
                lines = as_text(sweep_table(table), console.columns)
                parts.append("\n".join([title, *lines]) + "\n")
        deliver(console, [output], {output.form: "\n".join(parts)})
    return exit_of(report)
