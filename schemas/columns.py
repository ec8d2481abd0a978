"""Columns that several tables share, each written once."""

from __future__ import annotations

from tracelake.schemas.model import Check, Column, Table, Type, Unit, at_least, between

SENTINEL_NS = 2**62
"""Times at or beyond this are markers that some tools write for "unknown", never instants."""

NOT_SENTINEL = Check("sentinel_time", f"{{column}} > -{SENTINEL_NS} AND {{column}} < {SENTINEL_NS}")
NOT_ZERO_TIME = Check("zero_time", "NOT ({column} = 0 AND duration_ns = 0)")
NOT_NEGATIVE = Check("negative_duration", "{column} >= 0")
A_RATIO = between(0, 1)


def ns(name: str, comment: str, *, nullable: bool = False, checks: tuple[Check, ...] = ()) -> Column:
    return Column(name, Type.BIGINT, comment, Unit.NANOSECOND, nullable, checks)


def duration(name: str, comment: str, *, nullable: bool = False) -> Column:
    return ns(name, comment, nullable=nullable, checks=(at_least(0),))


def count(name: str, comment: str, *, nullable: bool = False) -> Column:
    return Column(name, Type.BIGINT, comment, Unit.COUNT, nullable, (at_least(0),))


def size(name: str, comment: str, *, nullable: bool = False) -> Column:
    return Column(name, Type.BIGINT, comment, Unit.BYTE, nullable, (at_least(0),))


def ratio(name: str, comment: str, *, nullable: bool = True) -> Column:
    return Column(name, Type.DOUBLE, comment, Unit.RATIO, nullable, (A_RATIO,))


def text(name: str, comment: str, *, nullable: bool = False, checks: tuple[Check, ...] = ()) -> Column:
    return Column(name, Type.STRING, comment, None, nullable, checks)


def number(name: str, comment: str, *, nullable: bool = False, checks: tuple[Check, ...] = ()) -> Column:
    return Column(name, Type.BIGINT, comment, None, nullable, checks)


def flag(name: str, comment: str) -> Column:
    return Column(name, Type.BOOLEAN, comment)


def instant(name: str, comment: str) -> Column:
    """Of views: UTC to the microsecond, for reading; nanoseconds stand beside it where they matter."""
    return Column(name, Type.TIMESTAMP, comment, nullable=True)


def length(name: str, comment: str, unit: Unit) -> Column:
    """Of views: a length in a unit that people read."""
    return Column(name, Type.DOUBLE, comment, unit, nullable=True)


def hours(name: str, comment: str) -> Column:
    return length(name, comment, Unit.HOUR)


def ms(name: str, comment: str) -> Column:
    return length(name, comment, Unit.MILLISECOND)


def us(name: str, comment: str) -> Column:
    return length(name, comment, Unit.MICROSECOND)


def of(declared: Table, *names: str) -> tuple[Column, ...]:
    """Columns that a view takes from a table as they are."""
    return tuple(declared.column(name) for name in names)


DAY = Column("day", Type.DATE, "UTC date on which the source's window starts; the partition.")
JOB_ID = text("job_id", "The training job.")
ATTEMPT = Column("attempt", Type.INT, "Restart count of the job, from 0.", checks=(at_least(0),))
SOURCE_ID = text("source_id", "The recorded window of one process that the row comes from.")
NODE_ID = text("node_id", "Host name of the node; NULL where the input does not say.", nullable=True)
RANK = Column("rank", Type.INT, "Rank of the process; NULL where the input does not say.", nullable=True)
DEVICE_ID = text("device_id", "The device: its UUID, else node and index, else rank (or source) and index.")
OPTIONAL_DEVICE_ID = text("device_id", "The device; NULL where the source has no device event.", nullable=True)

WHERE = (DAY, JOB_ID, ATTEMPT, SOURCE_ID, NODE_ID, RANK)
"""Columns that open every event table."""

EVENT_ID = number("event_id", "Number of the event within its source and kind, in file order.")
START = ns("start_ns", "Start, Unix time.", checks=(NOT_SENTINEL, NOT_ZERO_TIME))
END = ns("end_ns", "End, Unix time; the interval is half-open.", checks=(NOT_SENTINEL,))
DURATION = ns("duration_ns", "Length of the interval.", checks=(NOT_NEGATIVE, NOT_SENTINEL))
CORRELATION_ID = number(
    "correlation_id",
    "Id that links a launch to its device events, unique only within the source; ids below 1 join nothing.",
    nullable=True,
)
STREAM_ID = number("stream_id", "Stream on the device.", nullable=True)
THREAD_ID = number("thread_id", "Host thread.", nullable=True)
IS_INFERRED = Column(
    "is_inferred",
    Type.BOOLEAN,
    "Whether it is a step that launches tell, not a marker; NULL in rows of versions before.",
    nullable=True,
)
FLAGS = Column("flags", Type.STRINGS, "Reason codes that apply to the row; empty when none does.")
STEP_NAME = text("step_name", "Name of the step that the launch falls in; NULL outside steps.", nullable=True)
STEP_OCCURRENCE = number(
    "step_occurrence", "Number of the step within its source and step_name, from 0, in time order.", nullable=True
)
ANNOTATION_ID = number(
    "annotation_id", "Innermost host annotation open at the launch; NULL where none was.", nullable=True
)
METRIC_VERSION = Column("metric_version", Type.INT, "Version of the definitions that made the row.")
REASON = text("reason", "Code that says why numbers of the row are NULL.", nullable=True)
