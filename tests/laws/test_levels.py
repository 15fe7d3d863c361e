"""What a group has of each level of hardware: links towards its ranks, NICs, rails, the spine."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvdsl.placement.levels import Level, torus_links
from kvdsl.placement.topology import topology
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.hardware import Cluster, Node, Rack, Selection

HARDWARE = """\
kvspec 1
device gpu { memory = 80 GB; bandwidth = 3 TB/s }
link fast  { bandwidth = 100 GB/s }
link slow  { bandwidth = 10 GB/s }
node ring   { devices = 8 x gpu; scale_up { link = fast; shape = ring } }
node torus  { devices = 16 x gpu; scale_up { link = fast; shape = torus; dims = [4, 4] } }
node paired {
  devices = 4 x gpu
  bridge  { link = fast; shape = pairs; size = 2 }
  host    { link = slow }
}
node cards  { devices = 8 x gpu; host { link = slow; peer_access = false; switches = 2 } }
node box    { devices = 8 x gpu; nics = 8 x slow; scale_up { link = fast; shape = switch } }
node four   { devices = 8 x gpu; nics = 4 x slow; scale_up { link = fast; shape = switch } }
cluster tree  {
  nodes  = 8 x box
  fabric { link = slow; shape = tree; oversubscription = 4; leaf = 2 }
}
cluster spine { nodes = 8 x box; fabric { link = slow; shape = tree; oversubscription = 4 } }
cluster rails { nodes = 4 x box; fabric { link = slow; shape = rail; oversubscription = 2 } }
cluster halves { nodes = 4 x four; fabric { link = slow; shape = rail; oversubscription = 2 } }
cluster circle { nodes = 4 x box; fabric { link = slow; shape = ring } }
cluster mesh { nodes = 5 x box; fabric { link = slow; shape = mesh } }
cluster both  { nodes = [2 x box, 2 x four]; fabric = slow }
cluster hall { racks = 2 x racks.gb200_nvl72; fabric = slow }
"""


def levels(name: str, *places: int) -> tuple[Level, ...]:
    """The levels of a group on a piece of hardware, which its text or the catalog declares."""
    resolver = Resolver(load_text(HARDWARE, catalog=Catalog()))
    hardware, problems = resolver.declaration(name)
    assert isinstance(hardware, Node | Rack | Cluster), problems
    return topology(Selection(of=hardware)).reach(places).levels


def only(name: str, *places: int) -> Level:
    found = levels(name, *places)
    assert len(found) == 1
    return found[0]


def row(*values: object) -> tuple[object, ...]:
    """Figures of several kinds, to be compared at once."""
    return values


def gigabytes(level: Level) -> Fraction:
    return level.bandwidth / 10**9


def test_a_switch_gives_each_rank_its_full_link() -> None:
    level = only("nodes.hgx_h100", 0, 1, 2, 3)
    assert row(level.ranks, level.parts, level.units, level.even) == (4, 4, 1, True)
    assert row(level.links, level.pair, gigabytes(level)) == (1, 1, 450)


@pytest.mark.parametrize(("ranks", "links"), [(2, 1), (4, 3), (8, 7)])
def test_in_a_mesh_a_group_has_one_link_to_each_of_its_ranks(ranks: int, links: int) -> None:
    """An MI300X has seven links of 64 GB/s (stas00/ml-engineering); a pair shares one of them."""
    level = only("nodes.oam_mi300x", *range(ranks))
    assert row(level.links, level.pair, gigabytes(level)) == (links, 1, 64 * links)


def test_a_ring_runs_both_ways_round_and_one_way_on_a_part() -> None:
    assert only("ring", *range(8)).links == 2
    assert only("ring", 0, 1, 2, 3).links == 1
    assert only("ring", 0, 2, 4, 6).links == 1  # two such rings lie in each other: half of two
    assert only("ring", 0, 4).links == Fraction(2, 4)


def test_a_torus_gives_two_links_for_each_axis_that_a_group_runs_round() -> None:
    assert only("torus", *range(16)).links == 4
    assert only("torus", 0, 1, 2, 3).links == 2  # a row
    assert only("torus", 0, 4, 8, 12).links == 2  # a column
    assert only("torus", 0, 1).links == 1
    assert only("torus", 0, 1, 4, 5).links == 2  # a block of two by two: one a way on each axis
    odd = only("torus", 0, 1, 5)
    assert row(odd.links, odd.note) == (
        1,
        "the group is no block of the torus: one link a rank is reckoned with",
    )


def test_a_tpu_row_gets_two_of_four_links() -> None:
    """ICI of a v5e: 400 GB/s both ways over four links (docs.cloud.google.com/tpu/docs/v5e)."""
    assert gigabytes(only("racks.tpu_v5e_pod", *range(16))) == 100
    assert gigabytes(only("racks.tpu_v5e_pod", *range(256))) == 200


def test_the_instances_of_an_ultraserver_are_a_ring_of_their_chips() -> None:
    inner, outer = levels("racks.aws_trn2_ultraserver", *range(64))
    assert row(inner.kind, inner.ranks, inner.links, gigabytes(inner)) == ("node", 16, 4, 512)
    assert row(outer.kind, outer.parts, outer.in_part, gigabytes(outer)) == ("rack", 4, 16, 128)


def test_pairs_have_their_link_and_meet_over_the_host() -> None:
    assert only("paired", 0, 1).kind == "pairs"
    assert only("paired", 1, 2).shape == "bus"
    inner, outer = levels("paired", 0, 1, 2, 3)
    assert row(inner.kind, inner.ranks, inner.units, gigabytes(inner)) == ("pairs", 2, 2, 100)
    assert row(outer.kind, outer.parts, outer.in_part, gigabytes(outer)) == ("node", 2, 2, 10)


def test_a_bus_says_whether_cards_read_one_another_and_which_switches_they_cross() -> None:
    level = only("cards", 0, 1, 4)
    assert row(level.peer_access, level.switches, level.links) == (False, 2, 1)
    assert only("cards", 0, 1).switches == 1
    assert only("nodes.rtx_pro_6000_x8", 0, 1).peer_access is True
    assert only("nodes.hgx_h100", 0, 1).peer_access is None


def test_a_group_over_nodes_has_the_nics_of_its_ranks() -> None:
    inner, outer = levels("spine", *range(16))
    assert row(inner.kind, inner.ranks, inner.units) == ("node", 8, 2)
    assert row(outer.parts, outer.in_part, outer.nics, outer.links) == (2, 8, 8, 1)
    _, two_of_eight = levels("spine", 0, 1, 8, 9)
    assert row(two_of_eight.in_part, two_of_eight.nics) == (2, 2)
    one = only("spine", 0, 8, 16)
    assert row(one.parts, one.in_part, one.nics) == (3, 1, 1)


def test_an_oversubscribed_tree_is_full_below_one_leaf() -> None:
    assert levels("spine", *range(16))[-1].oversubscription == 4
    assert levels("tree", *range(16))[-1].oversubscription == 1
    crossing = levels("tree", *range(8, 24))[-1]
    assert row(crossing.oversubscription, gigabytes(crossing)) == (4, Fraction(5, 2))


def test_ranks_at_the_same_places_stay_on_their_rails() -> None:
    same, other = only("rails", 0, 8, 16), only("rails", 0, 9)
    assert row(same.on_rails, same.oversubscription) == (True, 1)
    assert row(other.on_rails, other.oversubscription) == (False, 2)
    assert levels("rails", *range(16))[-1].on_rails
    assert not levels("rails", *range(4, 12))[-1].on_rails
    assert only("halves", 0, 9).on_rails  # devices 0 and 1 share a NIC
    assert not only("halves", 0, 10).on_rails


def test_nics_of_a_ring_or_mesh_of_nodes_lead_to_some_of_them() -> None:
    assert levels("circle", *range(32))[-1].links == 1
    assert levels("circle", *range(16))[-1].links == Fraction(1, 2)
    assert levels("mesh", *range(40))[-1].links == 1
    two = levels("mesh", *range(16))[-1]
    assert row(two.links, two.nics, two.pair) == (Fraction(1, 4), 8, Fraction(1, 4))


def test_trays_of_an_nvl72_are_no_level_of_their_own() -> None:
    level = only("racks.gb200_nvl72", *range(16))
    assert row(level.kind, level.ranks, level.parts, gigabytes(level)) == ("rack", 16, 16, 900)
    inner, outer = levels("hall", *range(144))
    assert row(inner.kind, inner.units) == ("rack", 2)
    assert row(outer.parts, outer.in_part, outer.nics) == (2, 72, 72)


def test_a_group_on_nodes_of_two_kinds_has_the_nics_of_the_slower() -> None:
    assert [levels("both", *range(n, n + 16))[-1].nics for n in (0, 8, 16)] == [8, 4, 4]
    assert [gigabytes(levels("both", *range(n, n + 16))[-1]) for n in (0, 16)] == [10, 5]


def test_what_nothing_joins_has_no_levels() -> None:
    resolver = Resolver(load_text(HARDWARE, catalog=Catalog()))
    node, _ = resolver.declaration("box")
    assert isinstance(node, Node)
    assert topology(Selection(count=2, of=node)).reach((0, 8)).levels == ()
    assert topology(Selection(count=2, of=node)).reach((0,)).levels == ()


def test_an_uneven_group_says_so() -> None:
    inner, outer = levels("spine", *range(12))
    assert row(inner.ranks, inner.even, outer.even) == (8, False, False)


def test_links_of_a_torus_never_exceed_those_of_a_place() -> None:
    dims = (4, 3, 2)
    for size in range(2, 25):
        found = torus_links(range(size), dims)
        assert found is None or 0 < found <= 2 * len(dims)
