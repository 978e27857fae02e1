"""A line is a sorted list of (place, job)."""

from __future__ import annotations

from bisect import insort

from hypothesis import given
from hypothesis import strategies as st

from fairway.core import lines
from fairway.core.lines import Line
from tests.drawing import drawn

Step = tuple[str, int]
steps = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "many", "pop", "remove", "count"]), st.integers(0, 30)),
    max_size=200,
)


def check(script: list[Step]) -> None:
    """Run *script* on a line and on a plain sorted list: they must agree after every step."""
    line, model, job = Line(), list[tuple[int, int]](), 0
    for verb, number in script:
        if verb == "put":
            job += 1
            mixed = job ^ 5  # ids that do not come in their order
            line.put(number, mixed)
            insort(model, (number, mixed))
        elif verb == "many":
            some = sorted((number + step // 2, job + step ^ 5) for step in range(1, number % 12 + 2))
            together = not any(some[0] <= one <= some[-1] for one in model)
            places, jobs = [place for place, _ in some], [one for _, one in some]
            assert line.put_many(places, jobs) is together
            if together:
                job += len(some) + 8
                model = sorted(model + some)
        elif verb == "pop" and model:
            jobs, places, _ = line.pop(number // 4 + 1, number)
            assert 1 <= len(jobs) <= number // 4 + 1
            assert list(zip(places, jobs, strict=True)) == model[: len(jobs)]
            assert all(place <= number for place in places[1:])
            del model[: len(jobs)]
        elif verb == "remove" and model:
            place, chosen = model.pop(number % len(model))
            assert line.holds(place, chosen)
            assert line.remove(place, chosen)
            assert not line.holds(place, chosen)
        elif verb == "count":
            assert line.count_until(number) == sum(place <= number for place, _ in model)
            between = [one for one in model if number < one[0] <= number + 5]
            assert list(line.between(number, number + 5)) == between
            for index, (place, waiting) in enumerate(model):
                assert line.count_before(place, waiting) == index
        assert len(line) == len(model)
        assert list(line) == model
        if model:
            assert line.first() == model[0]
            assert line.last_place() == model[-1][0]


@given(steps)
@drawn(300)
def test_a_line_is_a_sorted_list(script: list[Step]) -> None:
    original, lines.CHUNK = lines.CHUNK, 4  # small chunks, so that every split and merge is met
    try:
        check(script)
    finally:
        lines.CHUNK = original


def test_what_is_not_there_cannot_be_removed() -> None:
    line = Line()
    line.put(5, 1)
    assert not line.remove(5, 2)
    assert not line.remove(4, 1)
    assert not line.remove(6, 1)
    assert len(line) == 1
