"""What a checkpoint declares: names, types and shapes of its tensors, read from headers alone.

Comes in: a folder with `model.safetensors.index.json` or `*.safetensors`, as untrusted as any. Goes
out: the tensors, or why a file could not be read. Weights are never read. Not its job: what a name
means (importers.tensor_names).

Source: the safetensors format: 8 bytes with the length of a JSON object, then that object, then
the tensors that it places.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

INDEX = "model.safetensors.index.json"
MOST_HEADER = 100_000_000
"""Bytes: the format's own limit."""
MOST_INDEX = 200_000_000
MOST_FILES = 5_000
MOST_DIMENSIONS = 16
MOST_SIZE = 2**62

BITS: Mapping[str, int] = MappingProxyType(
    {
        "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64,
        "I64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
        "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    }
)  # fmt: skip
_SHARD = re.compile(r"[A-Za-z0-9_.-]+\.safetensors")


@dataclass(frozen=True, slots=True)
class Declared:
    """One tensor as a header places it."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def values(self) -> int:
        return prod(self.shape)

    @property
    def bits(self) -> int:
        return self.values * BITS[self.kind]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`total` is what the index says of all tensors, in bytes; `missing` are shards that are not
    there; `faults` say why a file was not read."""

    tensors: tuple[Declared, ...] = ()
    names: tuple[str, ...] = ()
    total: int | None = None
    missing: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class Unreadable(Exception):
    """A file is no safetensors, or no index; the text says why."""


def checkpoint(folder: Path) -> Checkpoint | None:
    """What stands beside a config; None without an index and without headers."""
    index = folder / INDEX
    try:
        if index.exists():
            return _indexed(folder, index)
        files = sorted(p.name for p in folder.iterdir() if _SHARD.fullmatch(p.name))
    except Unreadable as fault:
        return Checkpoint(faults=(f"{INDEX}: {fault}",))
    except OSError as error:
        return Checkpoint(faults=((error.strerror or "the folder cannot be read").lower(),))
    return _of_files(folder, files, None, None) if files else None


def _indexed(folder: Path, index: Path) -> Checkpoint:
    found = _object(_bytes(index, MOST_INDEX))
    places = found.get("weight_map")
    if not isinstance(places, dict) or not places:
        raise Unreadable("`weight_map` is missing, or is no object")
    if not all(isinstance(v, str) and _SHARD.fullmatch(v) for v in places.values()):
        raise Unreadable("`weight_map` names a file that is no .safetensors beside it")
    metadata = found.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if total is not None and (type(total) is not int or not 0 <= total <= MOST_SIZE):
        raise Unreadable("`metadata.total_size` is no number of bytes")
    return _of_files(folder, sorted(set(places.values())), places, total)


def _of_files(
    folder: Path, files: list[str], places: Mapping[str, str] | None, total: int | None
) -> Checkpoint:
    if len(files) > MOST_FILES:
        return Checkpoint(faults=(f"more than {MOST_FILES:,} files",))
    tensors: dict[str, Declared] = {}
    missing, faults = [], []
    for name in files:
        path = folder / name
        if not path.exists():
            missing.append(name)
            continue
        try:
            for tensor in header(path):
                if tensor.name in tensors:
                    raise Unreadable(f"`{tensor.name[:80]}` stands in another file too")
                tensors[tensor.name] = tensor
        except Unreadable as fault:
            faults.append(f"{name}: {fault}")
    names = tuple(places) if places is not None else tuple(tensors)
    if places is not None and not missing and not faults:
        odd = sorted(set(places) ^ set(tensors))
        if odd:
            faults.append(f"{INDEX}: `{odd[0][:80]}` stands in the index or in a header alone")
    return Checkpoint(tuple(tensors.values()), names, total, tuple(missing), tuple(faults))


def header(path: Path) -> tuple[Declared, ...]:
    """The tensors of one file. Raises Unreadable."""
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise Unreadable("it is not a regular file")
        with path.open("rb") as file:
            start = file.read(8)
            if len(start) < 8:
                raise Unreadable("it is shorter than a header")
            length = int.from_bytes(start, "little")
            if length > min(MOST_HEADER, state.st_size - 8):
                raise Unreadable(f"its header of {length:,} bytes is longer than a file may have")
            text = file.read(length)
    except OSError as error:
        raise Unreadable((error.strerror or "it cannot be read").lower()) from None
    room = state.st_size - 8 - length
    found = _object(text)
    found.pop("__metadata__", None)
    placed = [_tensor(name, value, room) for name, value in found.items()]
    end = 0
    for first, last, _ in sorted((p[0], p[1], p[2].name) for p in placed):
        if first < end:
            raise Unreadable("two of its tensors overlap")
        end = max(end, last)
    return tuple(p[2] for p in placed)


def _tensor(name: str, value: Any, room: int) -> tuple[int, int, Declared]:
    shown = name[:80]
    if not isinstance(value, dict):
        raise Unreadable(f"`{shown}` is no object")
    kind, shape, place = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(kind, str) or kind not in BITS:
        raise Unreadable(f"`{shown}` has a type that is not known here")
    sizes, ends = _sizes(shape), _sizes(place)
    if sizes is None or len(sizes) > MOST_DIMENSIONS:
        raise Unreadable(f"`{shown}` has a shape that is no list of sizes")
    if ends is None or len(ends) != 2 or ends[0] > ends[1]:
        raise Unreadable(f"`{shown}` has no place in the file")
    tensor = Declared(name, kind, sizes)
    if ends[1] > room:
        raise Unreadable(f"`{shown}` ends behind the file, which is cut short")
    if -(-tensor.bits // 8) != ends[1] - ends[0]:
        raise Unreadable(f"`{shown}` has a shape of other bytes than its place in the file")
    return ends[0], ends[1], tensor


def _sizes(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    good = all(type(v) is int and 0 <= v <= MOST_SIZE for v in value)
    return tuple(value) if good else None


def _bytes(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise Unreadable((error.strerror or "it cannot be read").lower()) from None
    if len(data) > most:
        raise Unreadable("it is too long")
    return data


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except ValueError:  # no UTF-8, no JSON, or a number of too many digits
        raise Unreadable("it is not JSON") from None
    if not isinstance(found, dict):
        raise Unreadable("it holds no object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable("a name stands twice in it")
    return found
