"""Every code of this stage and of loading, in order, with one sentence each.

Comes in: the catalogues. Goes out: `CODES`, from which the rules' pages are made. The messages
stand beside what they are about: naming (KV023 to KV039), values (KV040 to KV059), combinations
(KV060 to KV079). Not its job: telling any of them.
"""

from __future__ import annotations

from kvdsl.project.messages import CODES as PROJECT
from kvdsl.resolve.combination_messages import CODES as COMBINATIONS
from kvdsl.resolve.naming_messages import CODES as NAMES
from kvdsl.resolve.value_messages import CODES as VALUES

CODES: tuple[tuple[str, str, str], ...] = (*PROJECT, *NAMES, *VALUES, *COMBINATIONS)
