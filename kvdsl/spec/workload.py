"""Workloads: how long requests are and how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.slots import (
    PositiveTokens,
    RequestRate,
    Requests,
    Seconds,
    Share,
    Special,
    Tokens,
)


class RequestClass(Block):
    name: str = ""
    share: Share = Field(description="of requests")
    prompt: PositiveTokens | None = Field(default=None, description="of its requests")
    output: Tokens | None = Field(default=None, description="of its requests")
    context: PositiveTokens | None = Field(default=None, description="instead of both")


class Workload(Declaration):
    prompt: PositiveTokens | None = Field(default=None, description="of a request")
    output: Tokens | None = Field(default=None, description="of a request")
    context: PositiveTokens | None = Field(
        default=None, description="instead of both: every request holds so many, all of it prompt"
    )
    concurrency: Requests | None = Field(default=None, description="in flight, in all")
    rate: RequestRate | None = Field(default=None, description="arriving, in all")
    prefix_hits: Share = Field(
        default=0, description="of prompt tokens, found in a cache; never a prompt's last"
    )
    prefix_common: Tokens = Field(default=0, description="a prefix of all, stored once a rank")
    reuse: Seconds | None = Field(
        default=None, description="for how long after its last use a prefix is asked again"
    )
    classes: Annotated[dict[str, RequestClass], Special()] = Field(
        default_factory=dict, description="a share of the requests, with lengths of its own"
    )

    @property
    def held(self) -> int:
        """Tokens that a request holds at its end: what capacity counts."""
        if self.context is not None:
            return self.context
        return sum(tokens for tokens in (self.prompt, self.output) if tokens is not None)

    @property
    def longest(self) -> int:
        """Tokens of the longest request at its end, of all classes."""
        ends = (c.context or (c.prompt or 0) + (c.output or 0) for c in self.classes.values())
        return max(ends, default=self.held)

    @property
    def generates(self) -> bool:
        """Whether any request has output; with `context` a step at that length is asked."""
        if self.classes:
            return any(c.context is not None or c.output for c in self.classes.values())
        return self.context is not None or bool(self.output)

    def in_flight(self) -> Iterator[tuple[Fraction, RequestClass]]:
        """Classes with their share of the requests in flight: each stays as long as its output
        takes, so that of arrivals in equal shares long outputs are most of those present. Without
        outputs, or with contexts, the share is as it is said."""
        classes = tuple(self.classes.values())
        stay = [1 if kind.context is not None else kind.output or 0 for kind in classes]
        if any(kind.context is not None for kind in classes) or not any(stay):
            stay = [1] * len(classes)
        weights = [Fraction(kind.share) * time for kind, time in zip(classes, stay, strict=True)]
        for weight, kind in zip(weights, classes, strict=True):
            yield weight / sum(weights), kind

    @property
    def prompt_tokens(self) -> int:
        if self.context is not None:
            return self.context
        return 0 if self.prompt is None else self.prompt

    @property
    def output_tokens(self) -> int:
        return 0 if self.output is None else self.output
