"""Events as bytes: one chunk per lane, each column's numbers one after the other, so that they compress well.

A chunk stands alone but for the table of names: a page may hold few of them, or, later, one tile's at a time.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence

from tracelake.reports.names import bounded, visible
from tracelake.reports.timeline.data import KINDS, EventRow, MergedRow, Rows, Track

MAX_NAMES = 10_000
"""Names that a page keeps, by how often they stand in it; the others become one."""
MAX_NAME_CHARACTERS = 600_000
"""All names together: a program may have made each of them from random bytes."""

Name = tuple[str, str, str, str]
"""Kind, name, its short form, what else is known of it."""


def varints(numbers: Iterable[int]) -> bytes:
    """Numbers from 0 in seven bits a byte, the lowest first.

    >>> varints([0, 127, 300]).hex()
    '007fac02'
    """
    out = bytearray()
    for number in numbers:
        while number > 127:
            out.append(number & 127 | 128)
            number >>= 7
        out.append(number)
    return bytes(out)


def zigzag(number: int) -> int:
    """
    >>> [zigzag(n) for n in (0, -1, 1, -2)]
    [0, 1, 2, 3]
    """
    return 2 * number if number >= 0 else -2 * number - 1


def deltas(numbers: Sequence[int]) -> list[int]:
    """Each number less the one before it; the first stays."""
    return [n - (numbers[i - 1] if i else 0) for i, n in enumerate(numbers)]


def payload(rows: Rows, tracks: Sequence[Track]) -> str:
    """Everything that the page's script reads, compressed, as base64."""
    lanes = [(number, lane, events) for number, t in enumerate(tracks) for lane, events in enumerate(t.lanes)]
    shown = [event for _, _, events in lanes for event in events]
    names, ids = name_table(shown)
    launches = {(e.source_id, e.launch_id): i + 1 for i, e in enumerate(shown) if e.kind == "launch"}
    groups = {name: i + 1 for i, name in enumerate(dict.fromkeys(e.collective for e in shown if e.collective))}
    base = rows.window.start_ns
    chunks: list[tuple[list[object], bytes]] = []
    for number, lane, events in lanes:
        if events:
            data = _event_chunk(events, ids, launches, groups)
            chunks.append((["events", number, lane, len(events), events[0].start_ns - base, len(data)], data))
    for number, track in enumerate(tracks):
        if track.merged:
            ordered = sorted(track.merged, key=lambda m: m.start_ns)
            data = _merged_chunk(ordered)
            chunks.append((["merged", number, 0, len(ordered), ordered[0].start_ns - base, len(data)], data))
    head = _head(rows, tracks, names, list(groups), [c for c, _ in chunks])
    body = json.dumps(head, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    packed = len(body).to_bytes(4, "little") + body + b"".join(data for _, data in chunks)
    return base64.b64encode(zlib.compress(packed, 9)).decode()


def _head(
    rows: Rows, tracks: Sequence[Track], names: Sequence[Name], groups: Sequence[str], chunks: Sequence[object]
) -> dict[str, object]:
    base = rows.window.start_ns
    return {
        "start": str(base),
        "length": rows.window.end_ns - base,
        "kinds": KINDS,
        "names": [[KINDS.index(kind), *map(visible, rest)] for kind, *rest in names],
        "groups": [visible(bounded(g, 120)) for g in groups],
        "marks": [[visible(m.label), m.start_ns - base, m.end_ns - base, m.kind, visible(m.say)] for m in rows.marks],
        "tracks": [
            {"id": t.id, "parent": t.parent, "kind": t.kind, "title": visible(t.title), "note": visible(t.note),
             "lanes": len(t.lanes), "open": t.is_open, "reason": visible(t.reason), "unit": t.unit,
             "samples": [[at - base, value] for at, value in t.samples]}
            for t in tracks
        ],
        "chunks": chunks,
    }  # fmt: skip


def name_table(events: Sequence[EventRow]) -> tuple[list[Name], dict[Name, int]]:
    """The names of the page and the number of each as it stands in an event; rare ones share one per kind."""
    counts = Counter(map(_name, events))
    kept = [name for name, _ in counts.most_common(MAX_NAMES)]
    limit = max(40, MAX_NAME_CHARACTERS // max(1, 2 * len(kept)))
    table: list[Name] = [(k, bounded(n, min(limit, 2_048)), _short(n, s), d[:80]) for k, n, s, d in kept]
    ids = {name: i for i, name in enumerate(kept)}
    rest = {kind: f"a name of {len(counts) - MAX_NAMES} that are not kept" for kind in KINDS}
    for name in counts:
        if name not in ids:
            other = (name[0], rest[name[0]], "", "")
            if other not in ids:
                ids[other] = len(table)
                table.append(other)
            ids[name] = ids[other]
    return table, ids


def _name(event: EventRow) -> Name:
    return (event.kind, event.name, event.short_name or "", event.detail or "")


def _short(name: str, short: str) -> str:
    return "" if short == name else short[:96]


def _event_chunk(
    events: Sequence[EventRow],
    ids: dict[Name, int],
    launches: dict[tuple[str, int | None], int],
    groups: dict[str, int],
) -> bytes:
    links = [0 if e.kind == "launch" else launches.get((e.source_id, e.launch_id), 0) for e in events]
    columns = (
        [0, *deltas([e.start_ns for e in events])[1:]],
        [e.end_ns - e.start_ns for e in events],
        [ids[_name(e)] for e in events],
        [zigzag(d) for d in deltas(links)],
        [groups.get(e.collective or "", 0) for e in events],
        [0 if e.bytes is None else e.bytes + 1 for e in events],
    )
    return b"".join(map(varints, columns))


def _merged_chunk(merged: Sequence[MergedRow]) -> bytes:
    columns = (
        [0, *deltas([m.start_ns for m in merged])[1:]],
        [m.end_ns - m.start_ns for m in merged],
        [m.event_count for m in merged],
        [m.busy_ns for m in merged],
        [KINDS.index(m.kind) for m in merged],
    )
    return b"".join(map(varints, columns))
