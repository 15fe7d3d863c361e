"""`kvdsl compare`: deployments of one or several files side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, exit_of
from kvdsl.cli.files import deliver, shown_file, spare, spec_paths
from kvdsl.cli.options import Output, color_option, file_names, output_option, outputs_or
from kvdsl.cli.plan import say_errors
from kvdsl.cli.progress import shown
from kvdsl.render import machine
from kvdsl.render.characters import wrapped
from kvdsl.render.machine_plan import comparison_form
from kvdsl.render.plan_tables import comparison_table
from kvdsl.render.tables import as_markdown, as_text

if TYPE_CHECKING:
    from kvdsl.comparison import Candidate
    from kvdsl.plan import Comparison, Plan

FORMS = ("text", "markdown", "json")


@click.command("compare")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=file_names)
@click.option("--only", "names", metavar="NAME", multiple=True,
              help="Only deployments of this name. Repeatable.")  # fmt: skip
@output_option(FORMS, "text without it.")
@color_option
@click.pass_obj
def command(
    console: Console, files: tuple[str, ...], names: tuple[str, ...], outputs: tuple[Output, ...]
) -> int:
    """Put deployments side by side.

    Every deployment of the files is a column, the best of each row is marked, and equal ones are
    equal.
    """
    from kvdsl.comparison import compare
    from kvdsl.diagnostics import Report
    from kvdsl.project.catalog import Catalog
    from kvdsl.project.loader import load
    from kvdsl.sketches import sketched, sketched_report

    asked = outputs_or(outputs, "text")
    catalog = Catalog()
    plans: list[tuple[str, Plan]] = []
    report = Report()
    paths = spec_paths(files)
    spare(paths, (output.path for output in asked))
    for path in shown(console, ((p, p) for p in paths)):
        project = load(path, catalog)
        report += sketched_report(project)
        plans += [(path, p) for p in sketched(project).plans if not names or p.name in names]
    say_errors(console, report)
    if len(plans) < 2:
        if report.failed:
            return exit_of(report)
        raise CommandError(
            f"there {'is one deployment' if plans else 'is no deployment'} in "
            f"{', '.join(map(shown_file, paths[:3]))}; a comparison wants two"
        )
    made = compare([_candidate(plan, _title(path, plan, plans)) for path, plan in plans])
    assert made is not None
    for output in asked:
        deliver(console, [output], {output.form: _text(made, output.form, console.columns)})
    return exit_of(report)


def _title(path: str, plan: Plan, every: list[tuple[str, Plan]]) -> str:
    """The deployment's name, with its file's where two have one name."""
    alone = sum(other.name == plan.name for _, other in every) == 1
    stem = path.rsplit("/", 1)[-1].removesuffix(".kvspec")
    return plan.name if alone else f"{stem}: {plan.name}"


def _candidate(plan: Plan, title: str) -> Candidate:
    from kvdsl.comparison import Candidate

    found = tuple(dict.fromkeys(f.code for f in plan.findings if f.waived is None))
    fits = bool(plan.values) and plan.values["memory.kv"].value > 0
    return Candidate(title, plan.layout, dict(plan.values), found, fits, main=False,
                     times=plan.times)  # fmt: skip


def _text(made: Comparison, form: str, columns: int) -> str:
    table = comparison_table(made)
    if form == "json":
        return machine.text({"format": machine.FORMAT, "comparison": comparison_form(made)})
    if form == "markdown":
        return as_markdown(table) + (f"\n{made.flips}\n" if made.flips else "")
    lines = [*as_text(table, columns), "  * best of its row"]
    lines += wrapped(made.flips, columns, "  ", "  ") if made.flips else []
    return "\n".join(lines) + "\n"
