"""`kvdsl compare`: deployments and fleets of one or several files side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import click

from kvdsl import units
from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, exit_of
from kvdsl.cli.files import deliver, shown_file, spare, spec_paths
from kvdsl.cli.options import Output, color_option, file_names, output_option, outputs_or
from kvdsl.cli.plan import say_errors
from kvdsl.cli.progress import shown
from kvdsl.diagnostics import Report
from kvdsl.render import machine
from kvdsl.render.characters import safe, wrapped
from kvdsl.render.machine_plan import comparison_form, fleets_form
from kvdsl.render.plan_tables import deployments_table, fleets_table
from kvdsl.render.tables import as_markdown, as_text
from kvdsl.spelling import in_a_row, nearest

if TYPE_CHECKING:
    from kvdsl.comparison import Candidate
    from kvdsl.plan import Comparison, Plan
    from kvdsl.plan.fleets import FleetPlan

FORMS = ("text", "markdown", "json")

MOST_NAMED = 5
"""Files and names that a message lists."""


@click.command("compare")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=file_names)
@click.option("--only", "names", metavar="NAME", multiple=True,
              help="Only deployments and fleets of this name. Repeatable.")  # fmt: skip
@output_option(FORMS, "text without it.")
@color_option
@click.pass_obj
def command(
    console: Console, files: tuple[str, ...], names: tuple[str, ...], outputs: tuple[Output, ...]
) -> int:
    """Put deployments and fleets side by side.

    Every deployment of the files is a column, the best of each row is marked, and equal ones are
    equal. The sums of their fleets stand in a table of their own.
    """
    from kvdsl.comparison import compare, compare_fleets

    asked = outputs_or(outputs, "text")
    paths = spec_paths(files)
    spare(paths, (output.path for output in asked))
    found = _planned(console, paths)
    say_errors(console, found.report)
    if not found.report.failed:
        _refuse_unknown(names, found.names, paths)
    plans, fleets = _of_names(found.plans, names), _of_names(found.fleets, names)
    if len(plans) < 2 and len(fleets) < 2:
        if found.report.failed:
            return exit_of(found.report)
        more = len(found.plans) > 1 if plans else len(found.fleets) > 1
        raise CommandError(_alone(plans, fleets, paths, others=bool(names) and more))
    if names and min(len(plans), len(fleets)) == 1:
        (_, left), noun = (plans[0], "deployment") if len(plans) == 1 else (fleets[0], "fleet")
        console.say(f"left out: `{safe(left.name)}` is the only {noun}")
    both = (
        compare([_candidate(plan, _title(path, plan, plans)) for path, plan in plans]),
        compare_fleets([_fleet(fleet, _title(path, fleet, fleets)) for path, fleet in fleets]),
    )
    for output in asked:
        deliver(console, [output], {output.form: _text(*both, output.form, console.columns)})
    return exit_of(found.report)


@dataclass(slots=True)
class _Found:
    """What stands in the files, each with its path; `broken` could not be resolved."""

    plans: list[tuple[str, Plan]] = field(default_factory=list)
    fleets: list[tuple[str, FleetPlan]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    report: Report = field(default_factory=Report)

    @property
    def names(self) -> tuple[str, ...]:
        planned = (*(p.name for _, p in self.plans), *(f.name for _, f in self.fleets))
        return tuple(dict.fromkeys((*planned, *self.broken)))


def _planned(console: Console, paths: Sequence[str]) -> _Found:
    from kvdsl.project.catalog import Catalog
    from kvdsl.project.loader import load
    from kvdsl.sketches import planned

    catalog, found = Catalog(), _Found()
    for path in shown(console, ((p, p) for p in paths)):
        made = planned(load(path, catalog))
        found.report += made.report
        found.plans += [(path, plan) for plan in made.plans]
        found.fleets += [(path, fleet) for fleet in made.fleets]
        found.broken += made.broken
    return found


Named = TypeVar("Named", "tuple[str, Plan]", "tuple[str, FleetPlan]")


def _of_names(every: list[Named], names: Sequence[str]) -> list[Named]:
    return [each for each in every if not names or each[1].name in names]


def _refuse_unknown(names: Sequence[str], known: Sequence[str], paths: Sequence[str]) -> None:
    """CommandError where `--only` names what is not there: the rest would look like all of it."""
    for name in names:
        if name not in known:
            raise CommandError(
                f"no deployment or fleet `{safe(name)}` in {_files(paths)}{_instead(name, known)}"
            )


def _instead(name: str, known: Sequence[str]) -> str:
    """What to write for a name that is not there: one option a name where it lists several."""
    several = [each.strip() for each in name.split(",")]
    if len(several) > 1 and all(each in known for each in several):
        return f"; write `{' '.join(f'--only {safe(each)}' for each in several)}`"
    near = nearest(name, known) or known[:MOST_NAMED]
    verb = "is" if len(near) == 1 else "are"
    return f"; there {verb} {in_a_row((f'`{safe(n)}`' for n in near), 'and')}" if near else ""


def _alone(
    plans: Sequence[tuple[str, Plan]],
    fleets: Sequence[tuple[str, FleetPlan]],
    paths: Sequence[str],
    *,
    others: bool,
) -> str:
    """Why nothing is compared; `others` says whether `--only` left out some that could be."""
    found = [f"one {noun}" for noun, some in (("deployment", plans), ("fleet", fleets)) if some]
    what = " and ".join(found) or "no deployment"
    if others:
        said = f"`--only` leaves {what} of {_files(paths)}; a comparison wants two: name another"
    else:
        said = f"there is {what} in {_files(paths)}; a comparison wants two"
    for path, plan in plans:
        if any(fact.path.partition(".")[0] == "compare" for fact in plan.facts):
            said += f"; `kvdsl plan {shown_file(path)}` shows the layouts of its `compare` lines"
    return said


def _files(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MOST_NAMED:,} more" if len(paths) > MOST_NAMED else ""
    return ", ".join(map(shown_file, paths[:MOST_NAMED])) + more


def _title(path: str, plan: Plan | FleetPlan, every: Sequence[tuple[str, Plan | FleetPlan]]) -> str:
    """The name, with its file's where two have one name."""
    alone = sum(other.name == plan.name for _, other in every) == 1
    stem = path.rsplit("/", 1)[-1].removesuffix(".kvspec")
    return plan.name if alone else f"{stem}: {plan.name}"


def _candidate(plan: Plan, title: str) -> Candidate:
    from kvdsl.comparison import Candidate

    fits = bool(plan.values) and plan.values["memory.kv"].value > 0
    return Candidate(title, plan.layout, dict(plan.values), _codes(plan), fits, main=False,
                     times=plan.times, asked=_asked(plan))  # fmt: skip


def _asked(plan: Plan) -> dict[str, str]:
    """The workload as its values have it, defaults too; of classes what is written of each."""
    names = (name for name in plan.values if name.startswith("workload."))
    found = {name: units.shown(plan.value(name)) for name in names}
    found |= {f.path: f.written for f in plan.facts if f.path.startswith("workload.classes.")}
    return found | {"engine": plan.engine}


def _fleet(fleet: FleetPlan, title: str) -> Candidate:
    from kvdsl.comparison import Candidate

    return Candidate(title, "", dict(fleet.sums), _codes(fleet), fleet.fits, main=False,
                     times=fleet.times)  # fmt: skip


def _codes(plan: Plan | FleetPlan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f.code for f in plan.findings if f.waived is None))


def _text(made: Comparison | None, fleets: Comparison | None, form: str, columns: int) -> str:
    if form == "json":
        return machine.text(
            {
                "format": machine.FORMAT,
                "comparison": made and comparison_form(made),
                "fleets": fleets and fleets_form(fleets),
            }
        )
    found = [(made, deployments_table(made))] if made is not None else []
    found += [(fleets, fleets_table(fleets))] if fleets is not None else []
    if form == "markdown":
        pieces = (f"{as_markdown(t)}{f'{chr(10)}{c.flips}{chr(10)}' if c.flips else ''}"
                  for c, t in found)  # fmt: skip
        return "\n".join(pieces)
    lines: list[str] = []
    for compared, table in found:
        lines += ["", *as_text(table, columns)] if lines else as_text(table, columns)
        lines += ["  * best of its row"] if table.best else []
        lines += wrapped(compared.flips, columns, "  ", "  ") if compared.flips else []
    return "\n".join(lines) + "\n"
