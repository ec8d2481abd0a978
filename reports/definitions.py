"""What every number on a page means. Labels link here; the page opens the text in place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    title: str
    text: str


_REGRESSION = Definition(
    "Regression",
    "Median step time of a job against the last 20 runs (at least 5) of its project, family, machine type and "
    "world size: beyond max(5 %, 3 times 1.4826 MAD) of their median, and the next run too. MIXED where the next "
    "run is not.",
)
_FLEET = {
    "fleet": Definition(
        "Fleet figures",
        "Allocated: devices times wall time of each attempt, by the UTC day on which a window starts. Productive: what "
        "no cause takes. Cost: hours times the price of the machine type that conf names. Energy: mean power of the "
        "node's devices times recorded time.",
    ),
    "fleet-cause": Definition(
        "Causes of the fleet",
        "Each nanosecond of a device goes to the first that applies: redone step, initialization and warm-up, outside "
        "steps, checkpoint, straggler wait, exposed communication, exposed memory, idle by cause, productive (that is, "
        "compute). Time outside recorded windows is not recorded; windows without a ledger are withheld. The parts add "
        "up exactly.",
    ),
    "regression": _REGRESSION,
    "suspect-node": Definition(
        "Suspect node",
        "A node that findings name as the guilty one in at least 3 jobs within 7 days: a lead, not a verdict.",
    ),
    "run": Definition(
        "Run",
        "One pass of the pipeline over what was new, by whichever command. Succeeded; incomplete, where segments could "
        "not be used and are in quarantine; failed, with the reason. A run that failed leaves nothing half done: the "
        "next one takes in what it did not.",
    ),
    "run-seconds": Definition(
        "Stages of a run",
        "Normalize: raw rows to events. Aggregate: events to statistics of each job. Check: what must hold in each "
        "table. The rest is the search for what is new and the ledgers.",
    ),
    "delivery": Definition(
        "Delivery",
        "The link and the key figures of a job, as put into MLflow, Weights & Biases or a webhook. One that failed is "
        "tried again by the next night, until it succeeds.",
    ),
}
_DEVICES = {
    "findings": Definition(
        "Findings",
        "What rules find in the tables of this job. Cost is the device time at stake, summed over devices: what curing "
        "this one thing alone may save. Findings overlap and are not added up. Evidence names the rows that prove it: "
        "a table, a predicate, and what stands there.",
    ),
    "gpu-active": Definition(
        "GPU active",
        "Share of the recorded window in which a device runs anything: a kernel, a copy or a fill. Overlapping work "
        "counts once. For a job, active time over the recorded time of all devices; windows whose device numbers are "
        "withheld are in neither.",
    ),
    "kernel-busy": Definition(
        "Kernel busy", "Share of the recorded window in which a device runs a kernel; copies and fills do not count."
    ),
    "compute": Definition("Compute", "Time in which a device runs at least one kernel that is not communication."),
    "exposed-comm": Definition(
        "Exposed communication",
        "Time in which a device runs a communication kernel and no compute kernel: communication that nothing hides.",
    ),
    "exposed-mem": Definition(
        "Exposed memory", "Time in which a device only copies or fills memory, with no kernel beside it."
    ),
    "sync-idle": Definition(
        "Synchronization",
        "Idle device time during which a thread of the process sits in a blocking synchronization call.",
    ),
    "other-idle": Definition("Other idle", "Device time with no activity and no blocking synchronization."),
    "device-ledger": Definition(
        "Device time",
        "Each instant of a device's window belongs to the first that applies of compute, exposed communication, "
        "exposed memory, synchronization, other idle. The parts sum to the window exactly, in whole nanoseconds.",
    ),
    "idle-causes": Definition(
        "Idle by cause",
        "Each gap in a device's activity belongs to the launch that ends it. Until that launch begins, to what its "
        "thread was doing: data loading, synchronization, a copy, compiling, a checkpoint, communication on the host, "
        "else Python or other. From there, up to 30 us to launch latency; the rest to a dependency on another stream, "
        "to the queue, or to unknown, as are the gap after the last event and gaps without a known launch. The causes "
        "sum to idle exactly.",
    ),
    "goodput": Definition(
        "Goodput",
        "Device time inside steps that count, over all attempts of a job: its allocation (devices × wall time) less "
        "initialization and warm-up steps, checkpoints, redone steps, time outside steps, and what is withheld or not "
        "recorded. Communication and idle time inside steps are goodput, and not productive. Ratios are over the known "
        "allocation; where more than 10 % is unknown there are none. Gaps between attempts are in no allocation.",
    ),
    "window": Definition(
        "Recorded window",
        "From start to stop as the recorder says; for imported files, from the first event to the end of the last. "
        "A capture that was cut ends at its last device event. Gaps between windows are in no denominator.",
    ),
    "comm-overlap": Definition(
        "Communication overlap",
        "Share of communication kernel time with a compute kernel running beside it. Unknown without communication.",
    ),
    "launch-coverage": Definition(
        "Launch coverage",
        "Share of the calls that should start a kernel for which a kernel was recorded; calls under stream capture are "
        "left out. Below 95 % the device numbers of that window are withheld, since lost kernels would look like idle "
        "time (low_launch_coverage).",
    ),
    "gpu-util-sampled": Definition(
        "GPU utilization, sampled",
        "The driver's own reading: share of its sampling period with any kernel running. It is another metric than "
        "GPU active, averages valid samples only and stands next to their share.",
    ),
    "cpu-util": Definition("CPU utilization", "Mean over a node's cores of its valid samples."),
    "cpu-active": Definition("CPU active", "Share of a node's valid CPU samples that are above 0."),
    "buckets": Definition(
        "Utilization over time",
        "The window is cut into buckets and the metric computed in each. Hatched stretches were not recorded, or "
        "their numbers are withheld; they are not 0. A node's value is the mean over its devices.",
    ),
}
_STEPS = {
    "step-time": Definition(
        "Step time",
        "Duration of the step's annotation on its host thread. Across ranks, a step takes as long as on its slowest "
        "rank. Steps cut by the end of the recording do not count; one with launches but no device event has a time "
        "and no parts. Without markers steps are inferred: each ends with the "
        "optimizer's last kernel, else with its last communication, else where launches begin to repeat.",
    ),
    "step-median": Definition("Median step time", "Median over the steps of the slowest rank's step time."),
    "step-bins": Definition(
        "Step-time distribution",
        "Count of steps by the slowest rank's step time. Bins are half-open; their width is 1, 2 or 5 times a power "
        "of ten.",
    ),
    "step-ledger": Definition(
        "What a step is made of",
        "Each instant of a step goes to the first that applies of compute kernel, exposed communication, copy or "
        "fill, runtime call, data loading, other annotated host work, other. The parts sum to the step time exactly.",
    ),
}
_CAUSES = {
    "outlier-step": Definition(
        "Outlier step",
        "A step whose time is far from the median of the steps like it: training, checkpoint and evaluation are "
        "compared apart, warm-up with none. Score: distance in robust spreads (1.4826 MAD). Cause: the class of the "
        "step that grew most, on the rank whose own work grew; confidence is the share of the excess that it covers "
        "times the share of ranks seen.",
    ),
    "collective-wait": Definition(
        "Waiting in collectives",
        "A collective's transfer is its shortest duration over the ranks; what a rank's kernel takes longer is its "
        "wait for the last one, which waits least. Only for collectives that are matched reliably across ranks.",
    ),
    "bus-bandwidth": Definition(
        "Bus bandwidth", "What each link carries of the message in a ring, over the transfer time; the median."
    ),
    "own-work": Definition(
        "Own work",
        "A rank's step time without what communication held it. Excess: its own work above the lower median of its "
        "peers' in the same step. Slow: in the median step beyond both thresholds; cost is what all ranks lose by it.",
    ),
    "critical-path": Definition(
        "Critical path",
        "All ranks leave a collective of all at one instant; between two of them the path lies on the rank that came "
        "last to the second, on its own clock. Its classes are those of the step ledger.",
    ),
    "what-if": Definition(
        "What if",
        "The recorded steps run again in a simple model in which one thing is otherwise; the assumption stands beside "
        "it. Scenarios overlap and are not added up.",
    ),
    "clock-alignment": Definition(
        "Clocks",
        "Collectives end together on all ranks, which tells how far a clock is off; ranks of one host share theirs. "
        "Residual: median distance from that line; shorter skews are not resolvable.",
    ),
    "device-samples": Definition(
        "Samples of devices",
        "What the driver reads out: mean power, median clock, share of readings with the clock lowered by heat or a "
        "power brake, most memory in use. Memory that only grows over the recorded time counts as a leak.",
    ),
}
_KERNELS = {
    "kernel-time": Definition(
        "Kernel time, sum",
        "Sum of the durations of a kernel's executions on all devices. Kernels that run side by side both count in "
        "full, so sums may exceed the window. A kernel that outlasts the next one of its stream is cut there.",
    ),
    "kernel-share": Definition("Share of kernel time", "Kernel time over the sum of the durations of all kernels."),
    "kernel-class": Definition(
        "Kernel class",
        "What kind of work a kernel does, from a versioned, ordered list of rules on its function name.",
    ),
    "launch-count": Definition("Executions", "How often a kernel ran; launches through one graph count one by one."),
    "percentile": Definition("Mean, median, p99", "Over single durations; p99 is exceeded by one in a hundred."),
    "precision": Definition(
        "Precision",
        "Input type of a kernel's math. From the data type of the operator or collective that it belongs to where "
        "that is known, else from its name, else unknown. Shares are of compute kernel time, communication left out.",
    ),
    "pipeline-bubble": Definition(
        "Pipeline bubbles",
        "Time of a step in which a device runs a send or receive, named so by its arguments, and no compute, over "
        "step time: the median step of the median rank. Stages wait so for each other; bare transfers count too.",
    ),
    "mfu": Definition(
        "Model FLOPs utilization",
        "Floating-point operations per second of the mean device, over what it could do at most in the precision of "
        "most products. From what the job tells of a step (model_flops_per_step), else from the shapes of products.",
    ),
    "tensor-core": Definition(
        "Tensor cores", "Share of compute kernel time in kernels that use tensor or matrix cores, by the rule list."
    ),
}
_HOST = {
    "memop-time": Definition("Time of memory operations", "Sum of the durations of copies or fills of one kind."),
    "memop-bytes": Definition("Bytes", "Bytes moved or filled by the operations whose size is known."),
    "memop-rate": Definition("Rate", "Those bytes over the duration of the same operations; 1 GB/s is 10⁹ B/s."),
    "launches": Definition("Launches", "Host calls that start device work: kernels, graphs, copies and fills."),
    "launch-delay": Definition(
        "Launch delay",
        "From the start of a launch to the start of the first thing that it started. Negative delays, which the clocks "
        "forbid, are counted and never averaged.",
    ),
    "short-kernel": Definition("Kernels shorter than their launch", "Kernels that take less time than their call."),
    "slow-launch": Definition("Slow launch", "A call that takes more than 50 µs of host time."),
    "long-delay": Definition("Long delay", "A delay above 100 µs although the stream was free."),
    "before-launch": Definition(
        "Before its launch",
        "Device work that seems to start before the call that started it: the device's clock is off. Such delays are "
        "unknown and no time is shifted silently.",
    ),
    "annotation": Definition(
        "Annotation",
        "A range that the program named, by its name without a trailing number. The sum of durations counts nested "
        "ranges of one name twice; ranges never closed have no duration.",
    ),
    "gpu-time": Definition(
        "GPU time of an annotation",
        "Device time, overlaps counted once per device, of the work launched while it was open, ranges inside it "
        "included. Late execution does not move it.",
    ),
}
_RECORD = {
    "run-before": Definition(
        "Run before",
        "The last job before this one of the same project, family, machine type and world size, by its latest attempt. "
        "Changes of times are relative, of shares in points. Kernels are compared by name: their time per step "
        "and device that ran them.",
    ),
    "regression": _REGRESSION,
    "status": Definition(
        "Capture status",
        "The worst of the windows: complete; running; incomplete (cut, interrupted, or ranks missing); degraded "
        "(losses or failed guards make numbers doubtful).",
    ),
    "rows": Definition(
        "Rows", "Every row read is stored, quarantined, dropped as an exact copy or skipped by kind: the four add up."
    ),
    "quarantine": Definition(
        "Quarantine",
        "Rows that cannot be true, or cannot be read, set aside with place, reason and remedy. Above 1 % of the rows "
        "a job is not published.",
    ),
    "check": Definition(
        "Check",
        "Something that must hold in a table: that it has rows, that no key comes twice, that a ledger's parts sum to "
        "the whole in each row, that few rows fail, and what each row must fulfil. Rows that break a check of "
        "severity fail are set aside; those that break a warn check stay and are counted.",
    ),
    "check-outcome": Definition(
        "Outcome of a check",
        "Passed; failed; warned, where it only warns; not evaluated, where a table or column that may be empty is; "
        "raised, where it could not be evaluated: then it has not passed.",
    ),
    "publication": Definition(
        "Publication",
        "A broken key, a broken identity of a ledger, an empty table that must not be, more than 1 % of a table's rows "
        "failing, or a check that raised stops a job's publication. Its pages are written all the same and say so.",
    ),
    "ranks": Definition(
        "Ranks",
        "Ranks with a usable window, of those that the job should have. Two overlapping windows that claim one rank "
        "are both kept and count as missing where ranks are compared.",
    ),
}
OF_A_JOB = {**_DEVICES, **_STEPS, **_CAUSES, **_KERNELS, **_HOST, **_RECORD}
DEFINITIONS = {**OF_A_JOB, **_FLEET}
