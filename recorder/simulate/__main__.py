"""`python -m tracelake.recorder.simulate LAKE [--seed N] [--scale X]`: write the fleet, print what is true of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from tracelake.recorder.simulate import JobTruth, simulate_fleet


def describe(job: JobTruth) -> str:
    """One line: size, fault and what it costs."""
    counts, parts = job.counts, [f"{job.job_id}: {job.fault}, {job.state}"]
    parts.append(f"{len(job.devices)} ranks, {counts['kernel']:,} kernels, {sum(counts.values()):,} events")
    if job.guilty_node_id:
        ranks = ", ".join(map(str, job.guilty_ranks))
        parts.append(f"guilty {job.guilty_node_id}, rank {ranks}")
    if job.excess_ns:
        total = sum(job.excess_ns.values()) / 1e9
        parts.append(f"costs {total:.3f} s over {len(job.excess_ns)} steps")
    ahead = {name: offset for name, offset in job.clock_offsets_ns.items() if offset}
    parts += [f"clock of {name} {offset / 1e6:g} ms ahead" for name, offset in ahead.items()]
    parts += [f"no closing row in {name}" for name in job.interrupted_source_ids]
    return "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tracelake.recorder.simulate", description=__doc__)
    parser.add_argument("lake", type=Path, help="folder of the lake; raw segments go below raw/v1")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of steps")
    arguments = parser.parse_args()
    truth = simulate_fleet(arguments.lake, seed=arguments.seed, scale=arguments.scale)
    for job in truth.jobs:
        print(describe(job))
    print(f"{truth.events_count:,} events of {truth.day} with seed {truth.seed} in {arguments.lake}")


if __name__ == "__main__":
    main()
