"""Every figure of the hardware facts, and what the catalog says of it.

`data/hardware.json` holds figures with the key of their source; what no source gives is null. A
figure stands in the catalog as it does there, and one that is null there is absent here, but for
those of `ELSEWHERE`, which have a source of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from kvdsl.placement.joins import domains, links_taken
from kvdsl.placement.topology import topology
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.declaration import Declaration
from kvdsl.spec.hardware import Device, Link, ManyLinks, Node, Rack, Selection, Tier
from tests.known.published import HERE

Facts = dict[str, Any]

PRINTED = {206150400000.00003: Fraction(192 * 2**30)}
"""NeuronLink-v2 is printed as 192 GiB/s, which the facts round."""

DATA: Facts = json.loads((HERE / "data" / "hardware.json").read_text("utf-8"))
CATALOG = Catalog()

DEVICES = {
    "V100-SXM2-16GB": "v100_sxm_16gb",
    "V100-SXM2-32GB": "v100_sxm_32gb",
    "V100-PCIe-16GB": "v100_pcie_16gb",
    "A100-SXM4-40GB": "a100_sxm_40gb",
    "A100-SXM4-80GB": "a100_sxm_80gb",
    "A100-PCIe-40GB": "a100_pcie_40gb",
    "A100-PCIe-80GB": "a100_pcie_80gb",
    "A30": "a30",
    "A10": "a10",
    "A10G": "a10g",
    "L4": "l4",
    "L40S": "l40s",
    "RTX 3090": "rtx_3090",
    "RTX 4090": "rtx_4090",
    "RTX 5090": "rtx_5090",
    "RTX A6000": "rtx_a6000",
    "RTX 6000 Ada": "rtx_6000_ada",
    "RTX PRO 6000 Blackwell Server": "rtx_pro_6000_blackwell_server",
    "H20-96GB": "h20_96gb",
    "H20-3e-141GB": "h20_3e",
    "H800-SXM": "h800_sxm",
    "H100-SXM-80GB": "h100_sxm",
    "H100-PCIe-80GB": "h100_pcie",
    "H100-NVL-94GB": "h100_nvl",
    "H200-SXM-141GB": "h200_sxm",
    "H200-NVL-141GB": "h200_nvl",
    "GH200-96GB": "gh200_96gb",
    "GH200-141GB": "gh200_141gb",
    "B200-SXM-180GB": "b200_sxm",
    "B300-SXM-288GB": "b300_sxm",
    "GB200": "gb200",
    "GB300": "gb300",
    "Rubin (VR200)": "rubin_vr200",
    "MI210": "mi210",
    "MI250X": "mi250x",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "MI350X": "mi350x",
    "MI355X": "mi355x",
    "Gaudi2": "gaudi2",
    "Gaudi3": "gaudi3",
    "Arc Pro B60": "arc_pro_b60",
    "TPU v5e": "tpu_v5e",
    "TPU v5p": "tpu_v5p",
    "TPU v6e": "tpu_v6e",
    "TPU7x": "tpu7x",
    "Inferentia2": "inferentia2",
    "Trainium2": "trainium2",
    "Trainium3": "trainium3",
}

NODES = {
    "HGX A100 8-GPU": "nodes.hgx_a100_80gb",
    "DGX H100": "nodes.dgx_h100",
    "DGX H200": "nodes.dgx_h200",
    "DGX B200": "nodes.dgx_b200",
    "DGX B300": "nodes.dgx_b300",
    "Nebius H200": "nodes.nebius_h200",
    "DGX GB200 NVL72": "racks.gb200_nvl72",
    "GB300 NVL72": "racks.gb300_nvl72",
    "MI300X OAM x8": "nodes.oam_mi300x",
    "MI325X OAM x8": "nodes.oam_mi325x",
    "MI350X/MI355X OAM x8": "nodes.oam_mi355x",
    "AWS p4d.24xlarge": "nodes.aws_p4d_24xlarge",
    "AWS p4de.24xlarge": "nodes.aws_p4de_24xlarge",
    "AWS p5.48xlarge": "nodes.aws_p5_48xlarge",
    "AWS p5en.48xlarge": "nodes.aws_p5en_48xlarge",
    "AWS p6-b200.48xlarge": "nodes.aws_p6_b200_48xlarge",
    "AWS p6-b300.48xlarge": "nodes.aws_p6_b300_48xlarge",
    "AWS p6e-gb200": "racks.aws_p6e_gb200",
    "AWS trn2.48xlarge": "nodes.aws_trn2_48xlarge",
    "GCP a3-highgpu-8g": "nodes.gcp_a3_highgpu_8g",
    "GCP a3-megagpu-8g": "nodes.gcp_a3_megagpu_8g",
    "GCP a3-ultragpu-8g": "nodes.gcp_a3_ultragpu_8g",
    "GCP a4-highgpu-8g": "nodes.gcp_a4_highgpu_8g",
    "Azure ND96isr_H100_v5": "nodes.azure_nd96isr_h100_v5",
    "Azure ND96isr_H200_v5": "nodes.azure_nd96isr_h200_v5",
    "Azure ND96isr_MI300X_v5": "nodes.azure_nd96isr_mi300x_v5",
    "Azure ND128isr_NDR_GB200_v6": "nodes.azure_nd128isr_ndr_gb200_v6",
    "Azure ND128isr_GB300": "nodes.azure_nd128isr_gb300",
}
COUNTED_TOGETHER = ("DGX H200", "DGX B200")
"""Machines whose NICs for storage are in the count."""

LINKS = {
    "PCIe 4.0 x16": ("pcie_4_x16", "bandwidth"),
    "PCIe 5.0 x16": ("pcie_5_x16", "bandwidth"),
    "PCIe 6.0 x16": ("pcie_6_x16", "bandwidth"),
    "PCIe 5.0 x16 achieved (H200)": ("pcie_5_x16", "achieved"),
    "NVLink-C2C": ("nvlink_c2c", "bandwidth"),
    "NVLink-C2C (Vera-Rubin)": ("nvlink_c2c_vera_rubin", "bandwidth"),
    "InfiniBand HDR": ("infiniband_hdr", "bandwidth"),
    "InfiniBand EDR": ("infiniband_edr", "bandwidth"),
    "InfiniBand NDR": ("infiniband_ndr", "bandwidth"),
    "InfiniBand XDR": ("infiniband_xdr", "bandwidth"),
    "ConnectX-7": ("connectx_7", "bandwidth"),
    "ConnectX-8": ("connectx_8", "bandwidth"),
    "ConnectX-9": ("connectx_9", "bandwidth"),
}

TIERS = {
    "local DDR5": "ddr5",
    "host DRAM as RDMA target, p5en": "ddr5",
    "host DRAM as RDMA target, p6-b300": "ddr5_p6_b300",
    "host DRAM as RDMA target, p5 (DDR4-3200)": "ddr4_3200",
    "CXL 2.0 memory (x8/x16 on PCIe5 signalling, 32 GT/s)": "cxl_2",
    "CXL 3.0 memory (PCIe6 signalling, 64 GT/s)": "cxl_3",
    "Optane PMem (historic)": "optane_pmem",
    "NVMe Gen4 (PM1733)": "nvme_gen4",
    "NVMe Gen4 (PM9A3)": "nvme_gen4_pm9a3",
    "NVMe Gen5 (PM1743)": "nvme_gen5",
    "NVMe Gen3 (PM983)": "nvme_gen3",
    "RDMA KV pool, 4x200 RoCE": "rdma_pool_4x200",
    "RDMA KV pool, 8x400 RoCE": "rdma_pool_8x400",
}

ELSEWHERE = {
    ("h800_sxm", "bandwidth"),
    ("h800_sxm", "compute"),
    ("h20_3e", "bandwidth"),
    ("h20_3e", "compute"),
    ("rtx_3090", "bandwidth"),
    ("rtx_3090", "power"),
    ("rtx_6000_ada", "bandwidth"),
    ("rtx_6000_ada", "power"),
}
"""Figures that the facts lack and the catalog has from a source that it names."""


@cache
def resolver() -> Resolver:
    return Resolver(load_text("kvspec 1\n", catalog=CATALOG))


@cache
def entry(name: str) -> Declaration:
    found, problems = resolver().declaration(name)
    assert found is not None, problems
    assert not problems
    return found


def device(name: str) -> Device:
    found = entry(f"devices.{DEVICES[name]}")
    assert isinstance(found, Device)
    return found


def figure(fact: Facts | None) -> Fraction | None:
    """The value of a fact, exact, or None where none was found."""
    return None if fact is None else exact(fact["value"])


def exact(value: float) -> Fraction:
    """As it was printed: floats are read by their digits."""
    return PRINTED.get(value, Fraction(str(value)))


def carried(links: tuple[ManyLinks, ...]) -> Fraction | None:
    return Fraction(sum(many.count * many.of.bandwidth for many in links)) if links else None


Named = list[Facts]
ACCELERATORS: Named = DATA["accelerators"]
MACHINES: Named = DATA["nodes"]


def sizes(known: Device, fact: Facts) -> Iterator[tuple[str, object, object]]:
    """What the catalog has and what the facts have, by attribute."""
    pcie, scale_up = fact["pcie"] or {}, fact["scale_up"]
    yield "memory", known.memory, figure(fact["memory_marketing_bytes"])
    yield "reported", known.reported, figure(fact["memory_reported_bytes"])
    yield "bandwidth", known.bandwidth, figure(fact["memory_bandwidth_bytes_s"])
    yield "l2", known.l2, figure(fact["l2_bytes"])
    yield "power", known.power, figure(fact["tdp_watts"])
    yield "matmul", known.matmul, figure(fact["achievable_matmul_flops"])
    yield "peer_copy", known.peer_copy, figure(fact["achieved_p2p_bytes_s"])
    yield "capability", known.capability, (fact["compute_capability"] or {}).get("value")
    yield "domain", known.domain, scale_up["domain_size"]
    if figure(pcie.get("unidirectional_bytes_s")) is not None:
        assert known.pcie is not None
        yield "pcie", known.pcie.bandwidth, figure(pcie["unidirectional_bytes_s"])
        assert known.pcie.name.startswith(f"pcie_{pcie['gen']}_")
    fast = figure(scale_up["unidirectional_bytes_s_per_gpu"])
    if scale_up["topology"] == "pcie" and fast is not None:
        assert known.pcie is not None
        yield "pcie", fast in (known.pcie.bandwidth, known.pcie.achieved), True
    elif [many.of.achieved for many in known.ports] == [fast]:
        # The document has what was reached; the catalog has what is sold beside it.
        assert known.ports[0].of.bandwidth > (fast or 0)
    else:
        yield "ports", carried(known.ports), fast
    for word, peak in fact["flops_dense"].items():
        yield "compute", known.compute.get(word), figure(peak)


@pytest.mark.parametrize("fact", ACCELERATORS, ids=lambda fact: DEVICES[fact["name"]])
def test_every_figure_of_an_accelerator_stands_in_the_catalog(fact: Facts) -> None:
    name, known = DEVICES[fact["name"]], device(fact["name"])
    for attribute, has, should in sizes(known, fact):
        if should is None and (name, attribute) in ELSEWHERE:
            at = known.origins[attribute]
            assert at.source or attribute == "compute", attribute
        else:
            assert has == should, attribute
    if known.compute:
        for word in ("fp8", "fp4"):
            native = fact[f"native_{word}"]
            assert native is None or (word in known.compute) is native


@pytest.mark.parametrize("fact", ACCELERATORS, ids=lambda fact: DEVICES[fact["name"]])
def test_every_figure_names_its_source(fact: Facts) -> None:
    known = device(fact["name"])
    assert known.source
    for attribute in ("memory", "bandwidth"):
        assert known.origins[attribute].source or known.source


def test_every_device_of_the_catalog_is_compared() -> None:
    assert set(DEVICES.values()) == set(CATALOG.names("devices"))
    assert set(DEVICES) == {fact["name"] for fact in ACCELERATORS}
    assert set(NODES) == {fact["name"] for fact in MACHINES}


def test_every_device_but_those_without_a_sheet_says_its_generation() -> None:
    assert [name for name in DEVICES if device(name).generation is None] == []


def machine(name: str) -> tuple[int, Node]:
    """The node of a machine, and how many devices are joined in it or in its rack."""
    found = entry(NODES[name])
    if isinstance(found, Rack):
        (many,) = found.nodes
        (held,) = many.of.devices
        return many.count * held.count, many.of
    assert isinstance(found, Node)
    (held,) = found.devices
    return held.count, found


@pytest.mark.parametrize("fact", MACHINES, ids=lambda fact: NODES[fact["name"]])
def test_every_figure_of_a_machine_stands_in_the_catalog(fact: Facts) -> None:
    joined, node = machine(fact["name"])
    assert joined == fact["accelerators"]
    assert node.devices[0].of.name == DEVICES[fact["accelerator"]]
    nics = node.nics
    if fact["name"] in COUNTED_TOGETHER:
        nics += node.storage_nics
    if fact["scale_out_nics"] is None:
        assert nics == ()
    else:
        assert sum(many.count for many in nics) == fact["scale_out_nics"]["count"]
        rates = {many.of.bandwidth * 8 for many in nics}
        assert rates == {fact["scale_out_nics"]["gbit_s_each"] * 10**9}
    memory = node.host.memory if node.host is not None else None
    assert memory == figure(fact["host_memory_bytes"])
    assert node.storage == figure(fact["local_nvme"])
    cpu = node.host.cpu if node.host is not None else None
    assert cpu == (fact["cpu"] and fact["cpu"].removesuffix(" per tray"))


@pytest.mark.parametrize("fact", DATA["interconnects"], ids=lambda fact: fact["name"])
def test_every_figure_of_a_link_stands_in_the_catalog(fact: Facts) -> None:
    name, attribute = LINKS[fact["name"]]
    link = entry(f"links.{name}")
    assert isinstance(link, Link)
    rate = link.bandwidth if attribute == "bandwidth" else link.achieved
    assert rate == exact(fact["unidirectional_gb_s"]) * 10**9
    if "latency_us" in fact:
        assert link.wire == exact(fact["latency_us"]) / 10**6


@pytest.mark.parametrize("fact", DATA["memory_and_storage_tiers"], ids=lambda f: TIERS[f["name"]])
def test_every_figure_of_a_tier_stands_in_the_catalog(fact: Facts) -> None:
    tier = entry(f"tiers.{TIERS[fact['name']]}")
    assert isinstance(tier, Tier)
    if latency := figure(fact.get("latency_ns")):
        assert tier.latency == latency / 10**9
    if rate := figure(fact.get("bandwidth_gb_s")):
        through = tier.link.bandwidth if tier.link is not None and tier.read is None else None
        assert (tier.read or through) == rate * 10**9
    for attribute, has in (("read_gb_s", tier.read), ("write_gb_s", tier.write)):
        if attribute in fact:
            should = figure(fact[attribute])
            assert has == (None if should is None else should * 10**9)
    if operations := figure(fact.get("iops")):
        assert tier.operations == operations


@pytest.mark.parametrize("name", sorted({fact["accelerator"] for fact in DATA["prices"]}))
def test_a_price_is_one_that_was_found_and_the_others_are_told(name: str) -> None:
    known = device(name)
    found = [fact for fact in DATA["prices"] if fact["accelerator"] == name]
    single = [exact(f["usd_per_gpu_hour"]) for f in found if "usd_per_gpu_hour" in f]
    price = None if known.price is None else Fraction(known.price) * 3600  # USD an hour
    assert price is None or price in single
    assert (known.price is None) == (not single)
    if known.price is not None:
        source = known.origins["price"].source
        assert source is not None
        assert "20" in source  # a year, or when it was read
    others = [each for each in single if each != price]
    ranges = [exact(end) for f in found for end in f.get("usd_per_gpu_hour_range", ())]
    for each in (*others, *ranges):
        assert f"{float(each):.2f}" in known.doc


def test_devices_without_a_price_among_the_facts_have_none() -> None:
    priced = {fact["accelerator"] for fact in DATA["prices"]}
    assert [name for name in DEVICES if name not in priced and device(name).price] == []


@pytest.mark.parametrize(
    "name", [f"{kind}.{name}" for kind in ("nodes", "racks") for name in CATALOG.names(kind)]
)
def test_no_domain_takes_more_links_than_its_devices_have(name: str) -> None:
    """What KV218 judges in a spec, and in the catalog has nothing to say of."""
    hardware = entry(name)
    assert isinstance(hardware, Node | Rack)
    for _, _, unit, known in domains(topology(Selection(of=hardware)).root):
        assert unit.join is not None
        link, taken = unit.join.link, links_taken(unit.join)
        own = [many.count for many in known.ports if many.of.title == link.title]
        ports = sum(many.count * Fraction(many.of.bandwidth) for many in known.ports)
        assert not own or taken <= sum(own)
        assert not known.ports or taken * Fraction(link.bandwidth) <= ports
