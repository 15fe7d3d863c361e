"""kvdsl: plans for serving large language models, as reviewable text.

`compile(path_or_text)` gives diagnostics and plans; `plan.value("decode.tpot")` a quantity. Nothing
heavy is imported before it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvdsl.pipeline import Bulk, Compilation

__version__ = "0.1.0"
__all__ = ["__version__", "bulk", "compile"]


def compile(  # noqa: A001 - `kvdsl.compile` is the name that readers look for
    source: str | PathLike[str],
    *,
    changes: Mapping[str, str] | None = None,
    deployment: str | None = None,
) -> Compilation:
    """Compiles a `.kvspec` file, or text that has a newline in it.

    `changes` are overrides by path, as the command line's `--set`: `{"layout": "tp16"}`;
    `deployment` names the only one to plan. Faults of the spec come as diagnostics in the
    compilation's `report`, never as exceptions.
    """
    from kvdsl.pipeline import compile_path, compile_text
    from kvdsl.resolve.changes import Change

    made = tuple(Change(path, value) for path, value in (changes or {}).items())
    if isinstance(source, str) and "\n" in source:
        return compile_text(source, changes=made, only=deployment)
    return compile_path(str(source), made, deployment)


def bulk(text: str) -> tuple[Bulk, ...]:
    """Prepares each deployment of a text for many loads in one call.

    `bulk(text)[0].serve(prompt=[1024, 8192], output=[512, 512], concurrency=[16, 64])` gives arrays
    of `decode.tpot` and `prefill.ttft` in seconds and `decode.throughput` in tokens a second, equal
    to those of plans that are compiled one by one, but for two pools: what is sent between them and
    prompts that hold a decode pool back are not in.
    """
    from kvdsl.pipeline import bulk_text

    return bulk_text(text)
