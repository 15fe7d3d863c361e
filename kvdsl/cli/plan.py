"""`kvdsl plan`: memory, capacity, the step and the requirements of deployments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

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
from kvdsl.diagnostics import Report, Severity
from kvdsl.plan import Plan
from kvdsl.plan.fleets import FleetPlan
from kvdsl.render import machine
from kvdsl.render.characters import safe
from kvdsl.render.diagnostics import drawn_report
from kvdsl.render.fleets import fleet_tables, fleet_text
from kvdsl.render.machine_plan import plans_form
from kvdsl.render.paint import PLAIN, Paint
from kvdsl.render.plan_tables import tables
from kvdsl.render.spreadsheet import as_csv
from kvdsl.render.tables import as_markdown
from kvdsl.render.terminal import plan_text
from kvdsl.spelling import nearest

if TYPE_CHECKING:
    from kvdsl.pipeline import Compilation
    from kvdsl.resolve.changes import Change

FORMS = ("text", "json", "csv", "markdown")


@click.command("plan")
@click.argument("file", shell_complete=file_names)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@override_options
@output_option(FORMS, "text without it.")
@color_option
@click.pass_obj
def command(
    console: Console,
    file: str,
    names: tuple[str, ...],
    overrides: Overrides,
    outputs: tuple[Output, ...],
) -> int:
    """Plan the deployments and fleets of a spec.

    Memory, capacity, the step and the requirements, and the sums of fleets: of all or of those that
    are named.
    """
    asked = outputs_or(outputs, "text")
    spare([file], (output.path for output in asked))
    compilation = compiled(file, names, overrides.changes())
    plans = [plan for plan in compilation.plans if not names or plan.name in names]
    fleets = [fleet for fleet in compilation.fleets if not names or fleet.name in names]
    say_errors(console, compilation.report)
    for output in asked:
        paint = console.data_paint if output.path is None else PLAIN
        text = _text(plans, fleets, output.form, console.columns, paint)
        deliver(console, [output], {output.form: text})
    if not plans and not fleets and not compilation.report.failed:
        console.say(f"no deployment in {shown_file(file)}")
    return exit_of(compilation.report)


def compiled(file: str, names: Sequence[str], made: Sequence[Change]) -> Compilation:
    """The compilation; of a single name, of that alone. Raises CommandError on an unknown one."""
    from kvdsl.pipeline import compile_path

    # Standard input can be read once, and an unknown name needs the others for its message.
    only = names[0] if len(names) == 1 and file != "-" else None
    compilation = compile_path(file, made, only=only)
    known = _known(compilation)
    missing = [name for name in names if name not in known]
    if missing and not compilation.report.failed:
        if only is not None:
            known = _known(compile_path(file, made))
        raise no_deployment(file, missing[0], known)
    return compilation


def _known(compilation: Compilation) -> set[str]:
    plans, fleets = compilation.plans, compilation.fleets
    return {plan.name for plan in plans} | {fleet.name for fleet in fleets}


def no_deployment(file: str, name: str, known: Collection[str]) -> CommandError:
    """What to say of an unknown name: the nearest, or all there are."""
    near = nearest(name, known) or tuple(sorted(known))
    hint = f"; there is {', '.join(near)}" if near else ""
    return CommandError(f"no deployment `{safe(name)}` in {shown_file(file)}{hint}")


def say_errors(console: Console, report: Report) -> None:
    """Errors in full; the plan itself, or `check`, tells the rest."""
    errors = errors_of(report)
    if errors.diagnostics:
        console.say(drawn_report(errors, console.columns, console.talk_paint))


def errors_of(report: Report) -> Report:
    return Report(tuple(d for d in report.diagnostics if d.severity is Severity.ERROR))


def _text(
    plans: Sequence[Plan], fleets: Sequence[FleetPlan], form: str, columns: int, paint: Paint
) -> str:
    if form == "json":
        return machine.text(plans_form(plans, fleets))
    summed = [(fleet, fleet_tables(fleet)) for fleet in fleets]
    if form == "csv":
        return as_csv(plans, [(fleet.name, table) for fleet, made in summed for table in made])
    if form == "markdown":
        parts = []
        for plan in plans:
            parts += [f"## {plan.name}\n", f"{plan.verdict.sentence}\n"]
            parts += [as_markdown(table) for table in tables(plan) if table.rows]
        for fleet, made in summed:
            parts += [f"## {fleet.name}\n", f"{fleet.verdict.sentence}\n", *map(as_markdown, made)]
        return "\n".join(parts)
    texts = [plan_text(plan, columns, paint) for plan in plans]
    return "\n".join((*texts, *(fleet_text(fleet, columns, paint) for fleet in fleets)))
