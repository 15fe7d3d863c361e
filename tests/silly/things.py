"""Silly models and silly hardware."""

from __future__ import annotations

from tests.silly.case import (
    HARDWARE as SOUND,
)
from tests.silly.case import (
    HEADS,
    KV,
    MLA,
    MODEL,
    MOE,
    Case,
    caches,
    figure,
    figures,
    fits,
    head,
    keeps,
    stacked,
)

ONES = """\
hidden = 1
  vocab = 1
  attention a = gqa { query_heads = 1; kv_heads = 1; head_dim = 1 }
  ffn f = plain { intermediate = 1 }
  stack { layer { a; f } }"""
UNUSED = "\n  attention b = gqa { query_heads = 1; kv_heads = 1; head_dim = 1 }"
TOWER = "\n  tower eyes { parameters = 1000; format = formats.bf16; placement = copy }"
MAMBA = "attention s = mamba2 { heads = 16; head_dim = 64; groups = 1; state = 128; conv = 4 }"
INDEXER = "value_dim = 64; indexer { heads = 4; key_dim = 32; top = 64 tok }"

SIZES: dict[str, Case] = {
    "the sound one": Case(lambda p: caches(KV)(p) and fits(p)),
    "one layer": Case(caches(KV / 8), edits={"8 x layer": "1 x layer"}),
    "hidden of 1": Case(fits, edits={"hidden = 1024": "hidden = 1"}),
    "hidden of a billion": Case(figures, edits={"hidden = 1024": "hidden = 1_000_000_000"}),
    "a vocabulary of 1": Case(fits, layout="tp = 1", edits={"32_000": "1"}),
    "a vocabulary smaller than tp": Case(figures, edits={"32_000": "3"}),
    "everything is 1": Case(caches(4), model=ONES, layout="tp = 1"),
    "more KV heads than query heads": Case(
        words="KV heads", edits={"kv_heads = 4": "kv_heads = 32"}
    ),
    "KV heads that do not divide query heads": Case(
        words="KV heads", edits={"kv_heads = 4": "kv_heads = 3"}
    ),
    "more experts active than there are": Case(
        words="9 of 8 experts", model=MOE, edits={"active = 2": "active = 9"}
    ),
    "every expert active": Case(
        # An embedding is looked up, not multiplied: it is not active.
        lambda p: (
            figure(p, "model.parameters") - figure(p, "model.active_parameters") == 1024 * 32_000
        ),
        model=MOE,
        edits={"active = 2": "active = 8"},
    ),
    "one expert": Case(
        fits, model=MOE, edits={"experts = 8; active = 2": "experts = 1; active = 1"}
    ),
    "10^12 experts that do not divide": Case(
        words="divide",
        model=MOE,
        layout="tp = 3; experts { ep = 3 }",
        edits={
            "experts = 8": "experts = 1_000_000_000_000",
            "16; kv_heads = 4": "12; kv_heads = 3",
        },
    ),
    "10^12 query heads, too large to fit": Case(
        words="no room", edits={"16; kv_heads = 4": "1_000_000_000_000; kv_heads = 4"}
    ),
    "tied embeddings over stages": Case(
        fits, layout="tp = 2; pp = 2", model=f"tied_embeddings = true\n  {MODEL}"
    ),
    "a tower": Case(figures, model=MODEL + TOWER),
    "an attention that nothing stacks": Case(model=MODEL + UNUSED),
    "a draft head": Case(figures, model=MODEL + "\n  mtp { layer { a; f } }"),
}

ATTENTION: dict[str, Case] = {
    "a window": Case(keeps(KV * 100), edits=head("window = 100 tok")),
    "a window wider than the context": Case(keeps(KV * 8000), edits=head("window = 1 Gtok")),
    "a window of 1": Case(keeps(KV), edits=head("window = 1 tok")),
    "a chunk": Case(figures, edits=head("chunk = 100 tok")),
    "cross attention": Case(figures, edits=head("cross = 1500 tok")),
    "no value in the cache": Case(caches(KV / 2), edits=head("value = same")),
    "a shared cache": Case(
        caches(KV),
        model=stacked("attention s = shared { of = a; query_heads = 16 }", "4 x layer { s; f }"),
    ),
    "an indexer": Case(figures, model=MLA, edits={"value_dim = 64": INDEXER}),
    "a compressed cache": Case(
        figures, edits=head("window = 64 tok; compress { every = 4 tok; width = 64 }")
    ),
    "a state alone": Case(edits={HEADS: "lightning { heads = 16; head_dim = 64 }"}),
    "a state beside a cache": Case(model=stacked(MAMBA, "4 x layer { s; f }")),
}


def shaped(shape: str) -> dict[str, str]:
    return {"shape = switch": f"shape = {shape}"}


HARDWARE: dict[str, Case] = {
    "a device without a figure of compute": Case(
        figures, edits={" compute { bf16 = 400 TFLOP/s }": ""}
    ),
    "a link without latency": Case(figures, edits={"; latency = 3 us": ""}),
    "a link of 1 B/s": Case(figures, edits={"100 GB/s": "1 B/s"}),
    "a device of 1 B/s": Case(
        lambda p: figure(p, "decode.tpot") > 10**6, edits={"2 TB/s": "1 B/s"}
    ),
    "an efficiency of 1 %": Case(
        figures, edits={"latency = 3 us": "latency = 3 us; efficiency = 1 %"}
    ),
    "a device of 1 B": Case(lambda p: figure(p, "kv.tokens") == 0, edits={"80 GB": "1 B"}),
    "a device of 1 EB": Case(fits, edits={"80 GB": "1000 PB"}),
    "no link in the node": Case(
        figures, edits={" scale_up { link = wire; shape = switch }": ""}
    ),
    "mixed devices in a node": Case(
        figures, layout="tp = 8", edits={"8 x gpu": "[4 x gpu, 4 x devices.h100_sxm]"}
    ),
    "racks in a cluster": Case(
        fits, edits={"hall { nodes = 4 x box": "hall { racks = 3 x rack_of_two"},
        hardware=SOUND + "rack rack_of_two { nodes = 2 x box }\n",
    ),
    "a cluster of clusters": Case(
        fits,
        hardware=SOUND + "cluster site { clusters = 3 x hall; fabric = wire }\n",
        on="site",
        layout="tp = 8; pp = 4; replicas = 3",
    ),
    "a hall of 10^11 nodes, all in use": Case(
        lambda p: figure(p, "gpus") == 8 * 10**11,
        layout="tp = 4; replicas = 200_000_000_000",
        edits={"nodes = 4 x": "nodes = 100_000_000_000 x"},
    ),
    "a few devices of a hall of 10^11 nodes": Case(
        figures, on="hall.nodes[0..1]", edits={"nodes = 4 x": "nodes = 100_000_000_000 x"}
    ),
    "picked devices": Case(figures, on="hall.devices[0, 9, 17, 31]"),
    "one device": Case(fits, on="1 x gpu", layout="tp = 1"),
    "tp over pairs": Case(figures, layout="tp = 8", edits=shaped("pairs; size = 2")),
    "tp over a mesh": Case(figures, layout="tp = 8", edits=shaped("mesh")),
    "tp over a ring": Case(figures, layout="tp = 8", edits=shaped("ring")),
    "tp over a torus": Case(figures, layout="tp = 8", edits=shaped("torus; dims = [2, 2, 2]")),
    "tp over a bus": Case(
        figures,
        layout="tp = 8",
        edits=shaped("bus }; host { memory = 1 TB; bandwidth = 100 GB/s; link = wire"),
    ),
}  # fmt: skip
