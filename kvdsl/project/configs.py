"""`config = "config.json"` of a model: the file beside the spec, as the block it stands for.

Comes in: a file's tree, its folder, and how far the project reaches. Goes out: for each place that
names a config, the block of a model or why there is none. Not its job: what overrides it (resolve).

Every name and value of the block stands where the spec names the config: what is wrong with it is
told there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from kvdsl.project.reading import Refusal
from kvdsl.project.shelves import Fence, Shelf
from kvdsl.source import SourceFile, Span
from kvdsl.syntax.nodes import Assign, Block, Declare, Module, Text

KEY = "config"
MOST_CONFIGS = 100
"""More than a project would name; each may be long."""

N = TypeVar("N")


@dataclass(frozen=True, slots=True, eq=False)
class ConfigRead:
    """A config's model as a block, or why there is none; `source` is the text that was read."""

    source: SourceFile | None = None
    block: Block | None = None
    reason: str = ""
    way_out: str | None = None


def configs_of(
    module: Module, folder: Path, shown: PurePosixPath, fence: Fence, shelf: Shelf
) -> Mapping[Span, ConfigRead]:
    """By the place of the text that names one; `shown` is the folder as a user knows it."""
    if KEY not in module.source.text:
        return {}
    found: dict[Span, ConfigRead] = {}
    for text in _named(module):
        if len(found) >= MOST_CONFIGS:
            found[text.span] = ConfigRead(reason="the project names too many configs")
        else:
            found[text.span] = _read(text, folder, shown, fence, shelf)
    return found


def _named(node: object) -> Iterator[Text]:
    """The texts behind `config =`, wherever a model may stand. A loop: blocks may be deep."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        match each:
            case Assign(path=path, value=Text() as text) if path.dotted == KEY:
                yield text
            case Span() | SourceFile():
                pass
            case tuple():
                waiting.extend(each)
            case _ if is_dataclass(each):
                waiting.extend(getattr(each, field.name) for field in fields(each))


def _read(text: Text, folder: Path, shown: PurePosixPath, fence: Fence, shelf: Shelf) -> ConfigRead:
    from kvdsl.importers.config import MOST_TEXT

    refusal = _refused(text.value) or fence.refused(folder, text.value)
    if refusal is None:
        content = shelf.read(Path(os.path.normpath(folder / text.value)), MOST_TEXT)
        if isinstance(content, str):
            name = PurePosixPath(os.path.normpath(shown / text.value)).as_posix()
            return replace(_translated(content, text), source=SourceFile(name, content))
        refusal = content
    return ConfigRead(reason=refusal.reason, way_out=refusal.way_out)


def _refused(written: str) -> Refusal | None:
    if not written.endswith(".json") or written.startswith(("/", "\\", "~")) or "\\" in written:
        return Refusal(
            "it is no path of a .json file from this file's folder",
            'write it as in `config = "config.json"`',
        )
    return None


def _translated(content: str, text: Text) -> ConfigRead:
    from kvdsl.importers.config import Refused
    from kvdsl.importers.huggingface import imported
    from kvdsl.syntax.parser import parse

    try:
        made = imported(content, "model", text.value)
    except Refused as refused:
        return ConfigRead(reason=str(refused))
    if made.doubtful:
        keys = ", ".join(f"`{key[:60]}`" for key in made.doubtful[:6])
        way_out = "leave the key out if it changes none, or write the model's attributes here"
        return ConfigRead(reason=f"{keys} may change a size, and is not read", way_out=way_out)
    module, _ = parse(SourceFile("<config>", made.text))
    declared = next((s for s in module.statements if isinstance(s, Declare)), None)
    return ConfigRead(block=None if declared is None else _placed(declared.body, text.span))


def _placed(node: N, span: Span) -> N:
    """The same tree with every place at `span`."""
    if isinstance(node, Span):
        return span  # type: ignore[return-value]
    if isinstance(node, tuple):
        return tuple(_placed(item, span) for item in node)  # type: ignore[return-value]
    if is_dataclass(node) and not isinstance(node, SourceFile):
        changed = {f.name: _placed(getattr(node, f.name), span) for f in fields(node) if f.init}
        return replace(node, **changed)  # type: ignore[type-var]
    return node
