"""`kvdsl graph`: the placement graph of a deployment."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, exit_of
from kvdsl.cli.files import shown_file
from kvdsl.cli.options import Overrides, color_option, file_names, override_options
from kvdsl.cli.plan import no_deployment, say_errors
from kvdsl.render import machine


@click.command("graph")
@click.argument("file", shell_complete=file_names)
@click.argument("name", required=False)
@override_options
@click.option("--form", type=click.Choice(("dot", "mermaid", "json")), default="dot")
@click.option("--expanded", is_flag=True, help="A node for each rank, not for each class of ranks.")
@color_option
@click.pass_obj
def command(
    console: Console,
    file: str,
    name: str | None,
    overrides: Overrides,
    form: str,
    expanded: bool,
) -> int:
    """Print the placement graph.

    Clusters, nodes, devices, ranks with their shards, groups and links: of one deployment, or of
    all. Pools have a graph each.
    """
    from kvdsl.pipeline import graph
    from kvdsl.placement.graph import GraphTooLarge

    try:
        drawn = graph(file, name, form, overrides.changes(), expanded=expanded)
    except GraphTooLarge as refused:
        raise CommandError(f"{refused}; leave out --expanded") from None
    say_errors(console, drawn.report)
    if name is not None and name not in drawn.known and not drawn.report.failed:
        raise no_deployment(file, name, drawn.known)
    if not drawn.known and not drawn.report.failed:
        console.say(f"no deployment in {shown_file(file)}")
    if drawn.texts:
        console.write(_united(drawn.texts, form))
    return exit_of(drawn.report)


def _united(texts: Sequence[tuple[str, str]], form: str) -> str:
    """All graphs as one text: one JSON object, or one behind the other under its name."""
    if form == "json":
        graphs = [{"name": title, "graph": json.loads(text)} for title, text in texts]
        return machine.text({"format": machine.FORMAT, "graphs": graphs})
    if len(texts) == 1:
        return texts[0][1].rstrip("\n") + "\n"
    sign = "//" if form == "dot" else "%%"
    return "\n".join(f"{sign} {title}\n{text.rstrip()}\n" for title, text in texts)
