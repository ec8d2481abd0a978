"""Unions of half-open intervals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from tracelake.recorder.simulate.events import Interval


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The union as disjoint intervals, in order: one sweep over the sorted starts."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in merge(intervals))


def start_of(interval: Interval) -> int:
    return interval[0]


def overlap(merged: list[Interval], start_ns: int, end_ns: int) -> int:
    """How much of [start, end) disjoint intervals in order cover."""
    first = max(0, bisect_right(merged, start_ns, key=start_of) - 1)
    last = bisect_left(merged, end_ns, key=start_of)
    return sum(max(0, min(end, end_ns) - max(start, start_ns)) for start, end in merged[first:last])
