"""`kvdsl graph`: the placement graph of a deployment."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
from kvdsl.cli.plan import no_deployment, say_errors
from kvdsl.render import machine

if TYPE_CHECKING:
    from kvdsl.pipeline import Drawn
    from kvdsl.project.loader import Project
    from kvdsl.resolve.changes import Change

FORMS = ("dot", "mermaid", "json", "svg")


@click.command("graph")
@click.argument("file", shell_complete=file_names)
@click.argument("name", required=False)
@override_options
@output_option(FORMS, "dot without it.")
@click.option("--form", type=click.Choice(FORMS), hidden=True)
@click.option("--expanded", is_flag=True, help="A node for each rank, not for each class of ranks.")
@color_option
@click.pass_obj
def command(
    console: Console,
    file: str,
    name: str | None,
    overrides: Overrides,
    outputs: tuple[Output, ...],
    form: str | None,
    expanded: bool,
) -> int:
    """Print the placement graph.

    Clusters, nodes, devices, ranks with their shards, groups and links: of one deployment, or of
    all. Pools have a graph each. The picture of a report is `--output svg`.
    """
    # `--form` is older than `--output`: scripts that have it go on.
    asked = outputs_or((*outputs, *((Output(form),) if form else ())), "dot")
    spare([file], (output.path for output in asked))
    if expanded and any(output.form == "svg" for output in asked):
        raise click.UsageError("--expanded is for graphs; a picture folds what is alike by itself")
    from kvdsl.project.loader import load

    project = load(file)  # once: the standard input gives it no second time
    code = 0
    for number, output in enumerate(asked):
        drawn = _drawn(project, name, output.form, overrides.changes(), expanded=expanded)
        if not number:
            say_errors(console, drawn.report)
            if name is not None and name not in drawn.known and not drawn.report.failed:
                raise no_deployment(file, name, drawn.known)
            if not drawn.known and not drawn.report.failed:
                console.say(f"no deployment in {shown_file(file)}")
            code = exit_of(drawn.report)
        if drawn.texts:
            deliver(console, [output], {output.form: _united(drawn.texts, output.form)})
    return code


def _drawn(
    project: Project, name: str | None, form: str, made: Sequence[Change], *, expanded: bool
) -> Drawn:
    from kvdsl.pipeline import graph, placement_sheet
    from kvdsl.placement.graph import GraphTooLarge

    if form == "svg":
        return placement_sheet(project, name, made)
    try:
        return graph(project, name, form, made, expanded=expanded)
    except GraphTooLarge as refused:
        raise CommandError(f"{refused}; leave out --expanded") from None


def _united(texts: Sequence[tuple[str, str]], form: str) -> str:
    """All graphs as one text: one JSON object, or one behind the other under its name."""
    if form == "json":
        graphs = [{"name": title, "graph": json.loads(text)} for title, text in texts]
        return machine.text({"format": machine.FORMAT, "graphs": graphs})
    if len(texts) == 1:
        return texts[0][1].rstrip("\n") + "\n"
    sign = "//" if form == "dot" else "%%"
    return "\n".join(f"{sign} {title}\n{text.rstrip()}\n" for title, text in texts)
