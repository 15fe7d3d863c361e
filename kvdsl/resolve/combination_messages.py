"""What a user is told about attributes that do not go together. KV060 to KV079.

Comes in: facts. Goes out: diagnostics with a way out. Not its job: finding anything wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kvdsl.diagnostics import Message
from kvdsl.resolve.naming_messages import DID_YOU_MEAN
from kvdsl.source import Span

CODES: tuple[tuple[str, str, str], ...] = (
    ("KV060", "replicas-twice", "`replicas` stands in a layout and in the deployment or pool."),
    ("KV061", "lengths-twice", "`context` stands beside `prompt` or `output`."),
    ("KV062", "no-lengths", "A workload does not say how long its requests are."),
    ("KV063", "no-load", "A workload says neither `concurrency` nor `rate`."),
    ("KV064", "shares-not-whole", "Shares of requests do not add up to 100 %."),
    ("KV065", "incomplete-deployment", "A deployment or pool lacks what every plan needs."),
    ("KV066", "roles-not-whole", "Pools prefill and none decodes, or the other way round."),
    ("KV067", "bad-stack", "A stack is empty, too high, or holds what is no layer."),
    ("KV068", "unknown-part", "A layer or part names a part that the model does not have."),
    ("KV069", "unknown-module", "A recipe names what is no module, component, part or layer."),
    ("KV070", "bad-sweep", "A sweep does not say what to go through."),
    ("KV071", "bad-search", "A search does not say what to try, or what is best."),
    ("KV072", "bad-code", "An `allow` names what is no code."),
    ("KV073", "change-without-effect", "An override changes what every pool says for itself."),
    ("KV074", "incomplete-draft", "A draft lacks what its method needs."),
    ("KV075", "incomplete-format", "A format says neither its bits nor what it encodes."),
    ("KV076", "incomplete-shape", "A shape lacks the sizes that it needs."),
    ("KV077", "inconsistent-part", "Attributes of a model's part contradict each other."),
    ("KV078", "listed-twice", "A fleet or list names one thing twice."),
    ("KV079", "config-not-read", "A model names a config.json that cannot be read faithfully."),
)


@dataclass(frozen=True)
class ReplicasTwice(Message):
    code: ClassVar[str] = "KV060"
    headline: ClassVar[str] = "`replicas` stands both in the layout and in {owner}"
    helps: ClassVar[tuple[str, ...]] = ("they do not multiply: keep one of the two",)
    span: Span
    owner: str


@dataclass(frozen=True)
class LengthsTwice(Message):
    code: ClassVar[str] = "KV061"
    headline: ClassVar[str] = "`context` stands instead of `prompt` and `output`, not beside them"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    way_out: str


@dataclass(frozen=True)
class NoLengths(Message):
    code: ClassVar[str] = "KV062"
    headline: ClassVar[str] = "{owner} does not say how long requests are: {missing}"
    helps: ClassVar[tuple[str, ...]] = (
        "write `prompt = 4096 tok` and `output = 512 tok`, or `context = 8 ktok` instead of both",
    )
    span: Span
    owner: str
    missing: str


@dataclass(frozen=True)
class NoLoad(Message):
    code: ClassVar[str] = "KV063"
    headline: ClassVar[str] = "{owner} does not say how many requests there are"
    helps: ClassVar[tuple[str, ...]] = (
        "write `concurrency = 128 req` (in flight) or `rate = 6 req/s` (arriving)",
    )
    span: Span
    owner: str


@dataclass(frozen=True)
class SharesNotWhole(Message):
    code: ClassVar[str] = "KV064"
    headline: ClassVar[str] = "the shares of {what} add up to {total}, not 100 %"
    notes: ClassVar[tuple[str, ...]] = ("{sum_shown}",)
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    what: str
    total: str
    sum_shown: str | None = None
    way_out: str | None = None


@dataclass(frozen=True)
class IncompleteDeployment(Message):
    code: ClassVar[str] = "KV065"
    headline: ClassVar[str] = "{owner} does not say {names}"
    helps: ClassVar[tuple[str, ...]] = ("write {example}", "{hint}")
    span: Span
    owner: str
    names: str
    example: str
    hint: str | None = None


@dataclass(frozen=True)
class RolesNotWhole(Message):
    code: ClassVar[str] = "KV066"
    headline: ClassVar[str] = "no pool of {owner} {missing}s"
    helps: ClassVar[tuple[str, ...]] = ("add `pool {missing} {{ … }}`, or give one `role = both`",)
    span: Span
    owner: str
    missing: str


@dataclass(frozen=True)
class BadStack(Message):
    code: ClassVar[str] = "KV067"
    headline: ClassVar[str] = "{reason}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    reason: str
    way_out: str | None = None


@dataclass(frozen=True)
class UnknownPart(Message):
    code: ClassVar[str] = "KV068"
    headline: ClassVar[str] = "the model has no part `{name}`"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{hint}")
    span: Span
    name: str
    near: str | None
    hint: str | None = None


@dataclass(frozen=True)
class UnknownModule(Message):
    code: ClassVar[str] = "KV069"
    headline: ClassVar[str] = "a recipe has no line `{name}`{where}"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{hint}")
    span: Span
    name: str
    where: str
    near: str | None
    hint: str | None = None


@dataclass(frozen=True)
class BadSweep(Message):
    code: ClassVar[str] = "KV070"
    headline: ClassVar[str] = "{reason}"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{way_out}")
    span: Span
    reason: str
    way_out: str | None = None
    near: str | None = None


@dataclass(frozen=True)
class BadSearch(Message):
    code: ClassVar[str] = "KV071"
    headline: ClassVar[str] = "{reason}"
    helps: ClassVar[tuple[str, ...]] = (DID_YOU_MEAN, "{way_out}")
    span: Span
    reason: str
    way_out: str | None = None
    near: str | None = None


@dataclass(frozen=True)
class BadCode(Message):
    code: ClassVar[str] = "KV072"
    headline: ClassVar[str] = "`{name}` is not the code of a finding"
    helps: ClassVar[tuple[str, ...]] = (
        "write `{instead}`",
        "a code is KV and three digits, as in `KV108`; `kvdsl rule` lists all",
    )
    span: Span
    name: str
    instead: str | None = None


@dataclass(frozen=True)
class ChangeWithoutEffect(Message):
    code: ClassVar[str] = "KV073"
    headline: ClassVar[str] = "changing `{path}` has no effect: every pool has its own `{name}`"
    helps: ClassVar[tuple[str, ...]] = ("change it in a pool: `{example}`",)
    span: Span
    path: str
    name: str
    example: str


@dataclass(frozen=True)
class IncompleteDraft(Message):
    code: ClassVar[str] = "KV074"
    headline: ClassVar[str] = "a draft by `{method}` needs {names}"
    helps: ClassVar[tuple[str, ...]] = ("write {example}",)
    span: Span
    method: str
    names: str
    example: str


@dataclass(frozen=True)
class IncompleteFormat(Message):
    code: ClassVar[str] = "KV075"
    headline: ClassVar[str] = "{owner} {reason}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    owner: str
    reason: str
    way_out: str


@dataclass(frozen=True)
class IncompleteShape(Message):
    code: ClassVar[str] = "KV076"
    headline: ClassVar[str] = "{reason}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    reason: str
    way_out: str | None = None


@dataclass(frozen=True)
class InconsistentPart(Message):
    code: ClassVar[str] = "KV077"
    headline: ClassVar[str] = "{reason}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    reason: str
    way_out: str | None = None


@dataclass(frozen=True)
class ListedTwice(Message):
    code: ClassVar[str] = "KV078"
    headline: ClassVar[str] = "`{name}` stands twice in {where}"
    span: Span
    name: str
    where: str


@dataclass(frozen=True)
class ConfigNotRead(Message):
    code: ClassVar[str] = "KV079"
    headline: ClassVar[str] = "cannot read the config `{path}`: {reason}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    path: str
    reason: str
    way_out: str | None = "`kvdsl import hf` tells which keys were used, and why others were not"
