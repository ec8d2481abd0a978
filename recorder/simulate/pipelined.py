"""A step of a pipeline: each rank is a stage, and micro-batches pass through all of them and back (GPipe).

With equal stages, p of them, and m micro-batches a stage idles (p - 1) of the m + p - 1 turns of each pass. It does so
in the kernels that receive: what the next stage sends it, a stage cannot begin before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracelake.recorder.simulate.names import Shape
from tracelake.recorder.simulate.player import Player
from tracelake.recorder.simulate.workloads import RECEIVE, SEND, Collective


def bubble_ratio(stages: int, micro_batches: int) -> float:
    """Share of its time in which a stage idles, where all stages take equally long and transfers take none."""
    return (stages - 1) / (micro_batches + stages - 1)


def play_pipeline(players: Sequence[Player], micro_batches: int) -> None:
    """One step of all stages, in order of rank. Without a barrier at its end each stage begins the next by itself."""
    workload = players[0].job.workload
    for player in players:
        player.open_step()
    _pass("forward", players, workload.forward * workload.layers, micro_batches)
    _pass("backward", players[::-1], workload.backward * workload.layers, micro_batches)
    for player in players:
        player.open_phase(waits=True)
        for shape in workload.optimizer:
            player.compute(shape)
        player.close_phase("optimizer")
        player.close_step()


def _pass(text: str, players: Iterable[Player], shapes: Sequence[Shape], micro_batches: int) -> None:
    """All micro-batches through all stages. A stage needs only what those before it did: they are played first."""
    arrivals: list[int] = []
    stages = list(players)
    for player in stages:
        player.open_phase(waits=False)
        sent = []
        for number in range(micro_batches):
            if arrivals:
                _move(player, RECEIVE, arrivals[number])
                player.wait_for_collectives()
            for shape in shapes:
                player.compute(shape)
            if player is not stages[-1]:
                sent.append(_move(player, SEND))
        player.close_phase(text)
        arrivals = sent


def _move(player: Player, what: Collective, arrival_ns: int = 0) -> int:
    """Send or receive a micro-batch's tensor; a receiver is done when it has come. Returns the end."""
    start_ns = player.join(what)
    end_ns = max(start_ns + what.shape.mean_ns, arrival_ns)
    player.leave(what, player.moves, start_ns, end_ns)
    player.moves += 1
    return end_ns
