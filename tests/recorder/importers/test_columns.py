"""Exact columns: not a digit of a time is lost, no id is folded into another."""

from __future__ import annotations

import decimal
import zlib

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelake.recorder.importers import columns as to

LAST = (1 << 63) - 1
TIMES = {
    "1700000000123456.789": 1_700_000_000_123_456_789,
    '"1700000000123456.789"': 1_700_000_000_123_456_789,
    "100.7": 100_700,
    "0.2": 200,
    "250": 250_000,
    '"12.5"': 12_500,
    '" 12.5 "': 12_500,
    "-0.010": -10,
    "0": 0,
    "1e3": 1_000_000,
    "1.5E-3": 2,  # 1.5 ns: half goes to even
    "2.5e-3": 2,
    "1.7000000001234567e15": 1_700_000_000_123_456_700,
    "0.0004": 0,
    "0.0006": 1,
    "0.0005": 0,
    "0.0015": 2,
    "0.0005000001": 1,  # above the half by the tenth digit
    "12.3456785": 12_346,
    "1700000000123456.78949999": 1_700_000_000_123_456_789,
    "9223372036854775.807": LAST,
    "-9223372036854775.808": -LAST - 1,
    "9223372036854775.808": None,
    "-9223372036854775.809": None,
    "1e40": None,
    "1e400": None,
    "null": None,
    "": None,
    '""': None,
    '"soon"': None,
    "true": None,
    '"NaN"': None,
    '"Infinity"': None,
    "[1]": None,
}


def _ns(*texts: str) -> list[int | None]:
    found: list[int | None] = to.exact_ns([msgspec.Raw(text.encode()) for text in texts]).to_pylist()
    return found


@pytest.mark.parametrize(("text", "expected"), TIMES.items())
def test_a_time_alone(text: str, expected: int | None) -> None:
    assert _ns(text) == [expected]


def test_times_together_are_those_alone() -> None:
    assert _ns(*TIMES) == list(TIMES.values())
    assert _ns() == []


def _exact(text: str) -> int:
    with decimal.localcontext(prec=100):
        return int((decimal.Decimal(text) * 1000).to_integral_value(decimal.ROUND_HALF_EVEN))


microseconds = st.decimals(-(10**15), 2 * 10**15, allow_nan=False, allow_infinity=False, places=6) | st.decimals(
    -(10**9), 10**9, allow_nan=False, allow_infinity=False
)


@given(st.lists(microseconds.map(str), min_size=1, max_size=20))
def test_times_are_the_decimal_arithmetic(texts: list[str]) -> None:
    assert _ns(*texts) == [_exact(text) for text in texts]


@given(st.lists(st.integers(-(1 << 63), LAST), max_size=10))
def test_nanoseconds_written_as_microseconds_come_back(values: list[int]) -> None:
    def text(value: int) -> str:
        sign, size = "-" if value < 0 else "", abs(value)
        return f"{sign}{size // 1000}.{size % 1000:03d}"

    assert _ns(*map(text, values)) == values


@given(st.integers(0, 2 * 10**12), st.integers(0, 10**9 - 1))
def test_nine_decimals_are_rounded_once(whole: int, fraction: int) -> None:
    text = f"{whole}.{fraction:09d}"
    assert _ns(text) == [_exact(text)]


@pytest.mark.parametrize(
    ("start", "duration", "reason"),
    [
        (1, 0, None),
        (0, 1, None),
        (0, 0, "zero_time"),
        (1000, -10, "negative_duration"),
        (0, -10, "negative_duration"),
        (1 << 62, 0, "sentinel_time"),
        ((1 << 62) - 1, 0, None),
        (LAST, 0, "sentinel_time"),
        (-(1 << 62), 5, "sentinel_time"),
        (-LAST - 1, 5, "sentinel_time"),
        (-LAST - 1, 0, "sentinel_time"),
        (5, 1 << 62, "sentinel_time"),
        (5, LAST, "sentinel_time"),
        (None, 5, "sentinel_time"),
        (5, None, "sentinel_time"),
    ],
)
def test_impossible_times(start: int | None, duration: int | None, reason: str | None) -> None:
    found = to.impossible(pa.array([start, 7], pa.int64()), pa.array([duration, 7], pa.int64()))
    assert found.to_pylist() == [reason, None]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (1, 1),
        (140589156634432, 140589156634432),
        (3239786240, 3239786240),
        ("3239786240", 3239786240),
        (" 12 ", 12),
        ("-5", -5),
        ("stream 7", 7),
        ("stream 07", 7),
        ("0x55aa", 0x55AA),
        (94012345678901, 94012345678901),
        (LAST, LAST),
        (LAST + 1, -LAST - 1),  # unsigned ids keep their 64 bits
        ((1 << 64) - 1, -1),
        (str((1 << 64) - 1), -1),
        (1 << 64, None),
        (-LAST - 2, None),
        (7.0, 7),
        (float("nan"), None),
        (float("inf"), None),
        (1e30, None),
        (None, None),
        ("", None),
        ("  ", None),
        ("default", -zlib.crc32(b"default") - 1),
    ],
)
def test_ids(value: int | str | float | None, expected: int | None) -> None:
    assert to.whole(value) == expected
    assert to.ids([value, "stream 3"]).to_pylist() == [expected, 3]


@given(st.lists(st.integers(-(1 << 63), LAST)))
def test_ids_as_text_are_the_ids(values: list[int]) -> None:
    assert to.ids(values).to_pylist() == values
    assert to.ids([str(value) for value in values]).to_pylist() == values


def test_named_ids_are_negative_and_apart() -> None:
    names = ["default", "copy", "compute", "Default"]
    found = to.ids(names).to_pylist()
    assert len(set(found)) == len(names)
    assert all(value is not None and value < 0 for value in found)
    assert to.ids(names).to_pylist() == found


def test_ratios() -> None:
    found = to.ratios([50, 30.0, 0, 100, 101, -1, None, "30", float("nan"), float("inf")]).to_pylist()
    assert found == [0.5, 0.3, 0.0, 1.0, None, None, None, None, None, None]


def test_products_and_message_sizes() -> None:
    assert [to.product(each) for each in ([2, 3, 4], [1], [], None, [0, 4], [1 << 40, 1 << 40])] == [
        24, 1, None, None, None, None,
    ]  # fmt: skip
    assert to.message_bytes(1000, "BFloat16") == 2000
    assert to.message_bytes("1000", "Float") == 4000
    assert to.message_bytes(1000, "Complex") is None
    assert to.message_bytes(None, "Float") is None
    assert to.message_bytes(-1, "Float") is None


def test_the_type_of_an_operator_is_that_of_its_first_tensor() -> None:
    assert to.tensor_type(b'["", "Scalar", "c10::BFloat16", "float"]') == "c10::BFloat16"
    assert to.tensor_type(b'["TensorList", ""]') is None
    assert to.tensor_type(b"") is None
    assert to.tensor_type(b'"float"') is None
