"""docs/techniques.md: systems of the field, each with the spec that shows it.

Comes in: a topic from each module `techniques_*.py`. Goes out: a table a topic. Another topic is
one more module and one more line in `TOPICS`.
"""

from __future__ import annotations

import re

from kvdsl.checks.findings import RULES
from kvdsl.reference import techniques_pools, techniques_sharding
from kvdsl.reference.markdown import anchor, document, table
from kvdsl.reference.systems import System, Topic

TOPICS: tuple[Topic, ...] = (techniques_sharding.TOPIC, techniques_pools.TOPIC)

EXAMPLES = "../specs/examples"

INTRODUCTION = """\
How systems of the field are written in kvspec, what is checked and costed of them, and which of
their published figures come out. What was measured on a machine is quoted and not reckoned.
`kvdsl report specs/examples/FILE` shows any of them."""

_CODE = re.compile(r"\bKV\d{3}\b")
_NAMES = {rule.code: f"{rule.code} {rule.name}" for rule in RULES}


def page() -> str:
    return document("Techniques", INTRODUCTION, *(_section(topic) for topic in TOPICS))


def _section(topic: Topic) -> str:
    heads = ("system", "how it is written", "checked and costed", "figures", "spec")
    rows = [_row(system) for system in topic.systems]
    return "\n\n".join((f"## {topic.title}", topic.introduction, table(heads, rows)))


def _row(system: System) -> tuple[str, ...]:
    return (
        f"**{system.name}**, {system.source}",
        system.written,
        _CODE.sub(_rule, system.checked),
        system.figures,
        f"[{system.example.removesuffix('.kvspec')}]({EXAMPLES}/{system.example})",
    )


def _rule(found: re.Match[str]) -> str:
    """A rule's code, linked to its section where there is one."""
    name = _NAMES.get(found[0])
    return found[0] if name is None else f"[{found[0]}](rules.md{anchor(name)})"
