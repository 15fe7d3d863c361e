"""`kvdsl check`: what is wrong with specs, and one closing line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import exit_of
from kvdsl.cli.files import deliver, spec_paths
from kvdsl.cli.options import Output, color_option, file_names, output_option, outputs_or
from kvdsl.cli.progress import shown
from kvdsl.cli.replay import TALKS_OF_FILES, keep
from kvdsl.diagnostics import Diagnostic, Report
from kvdsl.plan import Input
from kvdsl.render import machine
from kvdsl.render.diagnostics import concise, drawn_report, tally
from kvdsl.render.paint import PLAIN, Paint, Style
from kvdsl.units import counted

FORMS = ("full", "concise", "json")


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=file_names)
@output_option(FORMS, "full without it.")
@click.option("--no-cache", is_flag=True, help="Check again, whatever was found before.")
@color_option
@click.pass_obj
def command(
    console: Console, files: tuple[str, ...], outputs: tuple[Output, ...], no_cache: bool
) -> int:
    """Find what does not divide, fit or hold.

    A folder is searched for .kvspec files; - is standard input.
    """
    from kvdsl.pipeline import check_path

    asked = outputs_or(outputs, "full")
    paths = spec_paths(files)
    checked = [check_path(path) for path in shown(console, ((p, p) for p in paths))]
    report = united(each.report for each in checked)
    inputs = tuple(dict.fromkeys(each for one in checked for each in one.inputs))
    said = []
    for output in asked:
        paint = console.data_paint if output.path is None else PLAIN
        text = report_text(report, output.form, console.columns, paint, inputs)
        deliver(console, [output], {output.form: text})
        said.append(text)
    asked_of, held = sum(c.asked for c in checked), sum(c.held for c in checked)
    closing = f"{tally(report) or 'no findings'} in {counted(len(paths), 'files')}"
    last = console.talk_paint(_style(report), closing + _requirements(asked_of, held))
    console.say(last)
    code = exit_of(report)
    if not no_cache and not any(d.code in TALKS_OF_FILES for d in report.diagnostics):
        read = {source.name: source.text for each in checked for source in each.read}
        keep(console.arguments, read, ("".join(said), last + "\n"), code)
    return code


def united(reports: Iterable[Report]) -> Report:
    """One report; what two runs say of a file that both import is said once.

    Diagnostics are equal only within a run, since each reads its own copy of a file's text.
    """
    unique: dict[object, Diagnostic] = {}
    for report in reports:
        for diagnostic in report.diagnostics:
            unique.setdefault((diagnostic.sort_key, diagnostic.span.end), diagnostic)
    return Report.of(unique.values())


def report_text(
    report: Report, form: str, columns: int, paint: Paint, inputs: Sequence[Input] = ()
) -> str:
    if form == "json":
        return machine.text(machine.findings(report, inputs))
    if form == "concise":
        return "".join(concise(diagnostic, paint) + "\n" for diagnostic in report.diagnostics)
    return drawn_report(report, columns, paint)


def _style(report: Report) -> Style:
    if not report.diagnostics:
        return Style.GOOD
    return Style.ERROR if report.failed else Style.STRONG


def _requirements(asked: int, held: int) -> str:
    """`, all 4 requirements hold`; nothing where none was asked."""
    if not asked:
        return ""
    if held == asked:
        return (
            ", the requirement holds"
            if asked == 1
            else f", all {counted(asked, 'requirements')} hold"
        )
    return f", {held:,} of {counted(asked, 'requirements')} hold"
