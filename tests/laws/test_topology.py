"""Which link two devices talk over, whatever the hardware is nested in."""

from __future__ import annotations

from kvdsl.placement.topology import topology
from kvdsl.spec.hardware import (
    Cluster,
    Device,
    Fabric,
    Link,
    ManyDevices,
    ManyNodes,
    ManyRacks,
    Node,
    Rack,
    Selection,
)
from tests.laws.worlds import GB


def test_two_devices_talk_over_the_smallest_domain_that_holds_both() -> None:
    """Here four machines stand in a rack that has no link of its own: the fabric joins them."""
    device = Device(name="gpu", memory=GB, bandwidth=GB)
    box = Node(name="box", devices=(ManyDevices(count=1, of=device),))
    rack = Rack(name="rack", nodes=(ManyNodes(count=4, of=box),))
    link = Link(name="fabric", bandwidth=GB)
    hall = Cluster(name="hall", racks=(ManyRacks(count=2, of=rack),), fabric=Fabric(link=link))
    reach = topology(Selection(of=hall)).reach((0, 1))
    assert reach.join is not None
    assert reach.join.link is link
    assert reach.nodes == 2
