"""One section of the check, in this process: NAME FOLDER. The last line of its output is its result as JSON."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def machine(folder: Path) -> dict[str, Any]:
    """What there is: the driver's devices, the shim, libcupti, and PyTorch's version; `no_gpu` says why not."""
    from tracelake.recorder.capture import Unavailable
    from tracelake.recorder.capture.driver import devices
    from tracelake.recorder.capture.libraries import driver, find_shim

    result: dict[str, Any] = {"python": sys.version.split()[0]}
    try:
        import torch

        result |= {"torch": torch.__version__, "torch_sees_gpu": torch.cuda.is_available()}
    except ImportError:
        result["torch"] = None
    try:
        result["devices"] = devices(driver(initialize=True))
    except Unavailable as error:
        return {**result, "no_gpu": f"{error.code}: {error}"}
    try:
        result["shim"] = str(find_shim())
    except Unavailable as error:
        result["shim"] = f"{error.code}: {error}"
    return result


def _find(name: str) -> Callable[[Path], dict[str, Any]]:
    if name == "machine":
        return machine
    from bench.gpu import events, meters, overhead, product

    for module in (events, meters, overhead, product):
        if found := getattr(module, name, None):
            return found  # type: ignore[no-any-return]
    raise KeyError(name)


def main() -> None:
    try:
        result = _find(sys.argv[1])(Path(sys.argv[2]))
    except Exception as error:  # noqa: BLE001 -- a section that fails is a result
        result = {"error": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-1500:]}
    sys.stdout.flush()
    print("\n" + json.dumps(result, default=str), flush=True)


if __name__ == "__main__":
    main()
