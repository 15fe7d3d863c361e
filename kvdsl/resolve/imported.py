"""An imported config's declaration, tried: it resolves, under a name that a file may declare.

Comes in: the text of a config. Goes out: what the importer made of it. Raises Refused where the
model does not add up. Not its job: reading keys (importers).
"""

from __future__ import annotations

from kvdsl.diagnostics import Severity
from kvdsl.importers.config import Refused
from kvdsl.importers.huggingface import Imported, imported
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver


def proved(text: str, name: str, source: str) -> Imported:
    """The declaration of a config. A name that is a unit or the catalog's gets `model_` before
    it."""
    faults: list[str] = []
    for each in (name, f"model_{name}"):
        made = imported(text, each, source)
        faults = _faults(made)
        if not faults:
            return made
    raise Refused(f"the config does not add up: {faults[0]}")


def _faults(made: Imported) -> list[str]:
    resolver = Resolver(load_text(made.text, "<import>"))
    every = list(resolver.check())
    for name in resolver.declared("model"):
        every.extend(resolver.declaration(name)[1])
    return [each.headline for each in every if each.severity is Severity.ERROR]
