"""What is remembered is known by the objects asked of, and begins anew when it is full."""

from __future__ import annotations

from functools import partial

from kvdsl.recall import Once, Recall


def test_an_answer_is_made_once_for_the_same_objects_and_values() -> None:
    known: Recall[list[int]] = Recall(8)
    one, other = [1], [1]
    first = known.get((one,), ("sum",), lambda: [1])
    assert known.get((one,), ("sum",), lambda: [2]) is first
    assert known.get((other,), ("sum",), lambda: [2]) == [2]
    assert known.get((one,), ("product",), lambda: [3]) == [3]


def test_an_answer_keeps_its_objects_so_that_no_other_takes_their_place() -> None:
    known: Recall[int] = Recall(1000)
    found = [known.get(([number],), (), partial(int, number)) for number in range(1000)]
    assert found == list(range(1000))


def test_none_is_an_answer_and_a_full_memory_begins_anew() -> None:
    known: Recall[int | None] = Recall(2)
    held = [[0], [1], [2]]
    asked: list[int] = []

    def answer(number: int) -> None:
        asked.append(number)

    for number in (0, 0, 1, 2, 2, 0):
        assert known.get((held[number],), (), partial(answer, number)) is None
    assert asked == [0, 1, 2, 0]


def test_what_is_asked_once_is_made_when_it_is_asked_and_then_kept() -> None:
    made: list[int] = []

    def answer() -> int:
        made.append(1)
        return len(made)

    once = Once(answer)
    assert made == []
    assert (once(), once(), made) == (1, 1, [1])
