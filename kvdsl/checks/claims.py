"""Rules that are judged on the finished plan: claims, requirements, waivers. Their functions stand
in `requirements`, on a floor that sees the plan; here is what they are called and say."""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.checks.study import Fact
from kvdsl.diagnostics import Severity
from kvdsl.rules import Rule, rule


@rule(
    "KV146",
    "wrong-claim",
    Severity.ERROR,
    "plan",
    "the claim does not follow from the plan: {name} is {value}, not {bound}",
    label="{claimed} claimed, {value} derived",
    notes=("{fit}", "{also}", "{terms}"),
    helps=("write {value_exact}, or change what the plan says",),
)
def wrong_claim() -> Iterator[Fact]:
    """A claimed figure that the plan does not give.

    What it checks
        A `require` with `==` or `within` holds. If not, known wrong derivations are tried: the
        capacity floored once over all ranks, the ranks of a replica added up, the latent without
        its rope key, GiB read for GB, the cache divided by TP past its heads, and the figures of
        the compared layouts.

    Why it matters
        A wrong figure that has a name is understood at once.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
          require kv.copies == 2 as copies
        }

    Instead
        The figure that the plan gives, or the plan that gives the figure.

        deployment better extends served { require kv.copies == 1 as copies }
    """
    yield from ()


@rule(
    "KV910",
    "failed-requirement",
    Severity.ERROR,
    "plan",
    "{name} is {value}, and {text} is required",
    label="{margin}",
    notes=("{terms}", "because {because}"),
)
def failed_requirement() -> Iterator[Fact]:
    """A requirement that the plan does not meet.

    What it checks
        Every `require` of the deployment.

    Why it matters
        A requirement is what the plan was agreed on. It fails the check.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
          require kv.tokens >= 100 Mtok as room
        }

    Instead
        Change the plan, or the requirement.

        deployment better extends served { require kv.tokens >= 1 Mtok as room }
    """
    yield from ()


@rule(
    "KV911",
    "failed-expectation",
    Severity.WARNING,
    "plan",
    "{name} is {value}, and {text} is expected",
    label="{margin}",
    notes=("{terms}", "because {because}"),
)
def failed_expectation() -> Iterator[Fact]:
    """An expectation that the plan does not meet.

    What it checks
        Every `expect` of the deployment.

    Why it matters
        It warns, and does not fail the check.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
          expect kv.tokens >= 100 Mtok as room
        }

    Instead
        Change the plan, or the expectation.

        deployment better extends served { expect kv.tokens >= 1 Mtok as room }
    """
    yield from ()


@rule(
    "KV912",
    "unanswered-requirement",
    Severity.ERROR,
    "plan",
    "{names} is not answered by this plan, so {text} was not judged",
    label="{why}",
    notes=("{reason}",),
    also=(Severity.WARNING,),
)
def unanswered_requirement() -> Iterator[Fact]:
    """A requirement on a value that the plan does not have.

    What it checks
        Every value that a `require` asks is answered; of an `expect` it is a warning.

    Why it matters
        A cost without a price, or a transfer without pools, cannot be judged; silence would look
        like success.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
          require transfer.time <= 100 ms as handover
        }

    Instead
        Give what the value needs (here: pools and a `transfer`), or ask for something else.

        deployment better extends served {
          require decode.tpot <= 100 ms as handover
        }
    """
    yield from ()


@rule(
    "KV901",
    "unused-allow",
    Severity.WARNING,
    "plan",
    "`allow {code}` silences nothing",
    label="{why}",
    helps=("remove the line",),
)
def unused_allow() -> Iterator[Fact]:
    """A waiver that waives nothing.

    What it checks
        Every `allow` silences a finding of its deployment.

    Why it matters
        A waiver that outlives its reason hides the next fault of its kind.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
          allow KV101 because "we will grow into it"
        }

    Instead
        Remove the `allow`.
    """
    yield from ()


@rule(
    "KV902",
    "unknown-allow",
    Severity.ERROR,
    "plan",
    "no rule has the code `{code}`",
    label="not a rule that can be allowed",
    helps=("write `{instead}`", "known nearby: {near}", "{lists}"),
)
def unknown_allow() -> Iterator[Fact]:
    """A waiver names a rule that can be waived.

    What it checks
        The code behind `allow` is a planning rule.

    Why it matters
        A misspelt code silences nothing.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
          allow KV199 because "typo"
        }

    Instead
        Write a code that `kvdsl rule` lists: allow KV101 because "…"
    """
    yield from ()


@rule(
    "KV212",
    "not-costed",
    Severity.INFO,
    "plan",
    "{what} does not enter the figures of this version",
    label="read and resolved, not costed",
)
def not_costed() -> Iterator[Fact]:
    """A part of the deployment that this version reads but does not cost.

    What it checks
        `draft`, `limits` and `search`.

    Why it matters
        A figure that leaves something out has to say so.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
          limits   { sequences = 256 req }
        }

    Instead
        Nothing: this is information.
    """
    yield from ()


@rule(
    "KV214",
    "no-output",
    Severity.INFO,
    "plan",
    "no request has output, so that nothing is decoded: the plan has no `decode.` value",
    label="no token is decoded",
    helps=("write `output = 512 tok`, or as many tokens as requests get",),
)
def no_output() -> Iterator[Fact]:
    """A workload without output has prompts alone, and no decode step.

    What it checks
        Some class of requests has `output` above 0, or a `context`.

    Why it matters
        A time of a token, an output throughput or a price of output would be figures of steps that
        no request takes.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 0 tok; concurrency = 8 req }
        }

    Instead
        Nothing: this is information.
    """
    yield from ()


@rule(
    "KV208",
    "shared-devices",
    Severity.ERROR,
    "plan",
    "pools {first} and {second} stand on the same devices of {title}",
    label="in both: {count:devices}",
    helps=(
        "give each pool its own: `on = {title}.{level}[0..1]` and `on = {title}.{level}[2..3]`",
    ),
)
def shared_devices() -> Iterator[Fact]:
    """Pools of a deployment stand on devices of their own.

    What it checks
        No device of a named cluster, or of the parts of one node, is in the `on` of two pools.
        `1 x box` in two pools are two boxes.

    Why it matters
        Both pools would count its whole memory.

    Example
        cluster hall { nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 200 tok; rate = 1 req/s }
          pool prefill { on = hall; layout { tp = 8; replicas = 2 } }
          pool decode  { on = hall.nodes[1]; layout { tp = 8 } }
          transfer { over = links.infiniband_ndr }
        }

    Instead
        A part of the cluster for each.

        deployment better extends served {
          pool prefill { on = hall.nodes[0]; layout = { tp = 8 } }
        }
    """
    yield from ()


RULES: tuple[Rule, ...] = (
    shared_devices,
    not_costed,
    no_output,
    wrong_claim,
    failed_requirement,
    failed_expectation,
    unanswered_requirement,
    unused_allow,
    unknown_allow,
)
