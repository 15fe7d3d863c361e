"""`kvdsl graph`: the placement graph of a deployment."""

from __future__ import annotations

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import exit_of
from kvdsl.cli.options import color_option
from kvdsl.cli.plan import say_errors


@click.command("graph")
@click.argument("file")
@click.argument("name", required=False)
@click.option("--form", type=click.Choice(("dot", "mermaid", "json")), default="dot")
@click.option("--expanded", is_flag=True, help="A node for each rank, not for each class of ranks.")
@color_option
@click.pass_obj
def command(console: Console, file: str, name: str | None, form: str, expanded: bool) -> int:
    """Print the placement graph.

    Clusters, nodes, devices, ranks with their shards, groups and links.
    """
    from kvdsl.pipeline import graph

    text, report = graph(file, name, form, expanded)
    say_errors(console, report)
    if text:
        console.write(text if text.endswith("\n") else text + "\n")
    return exit_of(report)
