"""`kvdsl check`: what is wrong with specs, and one closing line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

import click

from kvdsl import __version__
from kvdsl.cli.console import Console
from kvdsl.cli.crew import checked
from kvdsl.cli.exits import CommandError, Exit, exit_of, worst
from kvdsl.cli.files import deliver, spare, spec_paths
from kvdsl.cli.options import Output, color_option, file_names, output_option, outputs_or
from kvdsl.cli.replay import TALKS_OF_FILES, keep
from kvdsl.diagnostics import Diagnostic, Report, Severity
from kvdsl.plan import Input
from kvdsl.render import machine
from kvdsl.render.annotations import annotated
from kvdsl.render.characters import safe
from kvdsl.render.diagnostics import concise, drawn_report, tally
from kvdsl.render.junit import gitlab_form, junit_text
from kvdsl.render.paint import PLAIN, Paint, Style
from kvdsl.render.sarif import sarif_form
from kvdsl.units import counted

if TYPE_CHECKING:
    from kvdsl.pipeline import Checked
    from kvdsl.spec.deployment import Policy

FORMS = ("full", "concise", "json", "github", "gitlab", "sarif", "junit")


def _day(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str:
    if given is None:
        return ""
    try:
        return date.fromisoformat(given).isoformat()
    except ValueError:
        told = f"`{safe(given)}` is no day; write it as 2027-01-31"
        raise click.BadParameter(told) from None


@click.command("check")
@click.argument("files", nargs=-1, metavar="FILE...", shell_complete=file_names)
@click.option("--against", metavar="REV",
              help="Only files that read otherwise in a git revision, imports included; `upstream` "
              "is where this branch left its upstream branch.")  # fmt: skip
@click.option("--exclude", "excluded", metavar="PATTERN", multiple=True,
              help="Leave out specs below a folder, as a line of .kvspecignore would.")  # fmt: skip
@click.option("--policy", "policies", metavar="FILE", multiple=True,
              help="Hold every deployment to the policies of a file. Repeatable.")  # fmt: skip
@click.option("--today", metavar="DAY", callback=_day,
              help="The day for waivers that end; without it none has ended.")  # fmt: skip
@click.option("--locked", is_flag=True,
              help="Fail where the catalog says otherwise than kvspec.lock.")  # fmt: skip
@click.option("--lock", "lock", metavar="FILE", default="kvspec.lock", show_default=True,
              help="The lock of --locked.")  # fmt: skip
@output_option(FORMS, "full without it.")
@click.option("--no-cache", is_flag=True, help="Check again, whatever was found before.")
@color_option
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    console: Console,
    files: tuple[str, ...],
    against: str | None,
    excluded: tuple[str, ...],
    policies: tuple[str, ...],
    today: str,
    locked: bool,
    lock: str,
    outputs: tuple[Output, ...],
    no_cache: bool,
) -> int:
    """Find what does not divide, fit or hold.

    A folder is searched for .kvspec files; - is standard input. Without FILE and with --against,
    the working folder is searched.
    """
    from kvdsl.planning.deploy import Rulebook

    if not files and against is None:
        raise click.UsageError("Missing argument 'FILE...'.")
    asked = outputs_or(outputs, "full")
    paths = spec_paths(files or (".",), excluded)
    spare((*paths, *policies), (output.path for output in asked))
    every = paths
    if against is not None:
        paths = _changed(paths, against)
    held_to, read = _policies(policies)
    found = checked(console, paths, Rulebook(held_to, today))
    report = united((*(each.report for each in found), read))
    inputs = _inputs(found)
    said = []
    for output in asked:
        paint = console.data_paint if output.path is None else PLAIN
        text = report_text(report, output.form, console.columns, paint, inputs, paths)
        deliver(console, [output], {output.form: text})
        said.append(text)
    asked_of, held = sum(c.asked for c in found), sum(c.held for c in found)
    closing = f"{tally(report) or 'no findings'} in {counted(len(paths), 'files')}"
    if against is not None:
        closing += f" that changed, of {len(every):,}"
    last = console.talk_paint(_style(report), closing + _requirements(asked_of, held))
    console.say(last)
    code = worst((exit_of(report), _locked(console, every, lock) if locked else Exit.FINE))
    if not no_cache and not any(d.code in TALKS_OF_FILES for d in report.diagnostics):
        texts = {source.name: source.text for each in found for source in each.read}
        keep(console.arguments, texts, ("".join(said), last + "\n"), code)
    return code


def _inputs(found: Sequence[Checked]) -> tuple[Input, ...]:
    """Everything that was read, the catalog's by name at the end: which of its files a worker had
    read before another is chance."""
    every = dict.fromkeys(each for one in found for each in one.inputs)
    own = [each for each in every if not each.file.startswith("catalog/")]
    of_catalog = sorted((e for e in every if e.file.startswith("catalog/")), key=lambda e: e.file)
    return (*own, *of_catalog)


def _changed(paths: Sequence[str], against: str) -> tuple[str, ...]:
    """Those that do not read the same in a revision, with all that they import."""
    from kvdsl.project.closure import same_text
    from kvdsl.project.revisions import NoRevision, revision
    from kvdsl.project.shelves import DISK

    try:
        past = revision(against)
    except NoRevision as error:
        raise CommandError(safe(str(error))) from None
    try:
        return tuple(path for path in paths if path == "-" or not same_text(path, DISK, past))
    finally:
        past.close()


def _policies(files: Sequence[str]) -> tuple[tuple[Policy, ...], Report]:
    """The policies of files, and what is wrong with them. CommandError where a file has none."""
    from kvdsl.pipeline import policies_of

    found: list[Policy] = []
    reports: list[Report] = []
    for file in files:
        policies, report = policies_of(file)
        if not policies and not report.failed:
            raise CommandError(f"no policy in `{safe(file)}`")
        found += policies
        reports.append(report)
    return tuple(found), united(reports)


def _locked(console: Console, paths: tuple[str, ...], place: str) -> Exit:
    """Whether the catalog says what the lock says; tells what does not."""
    from kvdsl.cli.lock import used_lock
    from kvdsl.cli.locks import lock_on
    from kvdsl.project.shelves import DISK
    from kvdsl.review.lock import move_text, moves

    held = lock_on(DISK, place)
    if held is None:
        console.say(f"there is no `{safe(place)}`; `kvdsl lock` writes it")
        return Exit.USAGE
    now = used_lock(console, paths)
    moved = moves(held, now)
    missing = sorted(set(now.entries) - set(held.entries))
    for move in moved:
        console.say(safe(move_text(move)))
    for entry in missing:
        console.say(f"{safe(entry)}: not in the lock")
    if moved or missing:
        update = "kvdsl lock --update" if moved else "kvdsl lock"
        console.say(f"`{safe(place)}` is stale; `{update}` writes it anew")
        return Exit.USAGE
    return Exit.FINE


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
    report: Report,
    form: str,
    columns: int,
    paint: Paint,
    inputs: Sequence[Input] = (),
    files: Sequence[str] = (),
) -> str:
    found = report.diagnostics
    match form:
        case "json":
            return machine.text(machine.findings(report, inputs))
        case "concise":
            return "".join(concise(diagnostic, paint) + "\n" for diagnostic in found)
        case "github":
            # Remarks are many and no news: they stay in the other forms.
            return annotated(d for d in found if d.severity is not Severity.INFO)
        case "gitlab":
            return machine.array(gitlab_form(found))
        case "junit":
            return junit_text(found, files)
        case "sarif":
            from kvdsl.cli.rule import known_pages

            return machine.text(sarif_form(found, known_pages(), __version__))
        case _:
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
    verb = "holds" if asked == 1 else "hold"
    return f", {held:,} of {counted(asked, 'requirements')} {verb}"
