"""Devices, each with where its time went."""

from tracelake.schemas.aggregates.device_ledger import TABLE as LEDGER
from tracelake.schemas.columns import count, hours, number, of, text
from tracelake.schemas.model import View

VIEW = View(
    name="v_devices",
    comment="Every device of every attempt, all its windows together.",
    reads=("aggregates.device_ledger", "normalized.devices"),
    columns=(
        *of(LEDGER, "job_id", "attempt", "node_id", "rank", "device_id"),
        text("device_name", "Product name of the device.", nullable=True),
        number("device_index", "Index of the device as the process sees it.", nullable=True),
        count("window_count", "Windows in which it has events."),
        hours("device_hours", "Recorded time: the sum of the four parts that follow."),
        hours("compute_hours", "With a compute kernel."),
        hours("exposed_comm_hours", "With communication and no compute."),
        hours("exposed_mem_hours", "With a copy or fill and no kernel."),
        hours("idle_hours", "With no device activity."),
        *of(LEDGER, "gpu_active_ratio", "kernel_busy_ratio", "comm_overlap_ratio", "launch_coverage_ratio", "reason"),
    ),
    sql="""
WITH named AS (
  SELECT job_id, attempt, device_id, min(name) AS name, min(device_index) AS device_index, count(*) AS window_count
  FROM devices GROUP BY job_id, attempt, device_id
)
SELECT l.job_id, l.attempt, l.node_id, l.rank, l.device_id, n.name AS device_name, n.device_index,
       n.window_count, l.window_ns / 3.6e12D AS device_hours,
       l.compute_ns / 3.6e12D AS compute_hours, l.exposed_comm_ns / 3.6e12D AS exposed_comm_hours,
       l.exposed_mem_ns / 3.6e12D AS exposed_mem_hours, l.idle_ns / 3.6e12D AS idle_hours, l.gpu_active_ratio,
       l.kernel_busy_ratio, l.comm_overlap_ratio, l.launch_coverage_ratio, l.reason
FROM device_ledger l
JOIN named n ON n.job_id = l.job_id AND n.attempt = l.attempt AND n.device_id = l.device_id
WHERE l.scope = 'job'
""",
)
