"""Rules that a policy and the day of a check bring: their functions stand in `planning`, on a floor
that sees both; here is what they are called and say."""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.checks.study import Fact
from kvdsl.diagnostics import Severity
from kvdsl.rules import Rule, rule


@rule(
    "KV913",
    "failed-policy",
    Severity.ERROR,
    "plan",
    "{subject}, and policy `{policy}` wants {text} ({place})",
    also=(Severity.WARNING,),
    label="{margin}",
    notes=("{terms}", "because {because}"),
    helps=("no `allow` waives a policy: change the plan, or the policy",),
)
def failed_policy() -> Iterator[Fact]:
    """A policy that a deployment does not meet.

    What it checks
        Every `require` and `expect` of the policies that a check is given: `--policy org.kvspec`.

    Why it matters
        A policy is what a team agreed on for all that it runs. A failed `require` fails the check,
        a failed `expect` warns. What a plan does not answer is not met.

    Example
        policy org {
          require memory.reserve >= 4 GB because "our graphs take so much"
        }
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        A deployment that meets the policy.

        deployment better extends served { budget = { reserve = 5 GB } }
    """
    yield from ()


@rule(
    "KV903",
    "expired-allow",
    Severity.WARNING,
    "plan",
    "`allow {code}` held until {until}, and today is {today}",
    label="it silences nothing any more",
    helps=("mend what it silenced, or agree on another day",),
)
def expired_allow() -> Iterator[Fact]:
    """A waiver whose day is past.

    What it checks
        No `allow … until` is older than the day that the check is given: `--today 2027-02-01`.
        Without a day none is past.

    Why it matters
        A waiver with a day was a promise to mend something by then. From the next day on its
        finding is told again.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          workload { context = 8 ktok; concurrency = 8 req }
          allow KV143 because "measured next week" until "2026-01-31"
        }

    Instead
        The reserve, or another day.
    """
    yield from ()


RULES: tuple[Rule, ...] = (failed_policy, expired_allow)
