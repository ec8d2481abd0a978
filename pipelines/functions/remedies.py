"""What to try against each cause, in a sentence."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_REMEDIES = {
    "compute": "Compare the device's clocks, power and ECC errors with its peers'; is its share of the batch larger?",
    "throttled": "The device lowers its clock: check cooling, power cap and neighbours, then drain the node.",
    "exposed_comm": "Overlap it with compute (buckets, prefetch); see the links' bandwidth in collective_matches.",
    "waiting_for_rank": "The others wait for that rank: see what it does before the collective.",
    "memcpy": "Copy from pinned memory, without blocking, on a stream of its own.",
    "memset": "Reuse buffers instead of clearing new ones.",
    "runtime": "Launching calls are slow: look for contention on the host and for synchronizing calls.",
    "synchronize": "Take reads of device values (.item(), prints, asserts) out of the step, or read every Nth step.",
    "copy": "Copy from pinned memory, without blocking, ahead of the step.",
    "data_loading": "More loader workers, prefetching, pinned memory, or a cheaper decode.",
    "checkpoint": "Save asynchronously or less often.",
    "compile": "Keep shapes the same, cache compiled kernels, compile before the first step.",
    "communication_host": "Set up process groups and barriers outside the step.",
    "host_work": "Move the annotated work off the thread that launches.",
    "python_or_other": "Python holds the device up: compile the model, use CUDA graphs, or profile the host.",
    "launch_bound": "Kernels are too short for their launches: fuse them, compile the model, or use CUDA graphs.",
    "launch_latency": "Launch ahead: fewer synchronizations, CUDA graphs.",
    "precision": "Use automatic mixed precision, or allow TF32 where the devices have it, if the model bears it.",
    "memory_leak": "Look for tensors kept alive across steps (losses, graphs, caches).",
    "killed_process": "See the node's log at that time: out of memory, preemption, hardware.",
    "redone_steps": "Save more often, or before what ends the job.",
    "pipeline_bubble": "More micro-batches a step, an interleaved schedule, or fewer layers where the wait is least.",
    "mixed": "No class holds half of the excess: open the step in the timeline.",
}  # fmt: skip


def remedy(cause: str) -> Column:
    """What to try against the cause in that column."""
    return F.create_map(*[F.lit(text) for pair in _REMEDIES.items() for text in pair])[F.col(cause)]
