"""What is wrong with a job, in words."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.money import price
from tracelake.pipelines.functions.rules import (
    fp32_products,
    killed_processes,
    memory_leaks,
    pipeline_bubbles,
    redone_steps,
    slow_ranks,
    slow_steps,
    usual_step,
)
from tracelake.pipelines.functions.usual import sent, spent, usual_steps
from tracelake.pipelines.functions.where import ATTEMPT_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters


def findings(
    jobs: DataFrame,
    sources: DataFrame,
    devices: DataFrame,
    annotations: DataFrame,
    job_summary: DataFrame,
    step_ledger: DataFrame,
    step_times: DataFrame,
    idle_causes: DataFrame,
    outlier_steps: DataFrame,
    stragglers: DataFrame,
    kernel_stats: DataFrame,
    device_samples: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """All that the rules find, numbered by the device time at stake; what has none comes last.

    Lost time of different findings may overlap: it is what each alone would save, not parts of a whole.
    """
    usual = usual_steps(step_times, parameters)
    rules = (
        slow_ranks(stragglers),
        slow_steps(outlier_steps),
        usual_step(spent(usual, step_ledger, idle_causes, annotations), kernel_stats, parameters),
        pipeline_bubbles(sent(usual, step_ledger), parameters),
        fp32_products(kernel_stats, devices, parameters),
        memory_leaks(device_samples),
        killed_processes(sources),
        redone_steps(step_ledger),
    )
    found = reduce(DataFrame.unionByName, rules)
    order = Window.partitionBy(*ATTEMPT_KEY).orderBy(
        F.col("lost_ns").desc_nulls_last(), "rule", "cause", "guilty_rank", "guilty_node_id", "step_name"
    )
    device_time = job_summary.select(*ATTEMPT_KEY, "device_time_ns")
    machine = jobs.select("job_id", "instance_type")
    share = F.least(F.col("lost_ns") / F.col("device_time_ns"), F.lit(1.0))
    return (
        found.join(device_time, ATTEMPT_KEY, "left")
        .join(machine, "job_id", "left")
        .withColumns(
            {
                "finding_number": F.row_number().over(order),
                "lost_ratio": F.when(F.col("device_time_ns") > 0, share),
                "lost_cost": price("lost_ns", parameters),
                "metric_version": F.lit(METRIC_VERSION),
            }
        )
        .drop("device_time_ns", "instance_type")
    )
