"""Named ranges: nesting, threads, tasks, and their cost in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tracelake.recorder import annotation
from tracelake.recorder.annotation import Collector, annotate, annotation_begin, annotation_end


@pytest.fixture
def collector() -> Iterator[Collector]:
    annotation.forget()
    annotation.set_recording(True)
    yield Collector(1_000)
    annotation.forget()


def taken(collector: Collector) -> list[tuple[str, int, int]]:
    """(text, start_ns, end_ns) of all threads; open ranges end at 0."""
    return [(text, start, end) for _, _, _, rows in collector.take() for _, text, start, end in rows]


def test_ranges_nest_and_end_in_order(collector: Collector) -> None:
    with annotate("outer"), annotate("inner"):
        pass
    (outer, outer_start, outer_end), (inner, inner_start, inner_end) = taken(collector)
    assert (outer, inner) == ("outer", "inner")
    assert 0 < outer_start <= inner_start <= inner_end <= outer_end


def test_nothing_is_recorded_while_no_window_is_open(collector: Collector) -> None:
    annotation.set_recording(False)
    with annotate("before"):
        annotation.set_recording(True)
        with annotate("inside"):
            pass
    annotation.set_recording(False)
    annotation_end(annotation_begin("after"))
    assert [text for text, _, _ in taken(collector)] == ["inside"]


def test_an_open_range_comes_once_open_and_once_closed(collector: Collector) -> None:
    handle = annotation_begin("epoch")
    (first,) = collector.take()
    assert collector.take() == []
    annotation_end(handle)
    (second,) = collector.take()
    (number, text, start_ns, end_ns), (again, _, same_start_ns, closed_ns) = first[3][0], second[3][0]
    assert (number, text, end_ns) == (again, "epoch", 0)
    assert start_ns == same_start_ns <= closed_ns


def test_the_end_finds_its_range_by_handle_by_name_or_as_the_latest(collector: Collector) -> None:
    first, second = annotation_begin("a"), annotation_begin("b")
    annotation_end(first)
    annotation_end(second)
    annotation_begin("a")
    annotation_begin("b")
    annotation_end("a")
    annotation_end()
    annotation_end()
    rows = taken(collector)
    assert [text for text, _, _ in rows] == ["a", "b", "a", "b"]
    assert all(end > 0 for _, _, end in rows)
    assert rows[0][2] < rows[1][2] and rows[2][2] < rows[3][2]


def test_an_end_without_a_begin_closes_nothing(collector: Collector) -> None:
    annotation_end()
    annotation_end("never opened")
    with annotate("outer"):
        annotation_end()
        (_, _, end_ns), *_ = taken(collector)
        assert end_ns == 0


def test_one_object_serves_again_and_inside_itself(collector: Collector) -> None:
    layer = annotate("layer")
    with layer, layer:
        pass
    with layer:
        pass
    rows = taken(collector)
    assert len(rows) == 3
    assert rows[0][1] <= rows[1][1] <= rows[1][2] <= rows[0][2] <= rows[2][1]


def test_a_decorated_function_may_recurse(collector: Collector) -> None:
    @annotate("fib")
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    assert fib(6) == 8
    rows = taken(collector)
    assert len(rows) == 25
    assert all(end >= start > 0 for _, start, end in rows)


def test_an_exception_closes_the_range_and_goes_on(collector: Collector) -> None:
    with pytest.raises(KeyError, match="mine"), annotate("step_1"):
        raise KeyError("mine")
    ((_, start, end),) = taken(collector)
    assert end >= start


def test_threads_keep_their_ranges_apart(collector: Collector) -> None:
    def work(name: str) -> None:
        for i in range(500):
            with annotate(f"{name}_{i}"):
                pass

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(8)]
    seen: dict[int, list[str]] = {}
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        _gather(collector, seen)
    _gather(collector, seen)
    by_name = {texts[0].split("_")[0]: texts for texts in seen.values()}
    assert set(by_name) == {f"t{i}" for i in range(8)}
    for name, texts in by_name.items():
        assert list(dict.fromkeys(texts)) == [f"{name}_{i}" for i in range(500)]


def _gather(collector: Collector, seen: dict[int, list[str]]) -> None:
    for ident, native_id, _, rows in collector.take():
        assert ident and native_id
        seen.setdefault(native_id, []).extend(text for _, text, _, _ in rows)


def test_tasks_that_interleave_end_their_own_ranges(collector: Collector) -> None:
    async def task(name: str, pause: float) -> None:
        with annotate(name):
            await asyncio.sleep(pause)

    async def main() -> None:
        await asyncio.gather(task("long", 0.03), task("short", 0.01))

    asyncio.run(main())
    rows = {text: (start, end) for text, start, end in taken(collector)}
    assert rows["long"][0] <= rows["short"][0] < rows["short"][1] < rows["long"][1]


def test_what_exceeds_the_budget_is_dropped_and_counted(collector: Collector) -> None:
    for i in range(1_500):
        annotation_end(annotation_begin(str(i)))
    assert len(taken(collector)) == 1_000
    assert collector.dropped_count == 500


def test_a_dead_thread_is_forgotten_once_its_ranges_are_taken(collector: Collector) -> None:
    def work() -> None:
        with annotate("once"):
            pass

    for _ in range(50):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(taken(collector)) == 50
    assert collector.take() == []
    assert not annotation._logs
