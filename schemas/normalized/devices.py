"""Devices that a window used."""

from tracelake.schemas.columns import DEVICE_ID, WHERE, count, number, size, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="normalized.devices",
    grain="one row per window and device with events",
    reads=("raw.source", "raw.kernel", "raw.memop"),
    columns=(
        *WHERE,
        DEVICE_ID,
        text("device_uuid", "UUID of the device; NULL where the input does not say.", nullable=True),
        number("device_index", "Index of the device as the process sees it.", nullable=True),
        text("name", "Product name of the device.", nullable=True),
        size("memory_bytes", "Memory of the device.", nullable=True),
        count("sm_count", "Streaming multiprocessors or compute units.", nullable=True),
        text("compute_capability", "Compute capability, such as 9.0.", nullable=True),
    ),
    key=("job_id", "source_id", "device_id"),
    partition_by=("day",),
    may_be_empty=True,
)
