"""Pages of codes below KV100 that say more than a sentence: what goes wrong, why it is refused, an
example and what to write instead.

Comes in: nothing. Goes out: `PAGES`, by code. A test compiles both specs of each. Not its job: the
sentence itself, which stands with the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_SERVED = """\
deployment served {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   { tp = 2; replicas = 4 }
  workload { context = 8 ktok; concurrency = 16 req }
}"""

_POOLS = """\
deployment apart {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  layout   { tp = 8 }
  workload { prompt = 4 ktok; output = 500 tok; concurrency = 16 req }
  transfer { over = links.infiniband_ndr }
  pool prefill { on = hall.nodes[0] }
  pool decode  { on = hall.nodes[1] }
}"""

_HALL = "cluster hall { nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }"

_TWICE_PREFILLED = _POOLS.replace("pool decode  {", "pool second { role = prefill;")


@dataclass(frozen=True, slots=True)
class CodePage:
    """What a rule's documentation says in its sections. `better` is a whole spec, as `example` is,
    both without their first line."""

    checks: str
    why: str
    example: str
    instead: str
    better: str


def _specs(*parts: str) -> str:
    return "\n\n".join(parts)


PAGES: Mapping[str, CodePage] = MappingProxyType(
    {
        "KV021": CodePage(
            "The path of an `import` is relative, ends in `.kvspec` and leads to a file inside "
            "the repository; and the name that it goes by, the file's stem unless `as` gives one, "
            "is a name of the language.",
            "A plan is its text: a file outside the repository is another one on another machine. "
            "And what an import brings is written `NAME.thing`, so that it needs a name.",
            'import "h-20.kvspec"',
            "A relative path inside the repository, with a name where the stem is none.",
            'import "h-20.kvspec" as h20',
        ),
        "KV060": CodePage(
            "`replicas` stands in the layout or in the deployment or pool, not in both.",
            "Whole copies are a property of how devices are cut, or of how many such cuts are "
            "bought; a reader cannot tell whether 4 and 2 are 4, 2 or 8 copies.",
            _specs(_SERVED, "deployment twice extends served { replicas = 2 }"),
            "The number of copies in one place; a child that wants more replaces the layout.",
            _specs(_SERVED, "deployment once extends served { layout = { tp = 4; replicas = 2 } }"),
        ),
        "KV061": CodePage(
            "A workload gives `prompt` and `output`, or `context` instead of both.",
            "`context` says that every request holds so many tokens all the time; `prompt` and "
            "`output` say how it grows to them. Both together would be two lengths of one "
            "request.",
            "workload chat { context = 8 ktok; prompt = 4 ktok; concurrency = 16 req }",
            "One of the two. A child drops what it inherits: `drop context`.",
            "workload chat { prompt = 4 ktok; output = 4 ktok; concurrency = 16 req }",
        ),
        "KV062": CodePage(
            "A workload, and each class without lengths around it, says how long requests are.",
            "Capacity in requests, the cache that a step reads and the first token all follow "
            "from lengths. There is no usual length to stand in for them.",
            "workload chat { prompt = 4 ktok; concurrency = 16 req }",
            "Both lengths, or `context` for requests that hold so many.",
            "workload chat { prompt = 4 ktok; output = 500 tok; concurrency = 16 req }",
        ),
        "KV063": CodePage(
            "A workload says how many requests are in flight, or how many arrive.",
            "Times, throughput and the price of a token are those of a load.",
            "workload chat { prompt = 4 ktok; output = 500 tok }",
            "`concurrency`, or `rate`, which gives the number in flight too.",
            "workload chat { prompt = 4 ktok; output = 500 tok; rate = 2 req/s }",
        ),
        "KV064": CodePage(
            "Shares of classes, and of pools that do the same, add up to 100 %.",
            "What is missing would be requests that nobody serves, what is too much requests "
            "served twice, and every mean over classes would be off by as much.",
            """\
workload mixed {
  concurrency = 64 req
  class short { share = 60 %; context = 2 ktok }
  class long  { share = 30 %; context = 64 ktok }
}""",
            "Shares of all requests.",
            """\
workload mixed {
  concurrency = 64 req
  class short { share = 60 %; context = 2 ktok }
  class long  { share = 40 %; context = 64 ktok }
}""",
        ),
        "KV065": CodePage(
            "A deployment, or each of its pools, says `model`, `layout`, `workload`, `on`, "
            "`weights` and `kv`.",
            "None of them has a default that would be right for the next reader: a format left "
            "out would be half or twice the bytes.",
            """\
deployment served {
  model  = models.llama_3_1_8b
  on     = 1 x nodes.hgx_h100
  layout { tp = 8 }
}""",
            "All six, in the deployment, its parent or each pool. What is only to be extended "
            "says `abstract = true`.",
            """\
deployment served {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   { tp = 8 }
  workload { context = 8 ktok; concurrency = 16 req }
}""",
        ),
        "KV066": CodePage(
            "Of a deployment with pools, some pool prefills and some pool decodes.",
            "A request needs both: without a pool for one of them there is no first token, or no "
            "further one, and no figure of the deployment means anything.",
            _specs(_HALL, _TWICE_PREFILLED),
            "A pool for each phase, by its name or its `role`; or one pool with `role = both`.",
            _specs(_HALL, _POOLS),
        ),
        "KV070": CodePage(
            "A sweep holds attributes with lists of values, each of which has some, and no more "
            "than 100,000 combinations of them.",
            "Every combination is a plan of its own. A sweep over nothing would be the plan "
            "itself, and an axis without values no plan at all.",
            _specs(_SERVED, "deployment swept extends served { sweep { show = [kv.tokens] } }"),
            "What to go through, and what to show of it.",
            _specs(
                _SERVED,
                """\
deployment swept extends served {
  sweep { workload.context = [8 ktok, 32 ktok]; show = [kv.tokens] }
}""",
            ),
        ),
        "KV071": CodePage(
            "A search says what to try, `axes`, and one aim: `minimize` or `maximize` a value.",
            "Layouts that meet the requirements are many; without an aim none of them is the best.",
            _specs(_SERVED, "deployment found extends served { search { axes = [tp] } }"),
            "Axes of a layout, and one value.",
            _specs(
                _SERVED,
                """\
deployment found extends served {
  search { axes = [tp]; minimize = decode.tpot }
}""",
            ),
        ),
        "KV074": CodePage(
            "A draft with a model of its own names it; one in the manner of EAGLE says its layers.",
            "A draft's weights and cache take room on the same devices, and its passes time.",
            _specs(
                _SERVED,
                """\
deployment drafted extends served {
  draft { method = model; tokens = 3 }
}""",
            ),
            "What the method needs.",
            _specs(
                _SERVED,
                """\
deployment drafted extends served {
  draft { method = model; model = models.llama_3_2_1b; tokens = 3 }
}""",
            ),
        ),
        "KV078": CodePage(
            "A fleet names each deployment once, and a list of words each word once.",
            "The sums of a fleet would count one deployment's devices twice. Two copies of it are "
            "`replicas`, or two deployments on devices of their own.",
            _specs(_SERVED, "fleet all { deployments = [served, served] }"),
            "Each once.",
            _specs(_SERVED, "fleet all { deployments = [served] }"),
        ),
    }
)
