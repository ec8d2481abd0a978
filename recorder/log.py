"""Log lines of the recorder: few, and each said once."""

from __future__ import annotations

import logging

LOG = logging.getLogger("tracelake.recorder")
_said: set[str] = set()


def once(key: str, text: str, *values: object) -> None:
    """Warn, unless this key has been warned about already."""
    if key not in _said:
        _said.add(key)
        LOG.warning(text, *values)
