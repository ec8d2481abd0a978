"""Write simulated raw data of which the truth is known, and print it: a fleet, a set of small jobs, or one wide job."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from tracelake.recorder.simulate import JobTruth, simulate_fleet, simulate_jobs, simulate_wide
from tracelake.recorder.simulate.labelled import clean, labelled


def describe(job: JobTruth) -> str:
    """One line: size, fault and what it costs."""
    counts, parts = job.counts, [f"{job.job_id}: {job.fault}, {job.state}"]
    parts.append(f"{job.world_size} ranks, {counts['kernel']:,} kernels, {sum(counts.values()):,} events")
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


def _fleet(arguments: argparse.Namespace) -> str:
    truth = simulate_fleet(arguments.lake, seed=arguments.seed, scale=arguments.scale)
    for job in truth.jobs:
        print(describe(job))
    return f"{truth.events_count:,} events of {truth.day} with seed {truth.seed}"


def _set(arguments: argparse.Namespace) -> str:
    make, count = (labelled, arguments.labelled) if arguments.labelled else (clean, arguments.clean)
    jobs = make(arguments.seed, count)
    truth = simulate_jobs(arguments.lake, jobs, seed=arguments.seed, workers=arguments.workers)
    for kind, number in sorted(Counter(fault.kind for job in truth.jobs for fault in job.faults).items()):
        print(f"{kind}: {number} jobs")
    healthy = sum(not job.faults for job in truth.jobs)
    return f"{len(truth.jobs)} jobs, {healthy} without any fault, {truth.events_count:,} events with seed {truth.seed}"


def _wide(arguments: argparse.Namespace) -> str:
    wide = simulate_wide(arguments.lake, ranks=arguments.wide, steps=arguments.steps, seed=arguments.seed)
    cost = sum(wide.excess_ns.values()) / 1e9
    slow = f"rank {wide.slow_rank} of {wide.ranks} computes {wide.slow_ratio:.0%} longer, {cost:.3f} s in all"
    return f"{wide.events_count:,} events in {len(wide.source_ids)} windows, {wide.steps} steps; {slow}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tracelake.recorder.simulate", description=__doc__)
    parser.add_argument("lake", type=Path, help="folder of the lake; raw segments go below raw/v1")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of steps of the fleet")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--labelled", type=int, metavar="N", help="instead N small jobs with faults; truth/ says which")
    kinds.add_argument("--clean", type=int, metavar="N", help="instead N small jobs in which nothing must be found")
    kinds.add_argument("--wide", type=int, metavar="RANKS", help="instead one coarse job on so many ranks")
    parser.add_argument("--steps", type=int, default=1_000, help="of the wide job")
    parser.add_argument("--workers", type=int, default=1, help="processes that write a set of jobs")
    arguments = parser.parse_args()
    write = _set if arguments.labelled or arguments.clean else _wide if arguments.wide else _fleet
    print(f"{write(arguments)} in {arguments.lake}")


if __name__ == "__main__":
    main()
