"""Chrome trace events out of a byte stream, a batch at a time, whatever state the file is in.

The fast path hands a megabyte to a typed decoder: a stretch that decodes as a JSON array is, by construction, a
run of whole events. Where that fails the stretch is walked event by event: repaired where only a byte or a token is
wrong, set aside where it cannot be read, resumed at the next whole event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracelake.recorder.importers.chunks import ByteStream
from tracelake.recorder.importers.repair import repair

BATCH_BYTES = 1 << 20
_MOST_HEADER_BYTES = 64 << 20
_MOST_EVENT_BYTES = 4 << 20

Id = int | str | float | None


class Args(
    msgspec.Struct,
    gc=False,
    rename={
        "occupancy": "est. achieved occupancy %",
        "collective": "Collective name",
        "in_elements": "In msg nelems",
        "out_elements": "Out msg nelems",
        "group_size": "Group size",
        "group": "Process Group Name",
        "sequence": "Seq",
        "input_types": "Input type",
        "input_dims": "Input Dims",
        "sync_kind": "cuda_sync_kind",
    },
):
    """The arguments that the lake keeps; all others are skipped undecoded."""

    correlation: Id = None
    device: Id = None
    stream: Id = None
    grid: list[int] | None = None
    block: list[int] | None = None
    occupancy: Id = None
    bytes: Id = None
    size: Id = None
    kind: Id = None
    direction: str | None = None
    sync_kind: str | None = None
    collective: str | None = None
    dtype: str | None = None
    in_elements: Id = None
    out_elements: Id = None
    group: Id = None
    group_size: Id = None
    sequence: Id = None
    input_types: msgspec.Raw = msgspec.Raw(b"")
    input_dims: msgspec.Raw = msgspec.Raw(b"")


class Event(msgspec.Struct, gc=False):
    """One trace event. `ts` and `dur` stay text, so that no digit is lost."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: Id = None
    tid: Id = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: Args | None = None


@dataclass(frozen=True)
class Loss:
    """A stretch of the input that could not be read. `rows` is None where damage hides how many rows it held."""

    offset: int
    length: int
    row_index: int
    rows: int | None
    reason: str
    excerpt: bytes


@dataclass
class Batch:
    """Whole events in file order; `first_row` is the row number of the first."""

    events: list[Event]
    first_row: int
    data: bytes
    offset: int
    spans: list[tuple[int, int]] | None = None
    numbers: list[int] | None = None

    def row(self, index: int) -> int:
        """Number in the file of one event."""
        return self.numbers[index] if self.numbers else self.first_row + index

    def span(self, index: int) -> tuple[int, int]:
        """(offset in the uncompressed file, length) of one event. Found only when asked: few rows need it."""
        if self.spans is None:
            self.spans = [
                (self.offset + start, end - start)
                for start, end in _spans(self.data)
                if self.data[start : start + 1] == b"{"
            ]
        return self.spans[index]


@dataclass
class TraceReader:
    """Reads one trace. After iteration: `header`, `losses`, `warnings` by kind, and `cut` if the end is missing.

    `read_bytes` is where the last whole event of a cut file ends. Raises NotATrace where no event array is found.
    """

    stream: ByteStream
    header: dict[str, Any] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    warnings: dict[str, int] = field(default_factory=dict)
    cut: str | None = None
    rows: int = 0
    read_bytes: int = 0

    def __iter__(self) -> Iterator[Batch]:
        self._offset, self._open, self._lost = 0, False, 0
        buffer, tail = b"", bytearray()
        ended = False
        for piece in self.stream:
            if ended:
                tail += piece
                continue
            buffer += piece
            if not self._open:
                buffer = self._open_array(buffer)
            if self._open and len(buffer) >= BATCH_BYTES:
                batch, buffer, ended = self._take(buffer, final=False)
                if batch:
                    yield batch
                if ended:
                    tail += buffer
        if not self._open:
            raise NotATrace("it holds no array of trace events")
        while not ended and buffer.strip(_BLANK):
            before = len(buffer)
            batch, buffer, ended = self._take(buffer, final=True)
            if batch:
                yield batch
            if len(buffer) == before and not ended:
                break
            if ended:
                tail += buffer
        self._close(ended, bytes(tail))

    def _row(self) -> int:
        """Number of the next row: those read in earlier batches and those lost so far."""
        return self.rows + self._lost

    def _open_array(self, buffer: bytes) -> bytes:
        """Consume everything up to the first event. The keys before it are the header."""
        start = _FIRST.match(buffer)
        if not start:
            if buffer.strip(_BLANK + b"\xef\xbb\xbf"):
                raise NotATrace("it does not start with an object or an array")
            return buffer
        if start["what"] == b"[":
            second = _SECOND.match(buffer, start.end())
            if second and second["what"] not in b"{]":
                raise NotATrace("its array holds no objects")
            if second:
                return self._opened(buffer, start.end())
            return buffer
        for found in _EVENTS_KEY.finditer(buffer):
            try:
                head = msgspec.json.decode(repair(buffer[: found.end()] + b"]}", self.warnings))
            except msgspec.DecodeError:
                continue  # the words stand inside a string or a nested object
            if isinstance(head, dict) and head.get("traceEvents") == []:
                head.pop("traceEvents")
                self.header.update(head)
                return self._opened(buffer, found.end())
        if len(buffer) > _MOST_HEADER_BYTES:
            raise NotATrace('it has no "traceEvents" in its first 64 MiB')
        return buffer

    def _opened(self, buffer: bytes, at: int) -> bytes:
        self._open = True
        self._offset = at
        return buffer[at:]

    def _take(self, buffer: bytes, *, final: bool) -> tuple[Batch | None, bytes, bool]:
        """(events, what is left, whether the array ended) from the start of `buffer`."""
        pattern = _LAST_END if final else _SPLIT
        window = max(0, len(buffer) - (len(buffer) if final else 1 << 16))
        cuts = [
            (m.start() + 1, m.end(), m.end() if final else m.start("next")) for m in pattern.finditer(buffer, window)
        ]
        for end, _, rest in cuts[: -9 if len(cuts) > 8 else None : -1]:
            data = buffer[:end]
            try:
                events = _DECODE.decode(b"[" + data + b"]")
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            batch = Batch(events, self._row(), data, self._offset)
            self.rows += len(events)
            self.read_bytes = self._offset + end
            self._offset += rest
            return batch, buffer[rest:], final
        return self._walk(buffer, final=final)

    def _walk(self, buffer: bytes, *, final: bool) -> tuple[Batch | None, bytes, bool]:
        """The slow way through a stretch: event by event, keeping what can be read."""
        events: list[Event] = []
        spans: list[tuple[int, int]] = []
        numbers: list[int] = []
        batch = Batch(events, self._row(), b"", self._offset, spans, numbers)
        at, ended = 0, False
        while True:
            at = _skip(buffer, at)
            if at >= len(buffer):
                break
            if buffer[at : at + 1] == b"]":
                if _ARRAY_END.match(buffer, at) or (final and not buffer[at + 1 :].strip(_BLANK)):
                    at, ended = at + 1, True
                    break
                if not final and not buffer[at + 1 :].strip(_BLANK):
                    break  # what follows tells whether it ends the array
            end = event_end(buffer, at)
            if end is None and not final and len(buffer) - at < _MOST_EVENT_BYTES:
                break
            event = self._decode_one(buffer[at:end]) if end else None
            if event is None:
                at = self._lose(buffer, at, end, final, len(events))
                if at >= len(buffer):
                    break
                continue
            numbers.append(self._row() + len(events))
            events.append(event)
            spans.append((self._offset + at, end - at))  # type: ignore[operator]
            at = end  # type: ignore[assignment]
            self.read_bytes = self._offset + at
        self.rows += len(events)
        self._offset += at
        return (batch if events else None), buffer[at:], ended

    def _decode_one(self, text: bytes) -> Event | None:
        try:
            return _DECODE_ONE.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        try:
            fixed = repair(text, self.warnings)
            return _DECODE_ONE.decode(fixed)
        except msgspec.ValidationError:
            return _tolerant(fixed)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _lose(self, buffer: bytes, at: int, end: int | None, final: bool, done: int) -> int:
        """Set a stretch aside and return where reading resumes: the next place that looks like an event."""
        following = _next_event(buffer, at + 1)
        resume = following if following is not None else (end or len(buffer))
        if end is None and following is None and final:
            self.cut = "file_cut"
            if self.stream.cut is None and not buffer[at:].strip(_BLANK):
                return len(buffer)
        whole = end is not None and resume >= end
        row = self._row() + done
        reason = "unreadable_row" if whole else "cut_row" if end is None and following is None else "damaged"
        stretch = end if whole and end else resume
        self._lost += 0 if reason == "damaged" else 1
        self.losses.append(
            Loss(
                self._offset + at, stretch - at, row, 1 if reason != "damaged" else None, reason, buffer[at : at + 200]
            )
        )
        return stretch

    def _close(self, ended: bool, tail: bytes) -> None:
        if not ended or self.stream.cut:
            self.cut = self.stream.cut or "file_cut"
            return
        self.read_bytes = self.stream.length
        rest = tail.strip(_BLANK).removesuffix(b"}").strip(_BLANK).removeprefix(b",")
        if rest.strip(_BLANK):
            try:
                self.header.update(msgspec.json.decode(repair(b"{" + rest + b"}", self.warnings)))
            except (msgspec.DecodeError, ValueError):
                self.warnings["unreadable_trailer"] = self.warnings.get("unreadable_trailer", 0) + 1
                if not tail.rstrip(_BLANK).endswith(b"}"):
                    self.cut = "file_cut"


class NotATrace(ValueError):
    """The file is something else; the text says what was missing."""


_BLANK = b" \t\r\n"
_DECODE = msgspec.json.Decoder(list[Event])
_DECODE_ONE = msgspec.json.Decoder(Event)
_FIRST = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?P<what>[{\[])")
_SECOND = re.compile(rb"\s*(?P<what>\S)")
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_SPLIT = re.compile(rb'\}\s*,\s*(?P<next>\{)\s*"')
_LAST_END = re.compile(rb'\}\s*\](?=\s*(?:,\s*"|\}|\Z))')
# An event follows a comma; what follows a colon or opens a list is an event's own arguments.
_NEXT_EVENT = re.compile(rb'[,}]\s*(?P<event>\{\s*"(?:ph|name|cat|ts|pid|tid|args)"\s*:)')
# A quote that opens a string without end matches alone: the value ends beyond what is there.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|["{}\[\]]', re.DOTALL)


def event_end(buffer: bytes, at: int) -> int | None:
    """Where the JSON value that opens at `at` ends; None where it does not within `buffer`."""
    depth = 0
    for token in _TOKEN.finditer(buffer, at, min(len(buffer), at + _MOST_EVENT_BYTES)):
        first = token.group()[0]
        if first == 0x22 and len(token.group()) == 1:
            return None
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _next_event(buffer: bytes, at: int) -> int | None:
    """Where the next event seems to open: an object with a phase, not one among an event's arguments."""
    for found in _NEXT_EVENT.finditer(buffer, at):
        start = found.start("event")
        end = event_end(buffer, start)
        if b'"ph"' in buffer[start : end if end is not None else start + _MOST_EVENT_BYTES]:
            return start
    return None


def _skip(buffer: bytes, at: int) -> int:
    """Past blanks and commas between events."""
    match = _BETWEEN.match(buffer, at)
    return match.end() if match else at


_BETWEEN = re.compile(rb"[\s,]*")
_ARRAY_END = re.compile(rb'\]\s*(?:\}|,\s*")')


def _spans(data: bytes) -> Iterator[tuple[int, int]]:
    at = _skip(data, 0)
    while at < len(data):
        end = event_end(data, at)
        if end is None:
            return
        yield at, end
        at = _skip(data, end)


def _tolerant(text: bytes) -> Event | None:
    """An event whose JSON is sound but whose fields have odd types: keep those that can be used."""
    try:
        raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    event = Event(ts=raw.get("ts", msgspec.Raw(b"")), dur=raw.get("dur", msgspec.Raw(b"")))
    for name in ("ph", "cat", "name", "pid", "tid"):
        if name in raw:
            value = msgspec.json.decode(raw[name])
            setattr(event, name, value if isinstance(value, int | float | str) or value is None else str(value))
    for name in ("ph", "name"):
        setattr(event, name, str(getattr(event, name)))
    event.cat = None if event.cat is None else str(event.cat)
    event.args = _tolerant_args(raw.get("args"))
    return event


def _tolerant_args(raw: msgspec.Raw | None) -> Args | None:
    if raw is None:
        return None
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return None
    kept: dict[str, msgspec.Raw] = {}
    for name, value in fields.items():
        try:
            msgspec.json.decode(b"{" + msgspec.json.encode(name) + b":" + bytes(value) + b"}", type=Args)
        except msgspec.DecodeError:
            continue
        kept[name] = value
    return msgspec.json.decode(msgspec.json.encode(kept), type=Args)
