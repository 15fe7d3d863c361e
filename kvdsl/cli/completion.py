"""`kvdsl completion`: the script that lets a shell complete commands, options and files."""

from __future__ import annotations

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import Exit

VARIABLE = "_KVDSL_COMPLETE"
"""What the script sets when it asks kvdsl what may stand next."""

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_obj
def command(console: Console, shell: str) -> int:
    """Print a completion script.

    \b
    bash: kvdsl completion bash > ~/.local/share/bash-completion/completions/kvdsl
    zsh:  kvdsl completion zsh > ~/.zfunc/_kvdsl     (a folder of your fpath)
    fish: kvdsl completion fish > ~/.config/fish/completions/kvdsl.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    context = click.get_current_context().find_root()
    assert made is not None, "click knows these shells"
    console.write(made(context.command, {}, "kvdsl", VARIABLE).source())
    return Exit.FINE


def completed(commands: click.Command, instruction: str) -> int:
    """Answers a shell that asks what may stand next, in the form of its script."""
    from click.shell_completion import shell_complete

    return shell_complete(commands, {}, "kvdsl", VARIABLE, instruction)
