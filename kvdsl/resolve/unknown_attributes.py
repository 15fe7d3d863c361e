"""What is told of an attribute that its block does not have.

Comes in: the block's class and the entry. Goes out: a diagnostic with what was meant. Not its job:
what other tools call it (foreign_names), or attributes that there are (building).
"""

from __future__ import annotations

from itertools import islice

from kvdsl.resolve.blocks import PLURAL_KEYS, Body, Choices, Entry, Verbatim, shown_key
from kvdsl.resolve.context import Context
from kvdsl.resolve.foreign_names import STATEMENTS, elsewhere, home_blocks, homes, own_name
from kvdsl.resolve.naming_messages import UnknownAttribute, a_kind, like, listed
from kvdsl.resolve.schema import KINDS, schema_of
from kvdsl.spec.declaration import Block
from kvdsl.spec.deployment import Deployment, Pool
from kvdsl.spelling import nearest
from kvdsl.syntax.block_faults import form_of


def unknown(context: Context, model: type[Block], entry: Entry, owner: str) -> None:
    shown = shown_key(entry.key)
    hint = _meant_hint(model, entry)
    known = schema_of(model).names
    if model is Deployment:  # what a pool may say, a deployment may say for all
        shared = (name for name in schema_of(Pool).names if name not in ("role", "share"))
        known = tuple(dict.fromkeys((*shared, *known)))
    near = None if hint else like(shown.rpartition(" ")[2], known)
    hint = hint or (None if near else _elsewhere_hint(entry))
    hint = hint or (None if near else f"it has {listed(known)}")
    context.tell(UnknownAttribute(entry.name.span, owner, shown, near, hint))


def _meant_hint(model: type[Block], entry: Entry) -> str | None:
    """What was meant by a path, by a name of another tool, or in a block further in."""
    sort, _, name = entry.key.rpartition(" ")
    if sort in KINDS:
        inside = f"; a block in here has no name: `{sort} {{ … }}`"
        inside = inside if sort in schema_of(model).names else ""
        return f"`{sort} {name}` is declared at the top of a file{inside}"
    if entry.key in STATEMENTS:
        return STATEMENTS[entry.key]
    if entry.key in KINDS and (form := form_of(entry.key)):
        return f"it stands at the top of a file: `{form}`"
    if entry.key in KINDS and entry.key not in schema_of(model).names:
        return f"it is declared at the top of a file: `{entry.key} NAME {{ … }}`"
    if entry.key in PLURAL_KEYS.values() and (form := form_of(entry.key)):
        return f"it has a name: `{form}`"
    if entry.key in PLURAL_KEYS.values():
        return f"it has a name: `{entry.key} NAME {{ … }}`"
    first, dot, rest = entry.key.partition(".")
    if dot and first in schema_of(model).attributes:
        return f"write it in its block: `{first} {{ {rest} = … }}`"
    name = own_name(entry.key)
    found = next(homes(model, name, _written(entry)), None)
    if found is None:
        return None
    if name == entry.key:
        return f"write it in its block: `{found}`"
    return f"kvspec calls it `{name}`: write `{found}`"


def _elsewhere_hint(entry: Entry) -> str | None:
    """Where else in the language an attribute of that name stands."""
    name = own_name(entry.key)
    found = next(elsewhere(name, _written(entry)), None)
    if found is None:
        return None
    called = f"kvspec calls it `{name}`, which" if name != entry.key else f"`{name}`"
    return f"{called} stands in {a_kind(found[0])}: `{found[1]}`"


def _written(entry: Entry) -> str:
    """The value as it was written, where it is short."""
    if isinstance(entry.value, Body | Verbatim | Choices):
        return "…"
    text = entry.value.span.text
    return text if len(text) <= 24 and text.isprintable() else "…"


def meant_by(model: type[Block], key: str) -> tuple[str, ...]:
    """Attributes of a block that a name which it does not have may stand for."""
    known = schema_of(model).attributes
    if key in known:
        return ()
    own = own_name(key)
    if own in known:
        return (own,)
    return nearest(key, known) or tuple(islice(home_blocks(model, own), 1))
