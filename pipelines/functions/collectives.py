"""Collectives of one rank: which operation, which group, and which number in it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import SLICE_NS
from tracelake.pipelines.functions.where import SOURCE_KEY

_BY_NAME = (
    ("all_reduce", r"(?i)all_?reduce"),
    ("reduce_scatter", r"(?i)reduce_?scatter"),
    ("all_gather", r"(?i)all_?gather"),
    ("all_to_all", r"(?i)all_?to_?all"),
    ("send_recv", r"(?i)send_?recv"),
    ("broadcast", r"(?i)broadcast"),
    ("reduce", r"(?i)reduce"),
)
_ENDS_TOGETHER = r"(?i)all_?reduce|reduce_?scatter|all_?gather|all_?to_?all|barrier|send_?recv"
_POINT_TO_POINT = r"(?i)^i?(?:send|recv)(?:$|_any)|^batch_isend_irecv$|^coalesced$"


def operation_of(name: Column) -> Column:
    """The operation that a communication kernel's name tells; without, the name."""
    found = F.lit(None).cast("string")
    for operation, pattern in reversed(_BY_NAME):
        found = F.when(name.rlike(pattern), F.lit(operation)).otherwise(found)
    return F.coalesce(found, name)


def ends_together(operation: Column) -> Column:
    """Whether no rank can leave before the last has come, so that all ends are one instant."""
    return operation.rlike(_ENDS_TOGETHER)


def is_point_to_point(operation: Column) -> Column:
    """Whether the call has one peer. It is no collective."""
    return operation.rlike(_POINT_TO_POINT)


def sends(collectives: DataFrame, kernels: DataFrame) -> DataFrame:
    """Collectives that are sends or receives between two ranks.

    The arguments must say so: NCCL runs all-to-all in kernels of the same name. Nor may the kernel's name be another
    operation's, since calls of any kind can be coalesced.
    """
    name = operation_of(F.col("short_name"))
    fits = (name == "send_recv") | (name == F.col("short_name"))
    ran = kernels.filter("kernel_class = 'communication'").filter(fits)
    kernel = ran.select(*SOURCE_KEY, F.col("event_id").alias("kernel_id"))
    return collectives.filter(is_point_to_point(F.col("operation"))).join(kernel, [*SOURCE_KEY, "kernel_id"])


def bus_factor(operation: Column, ranks: Column) -> Column:
    """What a link carries for each byte of the message, of a ring of so many ranks."""
    share = (ranks - 1) / ranks
    return (
        F.when(operation.rlike(r"(?i)all_?reduce"), 2 * share)
        .when(operation.rlike(r"(?i)reduce_?scatter|all_?gather|all_?to_?all"), share)
        .otherwise(F.lit(1.0))
    )


def in_order(calls: DataFrame, keys: list[str]) -> DataFrame:
    """Calls (`keys`, start_ns, kernel_id, …) with `order`: their number by time within the keys, from 0.

    Slices of time are counted first, so that no key is one partition.
    """
    piece = F.call_function("div", F.col("start_ns"), F.lit(SLICE_NS))
    cut = calls.withColumn("piece", piece)
    before = Window.partitionBy(*keys).orderBy("piece").rowsBetween(Window.unboundedPreceding, -1)
    counts = cut.groupBy(*keys, "piece").agg(F.count("*").alias("calls"))
    earlier = counts.select(*keys, "piece", F.coalesce(F.sum("calls").over(before), F.lit(0)).alias("earlier"))
    inside = Window.partitionBy(*keys, "piece").orderBy("start_ns", "kernel_id")
    numbered = cut.join(earlier, [*keys, "piece"])
    return numbered.withColumn("order", F.col("earlier") + F.row_number().over(inside) - 1).drop("piece", "earlier")
