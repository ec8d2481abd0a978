"""From decoded fields to exact Arrow columns."""

from __future__ import annotations

import decimal
import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tracelake.schemas.columns import SENTINEL_NS

_MICROSECONDS = pa.decimal128(30, 6)
_THOUSAND = pa.scalar(decimal.Decimal(1000), pa.decimal128(4, 0))
_INT64 = 1 << 63
_LAST_NUMBER = re.compile(r"(-?\d+)\s*$")


def exact_ns(texts: Sequence[msgspec.Raw]) -> pa.Int64Array:
    """Nanoseconds from the decimal text of microseconds, exact to the last digit; half a nanosecond goes to even.

    Text in quotes counts as its content. NULL where the text is no number or the value needs more than 64 bits.
    """
    raw = pa.array([bytes(text) for text in texts], pa.binary())
    words = pc.utf8_trim(raw.cast(pa.string(), safe=False), characters='" \t\r\n')
    try:
        scaled = pc.multiply(words.cast(_MICROSECONDS), _THOUSAND)
        return pc.round(scaled, 0, "half_to_even").cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array([_one_ns(word) for word in words.to_pylist()], pa.int64())


def _one_ns(word: str) -> int | None:
    try:
        value = decimal.Decimal(word).scaleb(3).to_integral_value(decimal.ROUND_HALF_EVEN)
    except decimal.InvalidOperation:
        return None
    if not value.is_finite():
        return None
    whole = int(value)
    return whole if -_INT64 <= whole < _INT64 else None


def impossible(start: pa.Int64Array, duration: pa.Int64Array) -> pa.StringArray:
    """Why a time cannot be, per row; NULL where it can. See METRICS, "Impossible events"."""
    beyond = pc.or_(pc.greater_equal(start, SENTINEL_NS), pc.less_equal(start, -SENTINEL_NS))
    reasons = pa.nulls(len(start), pa.string())
    tests = (
        (pc.less(duration, 0), "negative_duration"),
        (pc.and_(pc.equal(start, 0), pc.equal(duration, 0)), "zero_time"),
        (pc.or_kleene(beyond, pc.greater_equal(duration, SENTINEL_NS)), "sentinel_time"),
        (pc.or_(pc.is_null(start), pc.is_null(duration)), "sentinel_time"),
    )
    for test, reason in tests:
        reasons = pc.if_else(pc.fill_null(test, False), reason, reasons)
    return reasons


def whole(value: int | str | float | None) -> int | None:
    """An id as a signed 64-bit number: unsigned ids keep their bits, "stream 7" is 7, other text its negative CRC."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _whole_text(value)
    if isinstance(value, float):
        if value != value or abs(value) >= _INT64:
            return None
        value = int(value)
    if -_INT64 <= value < _INT64:
        return value
    return value - (1 << 64) if _INT64 <= value < 1 << 64 else None


@lru_cache(maxsize=65536)
def _whole_text(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    try:
        return whole(int(text, 0))
    except ValueError:
        pass
    if found := _LAST_NUMBER.search(text):
        return whole(int(found[1]))
    return -zlib.crc32(text.encode()) - 1


def ids(values: Iterable[int | str | float | None]) -> pa.Int64Array:
    """Ids as int64; see `whole`."""
    listed = list(values)
    try:
        return pa.array(listed, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([whole(value) for value in listed], pa.int64())


def ratios(values: Iterable[int | str | float | None]) -> pa.DoubleArray:
    """Percent to ratio. NULL for text and for anything outside [0, 100]."""
    return pa.array(
        [value / 100 if isinstance(value, int | float) and 0 <= value <= 100 else None for value in values],
        pa.float64(),
    )


def product(dimensions: list[int] | None) -> int | None:
    if not dimensions:
        return None
    total = 1
    for size in dimensions:
        total *= size
    return total if 0 < total < _INT64 else None


_ELEMENT_BYTES = {
    "double": 8, "long": 8, "int64": 8, "float": 4, "float32": 4, "int": 4, "int32": 4, "half": 2, "float16": 2,
    "bfloat16": 2, "short": 2, "byte": 1, "char": 1, "bool": 1, "uint8": 1, "int8": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
}  # fmt: skip


def message_bytes(elements: int | str | float | None, dtype: str | None) -> int | None:
    """Bytes of a collective's input; NULL where the type's size is not known."""
    count, size = whole(elements), _ELEMENT_BYTES.get((dtype or "").lower())
    return count * size if count is not None and count >= 0 and size else None


_NOT_A_TENSOR = frozenset({"", "Scalar", "ScalarList", "GenericList", "TensorList", "Int", "Bool", "Double", "Device",
                           "None", "Generator", "String", "IntList", "Optional", "Stream"})  # fmt: skip


@lru_cache(maxsize=65536)
def tensor_type(types: bytes) -> str | None:
    """The type of the first tensor in an operator's `Input type` list, such as float or c10::BFloat16."""
    if not types:
        return None
    try:
        listed = msgspec.json.decode(types)
    except msgspec.DecodeError:
        return None
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, str) and each not in _NOT_A_TENSOR:
            return each
    return None
