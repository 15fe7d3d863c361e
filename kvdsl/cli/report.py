"""`kvdsl report`: one self-contained HTML file a spec, and the same as a PDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from kvdsl import __version__
from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, Exit, exit_of, worst
from kvdsl.cli.files import STANDARD_INPUT, shown_file, spare, spec_paths, write_file
from kvdsl.cli.options import Output, color_option, file_names, output_option
from kvdsl.cli.plan import say_errors
from kvdsl.cli.progress import shown
from kvdsl.render.characters import safe

FORMS = ("html", "pdf")


@dataclass(frozen=True, slots=True)
class _Job:
    """A spec and the files that are made of it; None where a form was not asked for."""

    spec: str
    html: Path | None
    pdf: Path | None


@click.command("report")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=file_names)
@click.option("--to", "folder", metavar="DIR", default=".", help="Folder of the reports (here).")
@output_option(FORMS, "both without it.")
@color_option
@click.pass_obj
def command(
    console: Console, files: tuple[str, ...], folder: str, outputs: tuple[Output, ...]
) -> int:
    """Write reports as HTML and PDF.

    One of each form a spec, named after it; the paths are printed.
    """
    jobs = _jobs(spec_paths(files), Path(folder), outputs)
    spare((job.spec for job in jobs), (path for job in jobs for path in (job.html, job.pdf)))
    _make_folder(Path(folder))
    steps = shown(console, ((job.spec, job) for job in jobs))
    return worst([_reported(console, job) for job in steps])


def _jobs(specs: Sequence[str], folder: Path, outputs: Sequence[Output]) -> list[_Job]:
    """What is written where. Raises UsageError where two reports would be one file."""
    asked = {output.form: output.path for output in outputs or map(Output, FORMS)}
    if len(specs) > 1 and any(asked.values()):
        raise click.UsageError("FORMAT=PATH names one file, but there are several specs; use --to")
    jobs = []
    for spec in specs:
        stem = "stdin" if spec == STANDARD_INPUT else Path(spec).stem
        paths = {f: Path(p) if p else folder / f"{stem}.{f}" for f, p in asked.items()}
        jobs.append(_Job(spec, paths.get("html"), paths.get("pdf")))
    targets = [path for job in jobs for path in (job.html, job.pdf) if path is not None]
    twice = next((path for path in targets if targets.count(path) > 1), None)
    if twice is not None:
        raise click.UsageError(f"two reports would be written to {safe(str(twice))}")
    return jobs


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "the path is not valid").lower()
        raise CommandError(f"cannot make the folder `{safe(str(folder))}`: {reason}") from None


def _reported(console: Console, job: _Job) -> Exit:
    from kvdsl.pipeline import compile_path
    from kvdsl.render.html import report_html
    from kvdsl.render.pdf import PdfUnavailable, report_pdf

    compilation = compile_path(job.spec)
    say_errors(console, compilation.report)
    if not (compilation.plans or compilation.fleets):
        if not compilation.report.failed:
            console.say(f"no deployment in {shown_file(job.spec)}: no report")
        return exit_of(compilation.report)
    html = report_html(compilation.plans, __version__, compilation.fleets)
    if job.html is not None:
        _written(console, job.html, html.encode())
    if job.pdf is None:
        return exit_of(compilation.report)
    try:
        pdf = report_pdf(html)
    except PdfUnavailable as missing:
        console.say(f"error: {missing}")
        return Exit.USAGE
    _written(console, job.pdf, pdf)
    return exit_of(compilation.report)


def _written(console: Console, path: Path, data: bytes) -> None:
    write_file(path, data)
    console.write(f"{path.as_posix()}\n")
