"""Intervals against naive oracles: a seed makes many examples, and Spark answers all of them at once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from expect import SHIFT_NS, small_data
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import SLICE_NS, innermost, nested, open_then, sliced, sweep, union_ns

EXAMPLES = 150
FOREVER = 1 << 62
# Times count from here in steps of this: within a slice, across its edge, over several, and before 1970.
SCALES = ((0, 1), (SLICE_NS - 6, 1), (SHIFT_NS, 1_300_000_007), (-SLICE_NS, 900_000_000))

seeds = given(seed=st.integers(0, 2**32))
few = settings(max_examples=2, deadline=None, phases=[Phase.explicit, Phase.generate])


class Span(NamedTuple):
    """An interval of an example; `end` None is open for ever."""

    id: int
    start: int
    end: int | None

    @property
    def until(self) -> int:
        return FOREVER if self.end is None else self.end

    @property
    def order(self) -> tuple[int, int, int]:
        """Opening order: of those that start together the longest first."""
        return (self.start, -self.until, self.id)

    def holds(self, at: int) -> bool:
        return self.start <= at < self.until


Example = list[Span]


def spans(rng: random.Random, *, may_be_open: bool = False) -> Example:
    base, unit = rng.choice(SCALES)
    found = []
    for number in range(rng.randint(0, 9)):
        start, end = sorted(rng.choices(range(13), k=2))
        is_open = may_be_open and rng.random() < 0.005  # few: each is thousands of slices
        found.append(Span(number, base + unit * start, None if is_open else base + unit * end))
    rng.shuffle(found)
    return found


def is_crossing(a: Span, b: Span) -> bool:
    first, second = sorted((a, b), key=lambda span: span.order)
    return first.start < second.start < first.until < second.until


def laminar(example: Example) -> Example:
    """The example without ranges that outlive what is around them."""
    kept: Example = []
    for span in example:
        if not any(is_crossing(span, other) for other in kept):
            kept.append(span)
    return kept


def around(span: Span, example: Example) -> Span | None:
    """The range around it: the last one opened before it that is still open."""
    before = [other for other in example if other.order < span.order and other.start < other.until]
    return max((other for other in before if other.holds(span.start)), key=lambda other: other.order, default=None)


def open_at(at: int, example: Example) -> Span | None:
    return max((span for span in example if span.holds(at)), key=lambda span: span.order, default=None)


def union_of(example: Example) -> int:
    total, reach = 0, -FOREVER
    for span in sorted(example, key=lambda span: span.order):
        total += max(0, span.until - max(reach, span.start))
        reach = max(reach, span.until)
    return total


def disjoint(example: Example) -> Example:
    kept: Example = []
    for span in sorted(example, key=lambda span: span.order):
        if span.start < span.until and (not kept or span.start >= kept[-1].until):
            kept.append(span)
    return kept


def instants(example: Example) -> list[int]:
    """The edges of an example, and what lies just beside them."""
    edges = {edge for span in example for edge in (span.start, span.end) if edge is not None}
    return sorted({edge + beside for edge in edges for beside in (-1, 0, 1)})


def frame(spark: SparkSession, examples: Sequence[Example], more: str = "") -> DataFrame:
    rows = [(number, *span) for number, example in enumerate(examples) for span in example]
    return spark.createDataFrame(rows, "example int, id bigint, start_ns bigint, end_ns bigint" + more)


def differing(examples: Sequence[Any], got: Sequence[Any], want: Sequence[Any]) -> Any:
    """The smallest example for which an answer is not the oracle's, with both answers; None where all agree."""
    wrong = [(e, g, w) for e, g, w in zip(examples, got, want, strict=True) if g != w]
    return min(wrong, key=lambda found: len(found[0]), default=None)


def by_example(rows: Sequence[Any], count: int) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in range(count)]
    for example, *values in rows:
        found[example].append(tuple(values))
    return [sorted(each, key=repr) for each in found]


def many(seed: int, *, may_be_open: bool = False) -> list[Example]:
    rng = random.Random(seed)
    return [spans(rng, may_be_open=may_be_open) for _ in range(EXAMPLES)]


@few
@seeds
def test_ranges_nest_in_what_is_open_around_them(spark: SparkSession, seed: int) -> None:
    examples = [laminar(example) for example in many(seed, may_be_open=True)]
    with small_data(spark):
        made = nested(frame(spark, examples), ["example"]).select("example", "id", "depth", "parent_id", "is_outliving")
        got = by_example(made.collect(), EXAMPLES)
    want = []
    for example in examples:
        depths: dict[int, int] = {}
        answers = []
        for span in sorted(example, key=lambda span: span.order):
            parent = around(span, example)
            depths[span.id] = depths[parent.id] + 1 if parent else 0
            answers.append((span.id, depths[span.id], parent.id if parent else None, False))
        want.append(sorted(answers, key=repr))
    assert differing(examples, got, want) is None


@few
@seeds
def test_a_point_lies_in_the_innermost_range_open_then(spark: SparkSession, seed: int) -> None:
    examples = [laminar(example) for example in many(seed, may_be_open=True)]
    asked = [(number, at) for number, example in enumerate(examples) for at in instants(example)]
    with small_data(spark):
        nest = nested(frame(spark, examples), ["example"])
        points = spark.createDataFrame(asked, "example int, at_ns bigint")
        made = innermost(points, nest, ["example"], "found").select("example", "at_ns", "found")
        got = by_example(made.collect(), EXAMPLES)
    want = []
    for example in examples:
        found = [(at, open_at(at, example)) for at in instants(example)]
        want.append(sorted([(at, span.id if span else None) for at, span in found], key=repr))
    assert differing(examples, got, want) is None


@few
@seeds
def test_a_point_lies_in_the_stretch_that_holds_it(spark: SparkSession, seed: int) -> None:
    examples = [disjoint(example) for example in many(seed)]
    asked = [(number, at) for number, example in enumerate(examples) for at in instants(example) * 2]
    with small_data(spark):
        points = spark.createDataFrame(asked, "example int, at_ns bigint")
        stretches = frame(spark, examples).withColumnRenamed("id", "value")
        made = open_then(points, stretches, ["example"], "found").select("example", "at_ns", "found")
        got = by_example(made.collect(), EXAMPLES)
    want = []
    for example in examples:
        found = [(at, open_at(at, example)) for at in instants(example) * 2]
        want.append(sorted([(at, span.id if span else None) for at, span in found], key=repr))
    assert differing(examples, got, want) is None


@few
@seeds
def test_slices_tile_each_interval(spark: SparkSession, seed: int) -> None:
    examples = many(seed)
    origin, width = SHIFT_NS % 1_000_003, 250_000_019
    with small_data(spark):
        default = sliced(frame(spark, examples), "start_ns", "end_ns")
        own = sliced(frame(spark, examples), "start_ns", "end_ns", F.lit(origin), F.lit(width))
        columns = ("example", "slice", "id", "start_ns", "end_ns")
        got = [by_example(made.select(*columns).collect(), EXAMPLES) for made in (default, own)]
    for pieces, start, wide in zip(got, (0, origin), (SLICE_NS, width), strict=True):
        assert differing(examples, pieces, [tiles(example, start, wide) for example in examples]) is None


def tiles(example: Example, origin: int, width: int) -> list[tuple[int, int, int, int]]:
    found = []
    for span in example:
        for number in range((span.start - origin) // width, (span.until - 1 - origin) // width + 1):
            low = origin + number * width
            start, end = max(span.start, low), min(span.until, low + width)
            if start < end:
                found.append((number, span.id, start, end))
    return sorted(found, key=repr)


@few
@seeds
def test_a_sweep_gives_each_instant_its_classes_once(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    pieces: list[tuple[int, str, int, int]] = []
    for number in range(EXAMPLES):
        for _ in range(rng.randint(0, 8)):
            start, end = sorted(rng.choices(range(20), k=2))
            pieces.append((number, rng.choice("abc"), start, end))
    with small_data(spark):
        given_ = spark.createDataFrame(pieces, "example int, label string, start_ns bigint, end_ns bigint")
        made = sweep(given_, ["example"], ["a", "b", "c"]).select("example", "start_ns", "end_ns", "a", "b", "c")
        got = by_example(made.collect(), EXAMPLES)
    for number, stretches in enumerate(got):
        mine = [piece for piece in pieces if piece[0] == number]
        seen = Counter(at for low, high, *_ in stretches for at in range(low, high))
        assert all(times == 1 for times in seen.values()), mine
        flags = {at: tuple(live) for low, high, *live in stretches for at in range(low, high)}
        assert flags == covered(mine), mine


def covered(pieces: Sequence[tuple[int, str, int, int]]) -> dict[int, tuple[bool, ...]]:
    """Per instant with anything live, whether each class is."""
    live = {(at, label) for _, label, start, end in pieces for at in range(start, end)}
    return {at: tuple((at, label) in live for label in "abc") for at, _ in live}


@few
@seeds
def test_a_union_is_as_long_as_what_it_covers(spark: SparkSession, seed: int) -> None:
    examples = many(seed)
    moved = [[Span(s.id, s.start + SHIFT_NS, s.until + SHIFT_NS) for s in reversed(example)] for example in examples]
    # The same time in more pieces: each span and its halves.
    halved = [[half for s in example for half in halves(s)] for example in examples]
    with small_data(spark):
        made = union_ns(frame(spark, [*examples, *moved, *halved]), ["example"])
        rows = made.select("example", "union_ns", "start_ns", "end_ns").collect()
        got = by_example(rows, 3 * EXAMPLES)
    want = [bounds(example) for example in [*examples, *moved, *halved]]
    assert differing([*examples, *moved, *halved], got, want) is None
    lengths = [[length for length, _, _ in each] for each in got]
    assert lengths[:EXAMPLES] == lengths[EXAMPLES : 2 * EXAMPLES] == lengths[2 * EXAMPLES :]


def halves(span: Span) -> list[Span]:
    middle = (span.start + span.until) // 2
    return [span, Span(span.id, span.start, middle), Span(span.id, middle, span.until)]


def bounds(example: Example) -> list[tuple[int, int, int]]:
    real = [span for span in example if span.start < span.until]
    if not real:
        return []
    return [(union_of(real), min(span.start for span in real), max(span.until for span in real))]
