"""Readings of resource metrics, taken in the sidecar so that the training process pays nothing for them."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Reading(NamedTuple):
    """One reading; `value` is NULL and `reason` says why where it failed. Columns as in raw.sample."""

    monotonic_ns: int
    entity_kind: str
    entity_id: str
    metric: str
    unit: str
    value: float | None
    is_valid: bool = True
    reason: str | None = None


class Sampler(Protocol):
    """Something that can be read again and again, and never raises: what fails is a reading with a reason."""

    def sample(self) -> list[Reading]: ...

    def close(self) -> None: ...
