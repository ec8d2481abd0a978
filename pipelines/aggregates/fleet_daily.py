"""Where the device time of each day went."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.blame import STEP
from tracelake.pipelines.functions.money import HOUR_NS, price
from tracelake.pipelines.functions.redone import redone_of
from tracelake.pipelines.functions.steps import numbered_steps, of_main_step
from tracelake.pipelines.functions.where import ATTEMPT_KEY, SOURCE_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_DEVICE = [*SOURCE_KEY, "device_id"]
_OWN_STEP = [*SOURCE_KEY, "step_name", "own_occurrence"]


def fleet_daily(
    jobs: DataFrame,
    sources: DataFrame,
    annotations: DataFrame,
    device_ledger: DataFrame,
    idle_causes: DataFrame,
    step_ledger: DataFrame,
    step_times: DataFrame,
    stragglers: DataFrame,
    collective_waits: DataFrame,
    device_samples: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """Each nanosecond of a device goes to the first that applies, and all of them are there.

    Steps are those of the name with most time. Of a recorded window without any, the parts of the ledger stand; with
    them, what lies outside the steps is initialization before the first and `outside_steps` after it.
    """
    steps = _steps(annotations, step_ledger, step_times)
    windows = _parts(device_ledger, idle_causes, "window")
    in_steps = _parts(device_ledger, idle_causes, "step").join(steps, _OWN_STEP)
    told = (
        windows.join(in_steps.select(*_DEVICE).distinct(), _DEVICE, "left_anti"),
        _of_steps(in_steps, stragglers, collective_waits),
        _outside(windows, in_steps, sources, step_ledger),
    )
    days = sources.select(*SOURCE_KEY, "attempt", "day", "node_id")
    recorded = reduce(DataFrame.unionByName, [each.select(*_DEVICE, "cause", "device_ns") for each in told])
    known = recorded.join(days, SOURCE_KEY).select("day", *ATTEMPT_KEY, "node_id", "cause", "device_ns")
    rows = known.unionByName(_not_recorded(device_ledger, sources))
    sums = rows.groupBy("day", *ATTEMPT_KEY, "node_id", "cause").agg(F.sum("device_ns").alias("device_ns"))
    return _valued(sums.filter("device_ns > 0"), jobs, device_samples, parameters)


def _steps(annotations: DataFrame, step_ledger: DataFrame, step_times: DataFrame) -> DataFrame:
    """Steps as events number them, and what takes each of them as a whole, if anything does."""
    again = redone_of(step_ledger).select(*SOURCE_KEY, *STEP[1:], F.lit(True).alias("is_redone"))
    facts = of_main_step(step_times).select(*STEP, "kind")
    mine = step_ledger.select(*SOURCE_KEY, *STEP[1:]).join(facts, STEP)
    whole = F.when(F.col("is_redone"), F.lit("redone_steps")).when(F.col("kind") == "warm_up", F.lit("initialization"))
    return (
        mine.join(again, [*SOURCE_KEY, *STEP[1:]], "left")
        .join(numbered_steps(annotations, step_ledger), [*SOURCE_KEY, "step_name", "step_occurrence"])
        .select(*_OWN_STEP, "attempt", "step_occurrence", whole.alias("whole"))
    )


def _parts(device_ledger: DataFrame, idle_causes: DataFrame, scope: str) -> DataFrame:
    """(`_DEVICE`, step_name, own_occurrence, cause, device_ns) that sum to each window or step of a device."""
    step = [F.col("step_name"), F.col("step_occurrence").alias("own_occurrence")]
    ledger = device_ledger.filter((F.col("scope") == scope) & F.col("device_id").isNotNull())
    named = {"compute_ns": "productive", "exposed_comm_ns": "exposed_comm", "exposed_mem_ns": "exposed_mem"}
    # A whole that is withheld has no parts; its length stands for them.
    withheld = F.when(F.col("compute_ns").isNull(), F.col("window_ns"))
    pairs = [
        F.struct(F.lit(cause).alias("cause"), F.coalesce(value, F.lit(0)).alias("device_ns"))
        for cause, value in (*((cause, F.col(name)) for name, cause in named.items()), ("withheld", withheld))
    ]
    busy = ledger.select(*_DEVICE, *step, F.inline(F.array(*pairs)))
    idle = idle_causes.filter(F.col("scope") == scope).select(
        *_DEVICE, *step, "cause", F.col("idle_ns").alias("device_ns")
    )
    return busy.unionByName(idle)


def _of_steps(in_steps: DataFrame, stragglers: DataFrame, collective_waits: DataFrame) -> DataFrame:
    """The parts of steps; of exposed communication, what is waiting for others where a rank of the attempt is slow."""
    slow = F.broadcast(stragglers.select(*ATTEMPT_KEY).distinct())
    waits = (
        collective_waits.filter("wait_ns > 0 AND step_name IS NOT NULL")
        .join(slow, ATTEMPT_KEY, "left_semi")
        .groupBy(*_DEVICE, "step_name", "step_occurrence")
        .agg(F.sum("wait_ns").alias("wait_ns"), F.lit("exposed_comm").alias("cause"))
    )
    joined = in_steps.join(waits, [*_DEVICE, "step_name", "step_occurrence", "cause"], "left")
    waited = F.when(F.col("whole").isNull(), F.least("device_ns", F.coalesce("wait_ns", F.lit(0)))).otherwise(0)
    split = F.array(
        F.struct(F.coalesce("whole", "cause").alias("cause"), (F.col("device_ns") - waited).alias("device_ns")),
        F.struct(F.lit("straggler_wait").alias("cause"), waited.alias("device_ns")),
    )
    return joined.select(*_DEVICE, F.inline(split))


def _outside(windows: DataFrame, in_steps: DataFrame, sources: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """What of a window with steps lies outside them. Initialization: before the first step of the attempt's process."""
    whole = windows.groupBy(*_DEVICE).agg(F.sum("device_ns").alias("window_ns"))
    inside = in_steps.groupBy(*_DEVICE).agg(F.sum("device_ns").alias("steps_ns"))
    opened = step_ledger.groupBy(*SOURCE_KEY).agg(F.min("start_ns").alias("first_ns"))
    gap = F.greatest(F.col("first_ns") - F.col("window_start_ns"), F.lit(0))
    is_first = F.col("previous_source_id").isNull()
    before = sources.join(opened, SOURCE_KEY).select(*SOURCE_KEY, F.when(is_first, gap).otherwise(0).alias("before_ns"))
    rest = whole.join(inside, _DEVICE).join(before, SOURCE_KEY).withColumn("rest_ns", F.expr("window_ns - steps_ns"))
    early = F.least("before_ns", "rest_ns")
    split = F.array(
        F.struct(F.lit("initialization").alias("cause"), early.alias("device_ns")),
        F.struct(F.lit("outside_steps").alias("cause"), (F.col("rest_ns") - early).alias("device_ns")),
    )
    return rest.select(*_DEVICE, F.inline(split))


def _not_recorded(device_ledger: DataFrame, sources: DataFrame) -> DataFrame:
    """Devices times the attempt's wall time, less what their windows hold, on the attempt's first day."""
    bounds = sources.filter("status <> 'superseded'").groupBy(*ATTEMPT_KEY).agg(
        (F.max("window_end_ns") - F.min("window_start_ns")).alias("wall_ns"), F.min("day").alias("day")
    )  # fmt: skip
    windows = device_ledger.filter("scope = 'window' AND device_id IS NOT NULL")
    devices = windows.groupBy(*ATTEMPT_KEY, "device_id").agg(
        F.min("node_id").alias("node_id"), F.sum("window_ns").alias("window_ns")
    )
    # Windows of one device that overlap hold more than the wall time: then nothing is missing.
    missing = F.greatest(F.col("wall_ns") - F.col("window_ns"), F.lit(0))
    return devices.join(bounds, ATTEMPT_KEY).select(
        "day", *ATTEMPT_KEY, "node_id", F.lit("not_recorded").alias("cause"), missing.alias("device_ns")
    )


def _valued(sums: DataFrame, jobs: DataFrame, device_samples: DataFrame, parameters: Parameters) -> DataFrame:
    power = device_samples.groupBy(*ATTEMPT_KEY, "node_id").agg(F.avg("power_mean_watts").alias("watts"))
    about = jobs.select("job_id", "project", "user", "family", "instance_type")
    node = F.coalesce("node_id", F.lit(""))
    joined = sums.withColumn("node", node).join(about, "job_id", "left").join(
        power.select(*ATTEMPT_KEY, node.alias("node"), "watts"), [*ATTEMPT_KEY, "node"], "left"
    )  # fmt: skip
    return joined.withColumns(
        {
            "cost": price("device_ns", parameters),
            # Of time that was not recorded nobody knows the power.
            "energy_kwh": F.when(
                F.col("cause") != "not_recorded", F.col("device_ns") / HOUR_NS * F.col("watts") / 1_000
            ),
            "metric_version": F.lit(METRIC_VERSION),
        }
    ).drop("node", "watts")
