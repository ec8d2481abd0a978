"""What several panels need: labels of devices and ranks, parts of a whole as chart values and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracelake.reports import format as f
from tracelake.reports.charts import Values
from tracelake.reports.html import figure
from tracelake.reports.metric_rows import Bin, Device, RankSteps
from tracelake.reports.names import label
from tracelake.reports.words import Part

LABEL = 24
"""Characters of a row's label on a chart."""


def tokens(parts: Sequence[Part]) -> dict[str, str]:
    return {p.word: p.token for p in parts}


def values(
    row: tuple[str, str] | None, amounts: Mapping[str, int], whole: int, parts: Sequence[Part], scale: int = 1
) -> Values:
    """Chart values of one row's parts, in stack order; row is the axis field and its label."""
    return [
        {
            **({row[0]: row[1]} if row else {}),
            "c": p.word,
            "v": round(amounts[p.column] / scale, 6),
            "o": order,
            "b": f.duration(amounts[p.column]),
            "e": share(amounts[p.column], whole),
        }
        for order, p in enumerate(parts)
        if amounts.get(p.column)
    ]


def bin_values(bins: Sequence[Bin], scale: int) -> Values:
    """A histogram's bars. The last bin may hold all that is far longer: it is drawn as wide as the others, in grey."""
    width, total = _width(bins), sum(b.count for b in bins)
    return [_bin(b, width, scale, total) for b in bins]


def _width(bins: Sequence[Bin]) -> int:
    return min((b.high_ns - b.low_ns for b in bins), default=1)


def _bin(b: Bin, width: int, scale: int, total: int) -> dict[str, object]:
    is_rest = b.high_ns - b.low_ns > width
    low = b.low_ns + (width if is_rest else 0)
    return {
        "x0": round(low / scale, 6),
        "x1": round((low + width) / scale, 6),
        "n": b.count,
        "w": f"{f.duration(b.low_ns)} – {f.duration(b.high_ns)}",
        "s": f.count(b.count),
        "e": share(b.count, total),
        "k": "rest" if is_rest else "bin",
    }


def bins_foot(bins: Sequence[Bin], what: str) -> str:
    if not bins:
        return ""
    width, last = _width(bins), bins[-1]
    foot = f"Bins of {f.duration(width)}."
    if last.high_ns - last.low_ns > width:
        foot += f" The grey bar stands for the {f.plural(last.count, what)} above {f.duration(last.low_ns)}."
    return foot


def share(part: int, whole: int) -> str:
    return f.percent(part / whole) if whole else "–"


def time(ns: int, definition: str) -> str:
    return figure(f.duration(ns), definition)


def percent(ratio: float, definition: str) -> str:
    return figure(f.percent(ratio), definition)


def count(n: int, definition: str) -> str:
    return figure(f.count(n), definition)


def device_labels(devices: Sequence[Device]) -> list[str]:
    """A short, unique label per device: its rank alone where that tells it, else with its GPU, else by its node."""
    ranks = [d.rank for d in devices]
    if all(r is not None for r in ranks) and len(set(ranks)) == len(ranks):
        return [f"rank {r}" for r in ranks]
    labels = [_device_label(d) for d in devices]
    return _unique(labels)


def _device_label(d: Device) -> str:
    which = f"GPU {d.device_index}" if d.device_index is not None else label(d.device_id or "no device", LABEL)
    where = f"rank {d.rank} · " if d.rank is not None else f"{label(d.node_id, 14)} · " if d.node_id else ""
    return where + which


def rank_labels(rows: Sequence[RankSteps]) -> list[str]:
    return _unique([f"rank {r.rank}" if r.rank is not None else label(r.node_id or r.source_id, LABEL) for r in rows])


def _unique(labels: list[str]) -> list[str]:
    """Labels that are the same in spite of all get a number: two rows must never fall into one."""
    seen: dict[str, int] = {}
    out = []
    for words in labels:
        seen[words] = seen.get(words, 0) + 1
        out.append(words if seen[words] == 1 else f"{words} ({seen[words]})")
    return out
