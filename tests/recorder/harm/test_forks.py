"""Workers that the job forks or spawns neither hang nor write in their parent's name (case 32)."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import environment, run, wait_until_delivered

EPOCH = """
import multiprocessing, os, sys, threading
import tracelake
from tracelake.recorder import annotation, process


def load(item):
    with tracelake.annotate("in a worker"):
        return os.getpid(), item, process.current() is None


def hold(lock, held, done):
    with lock:
        held.set()
        done.wait()


def main():
    with tracelake.record(sampling_interval_ms=100):
        recording = process.current()
        stop = threading.Event()

        def hammer():
            while not stop.is_set():
                with tracelake.annotate("hammer"):
                    pass

        busy = threading.Thread(target=hammer)
        busy.start()
        # Every lock of the recorder is held by some thread while the workers are made.
        held, done = [threading.Event() for _ in range(3)], threading.Event()
        locks = [recording._lock, recording.outgoing.journal._lock, process._lock]
        holders = [threading.Thread(target=hold, args=(lock, event, done)) for lock, event in zip(locks, held)]
        for holder in holders:
            holder.start()
        for event in held:
            event.wait()
        context = multiprocessing.get_context(sys.argv[1])
        for epoch in range(2):
            with tracelake.annotate(f"step_{epoch}"), context.Pool(4) as pool:
                made = pool.map(load, range(40))
            assert sorted(item for _, item, _ in made) == list(range(40))
            assert os.getpid() not in {worker for worker, _, _ in made}
            assert all(is_free for _, _, is_free in made)
        done.set()
        for holder in holders:
            holder.join()
        stop.set()
        busy.join()
    print(recording.outgoing.collector._number)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_finish_while_locks_are_held_and_record_nothing(tmp_path: Path, method: str) -> None:
    done = run(tmp_path, EPOCH, environment(tmp_path), method)
    assert done.returncode == 0, done.stderr
    lake = wait_until_delivered(tmp_path)
    rows = lake.rows("annotation")
    assert len(rows) == int(done.stdout)
    assert {row["text"] for row in rows} == {"hammer", "step_0", "step_1"}
    (end,) = lake.closing()
    assert end["status"] == "complete"
    processes = {row["entity_id"] for row in lake.rows("sample") if row["metric"] == "memory_rss"}
    assert processes == {str(end["process_id"])}


def test_a_forked_child_may_record_for_itself(tmp_path: Path) -> None:
    text = """
    import os, sys
    import tracelake

    with tracelake.record():
        with tracelake.annotate("parent"):
            pass
        child = os.fork()
        if child == 0:
            with tracelake.record(rank=1):
                with tracelake.annotate("child"):
                    pass
            from tracelake.recorder import process
            process.unload()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    done = run(tmp_path, text, environment(tmp_path))
    assert done.returncode == 0, done.stderr
    lake = wait_until_delivered(tmp_path)
    texts = {row["source_id"]: row["text"] for row in lake.rows("annotation")}
    ranks = {texts[row["source_id"]]: row["rank"] for row in lake.closing()}
    assert ranks == {"parent": None, "child": 1}


def test_a_child_that_exits_normally_leaves_the_parents_recording_alone(tmp_path: Path) -> None:
    text = """
    import os, sys
    import tracelake

    with tracelake.record():
        for step in range(20):
            if os.fork() == 0:
                sys.exit(0)
            os.wait()
            with tracelake.annotate(f"step_{step}"):
                pass
    """
    done = run(tmp_path, text, environment(tmp_path))
    assert done.returncode == 0, done.stderr
    lake = wait_until_delivered(tmp_path)
    assert len(lake.rows("annotation")) == 20
    assert [row["state"] for row in lake.closing()] == ["completed"]
