"""One row per attempt with the figures that a page opens with."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, count, duration, ns, ratio, text
from tracelake.schemas.model import Column, Identity, Table, Type, one_of
from tracelake.schemas.steps import NO_STEPS_REASONS

MFU_REASONS = ("flops_unknown", "no_steps", "precision_unknown", "peak_unknown", "flops_exceed_peak")

TABLE = Table(
    name="aggregates.job_summary",
    grain="one row per job and attempt",
    reads=(
        "normalized.jobs",
        "normalized.sources",
        "normalized.devices",
        "aggregates.device_ledger",
        "aggregates.step_ledger",
        "aggregates.kernel_stats",
        "aggregates.launch_stats",
        "aggregates.memop_stats",
        "aggregates.precision_stats",
        "normalized.samples",
        "aggregates.rank_stats",
        "aggregates.step_times",
        "normalized.step_periods",
    ),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("status", "complete, running, incomplete or degraded: the worst of its windows."),
        Column("reasons", Type.STRINGS, "Reason codes that the page names."),
        ns("started_ns", "Start of its first window.", nullable=True),
        ns("ended_ns", "End of its last window.", nullable=True),
        count("source_count", "Windows."),
        count("node_count", "Nodes that the input names."),
        count("device_count", "Devices with events."),
        count("ranks_seen_count", "Ranks with a window."),
        count("ranks_expected_count", "Ranks of the job; NULL where unknown.", nullable=True),
        Column(
            "missing_ranks",
            Type.BIGINTS,
            "Ranks without a window, the first 1,000; conflicting ones stand in their own column.",
        ),
        Column("conflicting_ranks", Type.BIGINTS, "Ranks that two overlapping windows claim."),
        duration("device_time_ns", "Recorded time summed over devices, withheld windows left out.", nullable=True),
        duration("withheld_ns", "Recorded time of devices whose window is withheld.", nullable=True),
        duration("compute_ns", "Sum over devices of the ledger's compute.", nullable=True),
        duration("exposed_comm_ns", "Sum over devices of exposed communication.", nullable=True),
        duration("exposed_mem_ns", "Sum over devices of exposed memory.", nullable=True),
        duration("idle_ns", "Sum over devices of idle.", nullable=True),
        duration("sync_idle_ns", "Sum over devices of idle during a blocking synchronization.", nullable=True),
        ratio("gpu_active_ratio", "Active share of device_time_ns."),
        ratio("kernel_busy_ratio", "Share of device_time_ns with any kernel."),
        ratio("comm_overlap_ratio", "Share of communication under compute."),
        ratio("launch_coverage_ratio", "Launch coverage over all windows."),
        ratio("tensor_core_ratio", "Share of compute kernel time in kernels that use tensor cores."),
        ratio("precision_known_ratio", "Share of compute kernel time whose precision is known."),
        duration("fp32_product_ns", "Kernel time of fp32 products outside tensor cores, summed.", nullable=True),
        Column(
            "achieved_flops_per_s", Type.DOUBLE, "What the mean device computes; NULL where unknown.", nullable=True
        ),
        text(
            "flops_source",
            "Who tells its FLOPs: told by the job, or shapes of operators.",
            nullable=True,
            checks=(one_of("told", "shapes"),),
        ),
        Column(
            "peak_flops_per_s", Type.DOUBLE, "What it could at most, in the precision of most products.", nullable=True
        ),
        ratio("mfu_ratio", "The first over the second."),
        text("mfu_reason", "Why there is no mfu_ratio.", nullable=True, checks=(one_of(*MFU_REASONS),)),
        ratio("cpu_util_ratio", "Mean over nodes of the mean over their valid samples."),
        ratio("cpu_active_ratio", "Valid samples of CPU utilization above 0 over valid samples."),
        ratio("gpu_util_sampled_ratio", "Mean of valid samples of the driver's utilization."),
        ratio("gpu_util_sampled_coverage_ratio", "Valid samples of it over all samples of it."),
        count("step_count", "Steps that count in statistics."),
        count("uncovered_step_count", "Steps with launches but no device events."),
        duration("step_median_ns", "Median over steps of the slowest rank's step time.", nullable=True),
        duration("step_max_ns", "Longest step of the slowest rank.", nullable=True),
        Column(
            "is_step_inferred",
            Type.BOOLEAN,
            "Whether those steps are inferred from launches; NULL without steps.",
            nullable=True,
        ),
        count("step_period_launch_count", "Launches of the usual inferred step, in most windows.", nullable=True),
        ratio("step_agreement_ratio", "How well launches repeat in inferred steps, in the window where least."),
        text(
            "no_steps_reason",
            "Why there are neither marked nor inferred steps.",
            nullable=True,
            checks=(one_of(*NO_STEPS_REASONS),),
        ),
        count("slow_step_count", "Steps much longer than usual; NULL where steps were not judged.", nullable=True),
        text("outlier_steps_reason", "Why steps were not judged.", nullable=True),
        count("straggler_count", "Slow ranks; NULL where ranks were not compared.", nullable=True),
        text("stragglers_reason", "Why ranks were not compared.", nullable=True),
        ratio("bubble_ratio", "Median over ranks of their median step's exposed sends and receives in step time."),
        text(
            "bubble_reason",
            "Why there is no bubble_ratio.",
            nullable=True,
            checks=(one_of("no_send_recv", "no_comparable_steps"),),
        ),
        count("kernel_count", "Kernels."),
        count("launch_count", "Launches."),
        count("memop_count", "Copies and fills."),
        duration("kernel_sum_ns", "Sum of kernel durations; overlaps count twice."),
        count("rows_read_count", "Rows found in the inputs."),
        count("rows_quarantined_count", "Rows set aside."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt"),
    cluster_by=("job_id",),
    identities=(
        Identity(
            "parts_sum_to_device_time", "compute_ns + exposed_comm_ns + exposed_mem_ns + idle_ns = device_time_ns"
        ),
        Identity("bubble_or_reason", "bubble_ratio IS NULL OR bubble_reason IS NULL"),
        Identity("mfu_or_reason", "(mfu_ratio IS NULL) = (mfu_reason IS NOT NULL)"),
    ),
)
