"""Kernel names of a spool: by id, demangled once each."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable
from pathlib import Path

from tracelake.recorder.spool import NAMES

_UNKNOWN = "<unknown>"


class Names:
    """Grows with the spool's names.tsv."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAMES
        self._offset = 0
        self._names: dict[int, str] = {}
        self._demangle = demangler()

    def refresh(self) -> None:
        """Read the names written since. A torn last line is left for the next time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.split(b"\n")[:-1]:
            number, _, name = line.partition(b"\t")
            if number.isdigit():
                self._names[int(number)] = self._demangle(name.decode("utf-8", "backslashreplace"))

    def of(self, number: int) -> str:
        return self._names.get(number, _UNKNOWN)


def demangler() -> Callable[[str], str]:
    """C++ names as people write them, by the C++ runtime's own function; names stay as they are without it."""
    library = _cxx()
    if library is None:
        return lambda name: name
    function = library.__cxa_demangle
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]

    def demangle(name: str) -> str:
        if not name.startswith("_Z"):
            return name
        status = ctypes.c_int()
        text = function(name.encode(), None, None, ctypes.byref(status))
        if not text:
            return name
        try:
            return ctypes.string_at(text).decode("utf-8", "backslashreplace")
        finally:
            free(text)

    return demangle


def _cxx() -> ctypes.CDLL | None:
    for name in ("libstdc++.so.6", ctypes.util.find_library("stdc++"), ctypes.util.find_library("c++abi")):
        if name:
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
    return None
