"""`kvdsl import`: what others write of a model, as a declaration."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, Exit
from kvdsl.cli.files import STANDARD_INPUT, shown_file
from kvdsl.cli.options import color_option
from kvdsl.render.characters import safe, wrapped

if TYPE_CHECKING:
    from kvdsl.importers.huggingface import Imported

CONFIG = "config.json"
MOST_SHOWN = 80


@click.group("import")
def command() -> None:
    """Write a model that others describe as a declaration."""


@command.command("hf")
@click.argument("path", metavar="PATH|-")
@click.option("--name", metavar="NAME", help="What the model is called; else named by its file.")
@click.option("--source", metavar="TEXT", help="Where its figures are from, for the declaration.")
@color_option
@click.pass_obj
def hf(console: Console, path: str, name: str | None, source: str | None) -> int:
    """Read a Hugging Face config.json.

    The declaration goes to stdout. Keys that were used, ignored (and why) or assumed are told on
    stderr. A folder stands for the config.json in it. With model.safetensors.index.json or
    *.safetensors beside it, the tensors that these declare are checked against the count.

    \b
    kvdsl import hf Qwen3-32B/config.json > qwen3_32b.kvspec
    """
    from kvdsl.importers.config import Refused, Unparsed
    from kvdsl.resolve.imported import proved

    text, title = _read(path)
    try:
        found = proved(text, _name(text, path, name), source or f"config.json of {title}")
    except Refused as refused:
        console.say(f"error: {safe(title)}: {safe(str(refused))}")
        return Exit.USAGE if isinstance(refused, Unparsed) else Exit.FINDINGS
    console.write(found.text)
    for line in _told(found, console.columns):
        console.say(line)
    return _checkpoint(console, path, found)


def _checkpoint(console: Console, path: str, found: Imported) -> Exit:
    """What the headers beside the config say: a mismatch is a finding."""
    from kvdsl.planning.checkpoint import beside

    place = Path(path)
    folder = place if place.is_dir() else place.parent
    compared = beside(found.text, found.name, folder) if path != STANDARD_INPUT else None
    if compared is None:
        return Exit.FINE
    for note in compared.notes:
        for line in _line("note", safe(note), console.columns):
            console.say(line)
    for mismatch in compared.mismatches:
        for line in wrapped(f"error: checkpoint: {safe(mismatch)}", console.columns, "", "  "):
            console.say(line)
    if not compared.mismatches:
        console.say("checked  the tensors beside it have the parameters that are counted")
    return Exit.FINDINGS if compared.mismatches else Exit.FINE


def _read(path: str) -> tuple[str, str]:
    """The text, and what the model's file is called in messages. Raises CommandError."""
    from kvdsl.importers.config import MOST_TEXT
    from kvdsl.project.reading import Refusal, read, read_standard_input

    place = Path(path)
    if path == STANDARD_INPUT:
        text = read_standard_input(MOST_TEXT)
    else:
        place = place / CONFIG if place.is_dir() else place
        text = read(place, MOST_TEXT)
    if isinstance(text, Refusal):
        raise CommandError(f"cannot read {shown_file(str(place))}: {text.reason}{_way(path)}")
    if path == STANDARD_INPUT:
        return text, "standard input"
    return text, place.parent.name if place.name == CONFIG and place.parent.name else place.stem


def _way(path: str) -> str:
    """What to do with what is no file here: an address, or the name of a repository elsewhere."""
    if "://" in path or (path.count("/") == 1 and not Path(path).parent.exists()):
        return "; kvdsl fetches nothing: save the repository's config.json, and name that file"
    return ""


def _name(text: str, path: str, given: str | None) -> str:
    """By the option, by the file or its folder, or by what the config calls itself."""
    from kvdsl.importers.huggingface import identifier

    if given is not None:
        if identifier(given) != given.lower():
            raise click.BadParameter(
                f"`{safe(given)}` is no name, as in `qwen3_32b`", param_hint="--name"
            )
        return given
    place = Path(path)
    if path != STANDARD_INPUT and place.name != CONFIG and not place.is_dir():
        return identifier(place.stem.rpartition("__")[2] or place.stem)
    folder = "" if path == STANDARD_INPUT else (place if place.is_dir() else place.parent).name
    return identifier(folder or _own_name(text))


def _own_name(text: str) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    words = (
        [found.get(key) for key in ("_name_or_path", "model_type")]
        if isinstance(found, dict)
        else []
    )
    return next((word for word in words if isinstance(word, str) and word), "")


def _told(found: Imported, columns: int) -> Iterator[str]:
    yield from _line("used", ", ".join(map(_shown, found.used)), columns)
    reasons: dict[str, list[str]] = {}
    for key, why in found.ignored:
        reasons.setdefault(why, []).append(_shown(key))
    for why, keys in reasons.items():
        yield from _line("ignored", f"{', '.join(keys)}: {why}", columns)
    for what, why in found.assumed:
        yield from _line("assumed", f"{what}: {why}", columns)
    for warning in found.warnings:
        yield from wrapped(f"warning: {safe(warning)}", columns, "", "  ")


def _shown(key: str) -> str:
    text = safe(key)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def _line(word: str, text: str, columns: int) -> Iterable[str]:
    return wrapped(text, columns, f"{word:<9}", " " * 9) if text else ()
