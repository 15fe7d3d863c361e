"""Which link two devices talk over, whatever the hardware is nested in."""

from __future__ import annotations

from kvdsl.placement.topology import made_of, topology
from kvdsl.spec.hardware import (
    Cluster,
    Device,
    Fabric,
    Link,
    ManyDevices,
    ManyNodes,
    ManyRacks,
    Node,
    Pick,
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


def test_units_are_touched_by_the_first_devices_in_line() -> None:
    device = Device(name="gpu", memory=GB, bandwidth=GB)
    box = Node(name="box", devices=(ManyDevices(count=4, of=device),))
    rack = Rack(name="rack", nodes=(ManyNodes(count=2, of=box),))
    hall = Cluster(name="hall", racks=(ManyRacks(count=3, of=rack),))
    whole = topology(Selection(of=hall))
    assert [whole.touched("node", used) for used in (0, 1, 4, 5, 24)] == [0, 1, 1, 2, 6]
    assert [whole.touched("rack", used) for used in (1, 8, 9)] == [1, 1, 2]
    assert [whole.left_in_last_node(used) for used in (1, 4, 5, 24)] == [3, 0, 3, 0]
    some = topology(Selection(of=hall, pick=Pick(level="devices", runs=((0, 1), (3, 6)))))
    assert (some.devices, some.nodes) == (6, 2)
    assert [some.left_in_last_node(used) for used in (1, 2, 3, 5)] == [2, 1, 0, 1]


def test_what_a_selection_is_made_of_is_what_a_walk_over_its_devices_meets() -> None:
    small, large = (Device(name=n, memory=GB, bandwidth=GB) for n in ("small", "large"))
    mixed = Node(
        name="mixed",
        devices=(ManyDevices(count=3, of=small), ManyDevices(count=1, of=large)),
    )
    plain = Node(name="plain", devices=(ManyDevices(count=2, of=large),))
    rack = Rack(name="rack", nodes=(ManyNodes(count=2, of=mixed), ManyNodes(count=3, of=plain)))
    hall = Cluster(name="hall", racks=(ManyRacks(count=3, of=rack),))
    for first in range(42):
        for last in range(first, 42):
            picked = Pick(level="devices", runs=((first, last),))
            there = topology(Selection(of=hall, pick=picked))
            units: dict[str, set[tuple[int, ...]]] = {}
            for place in range(there.devices):
                numbers: tuple[int, ...] = ()
                for unit, number in there.path(place):
                    numbers += (number,)
                    units.setdefault(unit.title, set()).add(numbers)
            for kind, titles in (("node", ("mixed", "plain")), ("device", ("small", "large"))):
                wanted = {title: len(units[title]) for title in titles if title in units}
                assert made_of(there, kind) == wanted, (first, last)
