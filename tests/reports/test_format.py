"""Numbers as LOOK says, as literals."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from tracelake.reports import format as f
from tracelake.reports import names, sql, words

N, T = f.NBSP, f.THIN


@pytest.mark.parametrize("module", [f, names, sql, words])
def test_examples_in_the_docstrings_hold(module: ModuleType) -> None:
    tried = doctest.testmod(module)
    assert tried.attempted > 0
    assert tried.failed == 0


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (1, "1 ns"),
        (999, "999 ns"),
        (999.7, "1 µs"),
        (1_000, "1 µs"),
        (84_970, "85 µs"),
        (999_600, "1 ms"),
        (7_624_000, "7.62 ms"),
        (1_836_000_000, "1.84 s"),
        (59_960_000_000, "1 m 00 s"),
        (185_000_000_000, "3 m 05 s"),
        (3_599_700_000_000, "1 h 00 m"),
        (7_500_000_000_000, "2 h 05 m"),
        (273_600_000_000_000, "3 d 04 h"),
        (-85_000, "−85 µs"),
    ],
)
def test_durations_have_three_digits_and_one_unit(ns: float, text: str) -> None:
    assert f.duration(ns) == text.replace(" ", N)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0, "0 %"),
        (0.00049, "< 0.1 %"),
        (0.0005, "0.1 %"),
        (0.0994, "9.9 %"),
        (0.0996, "10 %"),
        (0.999, "100 %"),
        (1.4, "140 %"),
        (-0.06, "−6.0 %"),
    ],
)
def test_percent_has_a_decimal_below_ten(ratio: float, text: str) -> None:
    assert f.percent(ratio) == text.replace(" ", N)


def test_other_numbers() -> None:
    assert f.count(1_369) == f"1{T}369"
    assert f.count(-2_000_000) == f"−2{T}000{T}000"
    assert f.size(1023) == f"0.999{N}KiB"
    assert f.size(34_089_730_048) == f"31.7{N}GiB"
    assert f.rate(1_420_000_000, 1_000_000_000) == f"1.42{N}GB/s"
    assert f.utc(1_710_053_970_000_000_000) == f"2024-03-10{N}06:59:30{N}UTC"
    assert f.utc(2**70) == f"{2**70}{N}ns since 1970"
    assert f.utc(-1, digits=9) == f"1969-12-31{N}23:59:59.999999999{N}UTC"


@pytest.mark.parametrize(("span", "bins"), [(0, 1), (1, 1), (99, 10), (1_000, 40), (123_456_789, 7)])
def test_bins_are_one_two_five_and_few(span: int, bins: int) -> None:
    width = f.nice_width(span, bins)
    assert width * bins > span
    assert str(width).rstrip("0") in ("1", "2", "5")


def test_long_names_stay_apart_and_short() -> None:
    first, second = "k" * 10_239 + "A", "k" * 5_000 + "x" + "k" * 5_238 + "A"
    assert names.bounded(first) != names.bounded(second)
    assert len(names.bounded(first)) < 2_200
    labels = names.told_apart([("f<Add, 4>(x)", "f"), ("f<Mul, 4>(x)", "f"), (first, "f")])
    assert labels[:2] == ["f · Add", "f · Mul"]
    assert len(set(labels)) == 3
