"""Which link two devices talk over, whatever the hardware is nested in."""

from __future__ import annotations

from kvdsl.placement.sites import sites
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


def test_units_of_pools_on_one_piece_of_hardware_are_those_that_their_devices_lie_in() -> None:
    device = Device(name="gpu", memory=GB, bandwidth=GB)
    small = Node(name="small", devices=(ManyDevices(count=2, of=device),))
    large = Node(name="large", devices=(ManyDevices(count=3, of=device),))
    rack = Rack(name="rack", nodes=(ManyNodes(count=2, of=small), ManyNodes(count=1, of=large)))
    hall = Cluster(name="hall", racks=(ManyRacks(count=2, of=rack),))
    starts = (0, 2, 4, 7, 9, 11, 14)
    pick = Pick(level="devices", runs=((0, 13),))
    for first in range(14):
        for last in range(first, 14):
            one = Selection(of=hall, pick=Pick(level="devices", runs=((first, last),)))
            other = Selection(of=hall, pick=pick.model_copy(update={"runs": ((last, 13),)}))
            found = sites([(one, topology(one), last - first + 1), (other, topology(other), 2)])
            held = {*range(first, last + 1), *range(last, min(14, last + 2))}
            nodes = {n for n in range(6) if held & set(range(starts[n], starts[n + 1]))}
            assert [site.touched("node") for site in found] == [len(nodes)]
            racks = len({place // 7 for place in held})
            assert found[0].touched("rack") == racks
            assert found[0].touched("device") == len(held)
            by_title = {
                unit.title: count
                for unit, count in found[0].units(lambda u: u.title == "large").items()
            }
            assert by_title.get("large", 0) == len(nodes & {2, 5})
            rest = sum(1 for place in held if place % 7 < 4)
            assert by_title.get("gpu", 0) == rest
