"""Numbers as a reader wants them: three significant digits, one unit per value, no-break spaces inside."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

NBSP = "\u00a0"
THIN = "\u202f"
"""Narrow no-break space: between thousands."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME_UNITS = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))
_AXIS_UNITS = (*_TIME_UNITS, (60_000_000_000, "min"), (3_600_000_000_000, "h"))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_RATE_UNITS = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s")
_FLOP_UNITS = ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s")


def three_digits(value: float) -> str:
    """Three significant digits without trailing zeros; whole numbers keep all of theirs.

    >>> [three_digits(x) for x in (7.6242, 0.5, 85.0, 948.2, 12345.6)]
    ['7.62', '0.5', '85', '948', '12346']
    """
    return f"{value:.3g}" if abs(value) < 999.5 else f"{round(value)}"


def _grouped(digits: str) -> str:
    return digits.replace(",", THIN)


def count(value: int) -> str:
    """
    >>> count(26538)
    '26\u202f538'
    """
    return _grouped(f"{value:,}").replace("-", "−")


def duration(ns: float) -> str:
    """
    >>> [duration(x) for x in (0, 640, 85_000, 7_624_200, 1_840_000_000, 185e9)]
    ['0\xa0s', '640\xa0ns', '85\xa0µs', '7.62\xa0ms', '1.84\xa0s', '3\xa0m\xa005\xa0s']
    """
    if ns < 0:
        return "−" + duration(-ns)
    if ns == 0:
        return f"0{NBSP}s"
    for scale, unit in _TIME_UNITS:
        text = three_digits(ns / scale)
        if float(text) < (1000 if unit != "s" else 60):
            return f"{text}{NBSP}{unit}"
    return _clock(round(ns / 1_000_000_000))


def _clock(seconds: int) -> str:
    minutes, s = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}{NBSP}m{NBSP}{s:02d}{NBSP}s"
    hours, m = divmod(round(seconds / 60), 60)
    if hours < 24:
        return f"{hours}{NBSP}h{NBSP}{m:02d}{NBSP}m"
    days, h = divmod(round(seconds / 3600), 24)
    return f"{days}{NBSP}d{NBSP}{h:02d}{NBSP}h"


def percent(ratio: float) -> str:
    """
    >>> [percent(x) for x in (0, 0.0002, 0.0694, 0.0996, 0.4423, 1)]
    ['0\xa0%', '<\xa00.1\xa0%', '6.9\xa0%', '10\xa0%', '44\xa0%', '100\xa0%']
    """
    if ratio < 0:
        return "−" + percent(-ratio)
    if 0 < ratio < 0.0005:
        return f"<{NBSP}0.1{NBSP}%"
    digits = 1 if 0 < ratio < 0.0995 else 0
    return f"{100 * ratio:.{digits}f}{NBSP}%"


def size(n: int) -> str:
    """
    >>> [size(x) for x in (0, 512, 2048, 660_480, 34_359_738_368)]
    ['0\xa0B', '512\xa0B', '2\xa0KiB', '645\xa0KiB', '32\xa0GiB']
    """
    value = float(n)
    for unit in _BYTE_UNITS:
        text = three_digits(value)
        if float(text) < 1000 or unit == _BYTE_UNITS[-1]:
            break
        value /= 1024
    return f"{text}{NBSP}{unit}"


def rate(n: int, ns: int) -> str:
    """Bytes over nanoseconds, in powers of 1000.

    >>> rate(64 * 90 * 1024, 4_150_000), rate(10, 0)
    ('1.42\xa0GB/s', '–')
    """
    return _in_thousands(n / ns * 1e9, _RATE_UNITS) if ns > 0 else "–"


def flops(per_second: float) -> str:
    """
    >>> flops(1.234e14), flops(5e8)
    ('123\xa0TFLOP/s', '500\xa0MFLOP/s')
    """
    return _in_thousands(per_second, _FLOP_UNITS)


def _in_thousands(value: float, units: tuple[str, ...]) -> str:
    for unit in units:
        text = three_digits(value)
        if float(text) < 1000 or unit == units[-1]:
            break
        value /= 1000
    return f"{text}{NBSP}{unit}"


def utc(ns: int, *, digits: int = 0) -> str:
    """An instant, ISO date and UTC said.

    >>> utc(1694128201421000000), utc(1694128201421000000, digits=3)
    ('2023-09-07\xa023:10:01\xa0UTC', '2023-09-07\xa023:10:01.421\xa0UTC')
    """
    try:
        at = _EPOCH + timedelta(seconds=ns // 1_000_000_000)
    except OverflowError:  # a clock that was never set
        return f"{ns}{NBSP}ns since 1970"
    fraction = f".{ns % 1_000_000_000:09d}"[: digits + 1] if digits else ""
    return f"{at:%Y-%m-%d}{NBSP}{at:%H:%M:%S}{fraction}{NBSP}UTC"


def axis_unit(largest_ns: float) -> tuple[int, str]:
    """The unit of a time axis: nanoseconds per unit, and its name.

    >>> axis_unit(20_700_000), axis_unit(90e9), axis_unit(300e9)
    ((1000000, 'ms'), (1000000000, 's'), (60000000000, 'min'))
    """
    chosen = _AXIS_UNITS[0]
    for scale, unit in _AXIS_UNITS:
        if largest_ns >= (scale if scale <= 1_000_000_000 else 3 * scale):
            chosen = (scale, unit)
    return chosen


def nice_width(span: int, bins: int) -> int:
    """The smallest width of the series 1, 2, 5, 10, … that covers the span in at most so many bins.

    >>> nice_width(0, 40), nice_width(35, 40), nice_width(1_000_000, 40)
    (1, 1, 50000)
    """
    width = 1
    for factor in _series():
        width = factor
        if width * bins > span:
            break
    return width


def _series() -> list[int]:
    return [step * 10**power for power in range(19) for step in (1, 2, 5)]


def plural(n: int, one: str, many: str | None = None) -> str:
    """
    >>> plural(1, "step"), plural(1369, "launch", "launches")
    ('1\xa0step', '1\u202f369\xa0launches')
    """
    return f"{count(n)}{NBSP}{one if n == 1 else many or one + 's'}"
