"""How long a job's steps would take if something were otherwise: by a simple model, with its assumption stated."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, count, duration, text
from tracelake.schemas.model import Column, Identity, Table, Type, Unit, one_of

SCENARIOS = ("rank_as_peers", "node_as_peers", "all_ranks_as_peers", "communication_hidden", "data_loading_free")

TABLE = Table(
    name="aggregates.what_if",
    grain="one row per attempt, scenario and subject",
    reads=("aggregates.step_ledger", "aggregates.rank_steps", "aggregates.stragglers"),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("scenario", "What would be otherwise.", checks=(one_of(*SCENARIOS),)),
        text("subject", "The rank or node of which it is said; * for all."),
        text("step_name", "Name of the steps, that with most time."),
        count("step_count", "Steps that the model covers."),
        duration("baseline_ns", "Their recorded time on the slowest rank, summed."),
        duration("predicted_ns", "The same in the scenario."),
        Column("saved_ratio", Type.DOUBLE, "Saved part of the baseline.", Unit.RATIO, nullable=True),
        text("assumption", "What the model takes for granted."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "scenario", "subject"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(Identity("nothing_takes_longer", "predicted_ns <= baseline_ns"),),
)
