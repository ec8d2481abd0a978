"""Takes readings at their interval, in threads of the sidecar: a driver that hangs holds up nothing else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from tracelake.recorder.samplers import Reading, Sampler
from tracelake.recorder.samplers.clock import Clock
from tracelake.recorder.samplers.node import Node
from tracelake.recorder.samplers.nvml import Nvml
from tracelake.recorder.samplers.perf import Counters
from tracelake.recorder.settings import Settings

LOG = logging.getLogger("tracelake.recorder.sidecar")
_COUNTER, _SAMPLE = "counter", "sample"


class Sampling:
    """The samplers of one process: its devices and itself; the first rank of a node samples the node too."""

    def __init__(self, settings: Settings, identity: Mapping[str, Any], clock_offset_ns: int) -> None:
        self._settings = settings
        self._queue: SimpleQueue[tuple[str, list[Reading]]] = SimpleQueue()
        self._ended = threading.Event()
        self.devices: list[dict[str, Any]] = []
        process_id = identity["process_id"]
        is_first = not identity.get("local_rank")
        host: list[tuple[str, Sampler]] = [(_SAMPLE, Node(process_id, machine=is_first))]
        if is_first:
            host.append((_SAMPLE, Clock(clock_offset_ns)))
        if settings.perf_counters:
            host.append((_COUNTER, Counters(process_id, settings.perf_events, cores=is_first)))
        self._threads = [
            threading.Thread(target=self._host, args=(host,), name="sample-host", daemon=True),
            threading.Thread(target=self._device, args=(identity,), name="sample-device", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def take(self) -> list[tuple[str, list[Reading]]]:
        """(raw kind, readings) since the last call."""
        taken = []
        while True:
            try:
                taken.append(self._queue.get_nowait())
            except Empty:
                return taken

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(1.0)

    def _host(self, samplers: Sequence[tuple[str, Sampler]]) -> None:
        self._loop(samplers, self._settings.cpu_profiling_seconds)

    def _device(self, identity: Mapping[str, Any]) -> None:
        nvml = Nvml(None)
        try:
            described = nvml.describe()
            mine = own_devices(described, identity, identity.get("visible_devices"))
        finally:
            nvml.close()
        if not described:
            return
        self.devices = mine
        self._loop([(_SAMPLE, Nvml([device["uuid"] for device in mine]))], None)

    def _loop(self, samplers: Sequence[tuple[str, Sampler]], seconds: float | None) -> None:
        interval = self._settings.sampling_interval_ms / 1000
        started = due = time.monotonic()
        while not self._ended.is_set() and (seconds is None or due - started < seconds):
            for kind, sampler in samplers:
                self._queue.put((kind, sampler.sample()))
            # A tick that is late does not make the next ones bunch up.
            due = max(due + interval, time.monotonic())
            self._ended.wait(due - time.monotonic())
        for _, sampler in samplers:
            sampler.close()


def own_devices(
    described: Sequence[dict[str, Any]], identity: Mapping[str, Any], visible: str | None
) -> list[dict[str, Any]]:
    """The devices that a rank uses, each with the index by which its process knows it.

    CUDA_VISIBLE_DEVICES says what the process sees; where the ranks of a node see the same ones, each takes its own.
    """
    seen = [device for device in described if not device["mig"]]
    if visible is not None:
        by_name = {str(device["index"]): device for device in described if not device["mig"]}
        by_name.update({device["uuid"]: device for device in described})
        seen = []
        for name in visible.split(","):
            found = by_name.get(name.strip())
            if found is None:
                break
            seen.append(found)
    numbered = [{**device, "index": index} for index, device in enumerate(seen)]
    ranks, rank = identity.get("local_world_size"), identity.get("local_rank")
    if ranks and rank is not None and ranks > 1 and len(numbered) >= ranks:
        return [numbered[rank]]
    return numbered
