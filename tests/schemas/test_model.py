"""Declarations refuse what would mislead a reader."""

from __future__ import annotations

import pytest

from tracelake.schemas.catalog import tables
from tracelake.schemas.model import Column, Identity, Share, Table, Type, Unit, View

KEY = Column("job_id", Type.STRING, "The job.")


def _table(*columns: Column, **more: object) -> Table:
    return Table(name="normalized.x", grain="a row", columns=(KEY, *columns), key=("job_id",), **more)  # type: ignore[arg-type]


def test_a_unit_has_its_suffix() -> None:
    with pytest.raises(ValueError, match="duration: the name does not end in _ns"):
        _table(Column("duration", Type.BIGINT, "How long.", Unit.NANOSECOND))


def test_a_suffix_has_its_unit() -> None:
    with pytest.raises(ValueError, match="size_bytes: the name ends in a unit"):
        _table(Column("size_bytes", Type.BIGINT, "How much."))


def test_no_two_columns_share_a_comment() -> None:
    with pytest.raises(ValueError, match="two columns have one comment"):
        _table(Column("a", Type.INT, "The job."))


def test_no_two_columns_share_a_name() -> None:
    with pytest.raises(ValueError, match="two columns have one name"):
        _table(Column("job_id", Type.INT, "Again."))


def test_a_key_names_columns() -> None:
    with pytest.raises(ValueError, match="partition column day does not exist"):
        _table(partition_by=("day",))


def test_a_comment_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="not a sentence"):
        _table(Column("a", Type.INT, "no full stop"))


def test_identities_and_shares_have_names_of_their_own_and_columns() -> None:
    with pytest.raises(ValueError, match="two identities or shares have one id"):
        _table(identities=(Identity("a", "true"), Identity("a", "false")))
    with pytest.raises(ValueError, match="share column lost does not exist"):
        _table(shares=(Share("lost", "lost", "job_id"),))


def test_every_declared_table_has_a_key_without_doubt() -> None:
    for name, declared in tables().items():
        assert declared.key, name
        assert declared.grain, name


def test_units_for_reading_are_for_views() -> None:
    with pytest.raises(ValueError, match="took_ms: tables hold integer nanoseconds"):
        _table(Column("took_ms", Type.DOUBLE, "How long.", Unit.MILLISECOND))
    with pytest.raises(ValueError, match="at_utc: tables hold integer nanoseconds"):
        _table(Column("at_utc", Type.TIMESTAMP, "When."))


def test_a_view_has_its_prefix_and_a_sentence() -> None:
    with pytest.raises(ValueError, match="jobs: a view is named v_<what>"):
        View("jobs", "Jobs.", (), (KEY,), "SELECT job_id FROM jobs")
    with pytest.raises(ValueError, match="v_jobs: the comment is not a sentence"):
        View("v_jobs", "Jobs", (), (KEY,), "SELECT job_id FROM jobs")
