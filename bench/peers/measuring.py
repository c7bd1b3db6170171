"""One measure of one queue, in a process of the queue's own environment: prints one line of JSON.

    python -m bench.peers.measuring QUEUE MEASURE [--jobs N] [--samples N] [--gaps FROM TO] [--within SECONDS]

Times come from the marks that jobs leave. Standard library only, beside the queue itself.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from random import Random

from bench import marks
from bench.peers.peer import BULK, ENDED, SLOW, SLOW_SECONDS, TEXT, Peer

Figures = dict[str, float]
WARM = 10
CLIENTS = 64
SLOW_JOBS = 20
PORTION = 100
ENOUGH = 10.0
"""Seconds of submitting after which the rate is known."""


class NotMeasured(Exception):
    """The queue did not do what was to be measured."""


def submit(peer: Peer, asked: argparse.Namespace) -> Figures:
    """Jobs queued per second, one by one by one caller, without workers."""
    return {"submit": _submissions(peer.submit_each, asked.jobs, PORTION)}


def bulk(peer: Peer, asked: argparse.Namespace) -> Figures:
    """Jobs queued per second by the queue's bulk form."""
    return {"bulk": _submissions(peer.bulk, asked.jobs, BULK)}


def _submissions(how: Callable[[range, str], None], jobs: int, portion: int) -> float:
    """In portions, so that a slow queue can be left after a while."""
    how(range(WARM), TEXT)
    done, began = 0, time.monotonic()
    while done < jobs and time.monotonic() < began + ENOUGH:
        how(range(done, min(done + portion, jobs)), TEXT)
        done = min(done + portion, jobs)
    return done / (time.monotonic() - began)


def drain(peer: Peer, asked: argparse.Namespace) -> Figures:
    """Jobs begun per second by two worker processes that find a full queue."""
    peer.fill(range(asked.jobs), TEXT)
    peer.start()
    begun = marks.wait_or_give_up(asked.jobs, asked.within)
    if begun < min(asked.jobs, 200):
        raise NotMeasured(f"only {begun} of {asked.jobs} jobs began within {asked.within:g} s")
    return {"drain": rate(marks.read())}


def rate(seen: list[tuple[int, int]]) -> float:
    """Jobs begun per second in the middle of a drain: the first and last tenth are left out."""
    if len({number for number, _ in seen}) < len(seen):
        raise NotMeasured("a job ran twice")
    at = sorted(when for _, when in seen)
    first, last = len(at) // 10, len(at) - len(at) // 10 - 1
    return (last - first) / ((at[last] - at[first]) / 1e9)


def pick_up(peer: Peer, asked: argparse.Namespace) -> Figures:
    """Milliseconds from the call to the start of the function on an idle system.

    The gaps vary, so that a queue that polls is met at every phase of its poll.
    """
    peer.start()
    peer.submit_each(range(WARM), TEXT)
    _expect(WARM, asked.within)
    chance, taken = Random(1), []
    for number in range(asked.samples):
        time.sleep(chance.uniform(*asked.gaps))
        began = time.monotonic_ns()
        peer.submit(number, TEXT)
        _expect(WARM + number + 1, asked.within)
        taken.append((marks.read()[-1][1] - began) / 1e6)
    taken.sort()
    return {"p50_ms": statistics.median(taken), "p99_ms": taken[int(0.99 * len(taken))]}


def lives(peer: Peer, asked: argparse.Namespace) -> Figures:
    """Full lives per second of 64 clients: submit, run, submit again."""
    return {"lives": peer.lives(CLIENTS, max(2, asked.jobs // CLIENTS // 4))}


def kill(peer: Peer, asked: argparse.Namespace) -> Figures:
    """Kill all workers in mid-job, start fresh ones, and see what becomes of the jobs."""
    peer.fill(range(SLOW_JOBS), SLOW)
    peer.start()
    _expect(2, asked.within)
    time.sleep(SLOW_SECONDS / 2)
    peer.kill()
    struck = begun(marks.read()) - ended(marks.read())
    killed = time.monotonic_ns()
    peer.start()
    until = time.monotonic() + asked.within
    while len(ended(marks.read())) < SLOW_JOBS and time.monotonic() < until:
        time.sleep(0.05)
    return fate(marks.read(), struck, killed)


def fate(seen: list[tuple[int, int]], struck: set[int], killed: int) -> Figures:
    """What became of the jobs that were running when their workers were killed."""
    again = {number: when for number, when in seen if when > killed and number in struck}
    ends = [number for number, _ in seen if number >= ENDED]
    figures: Figures = {"struck": len(struck), "not_rerun": len(struck - again.keys())}
    figures["unfinished"] = SLOW_JOBS - len(set(ends))
    figures["finished_twice"] = len(ends) - len(set(ends))
    if again:
        figures["rerun_s"] = (max(again.values()) - killed) / 1e9
    return figures


def begun(seen: list[tuple[int, int]]) -> set[int]:
    """The jobs that have begun."""
    return {number for number, _ in seen if number < ENDED}


def ended(seen: list[tuple[int, int]]) -> set[int]:
    """The slow jobs that have ended."""
    return {number - ENDED for number, _ in seen if number >= ENDED}


def _expect(wanted: int, within: float) -> None:
    found = marks.wait_or_give_up(wanted, within)
    if found < wanted:
        raise NotMeasured(f"only {found} of {wanted} jobs began within {within:g} s")


MEASURES = {measure.__name__: measure for measure in (submit, bulk, drain, pick_up, lives, kill)}


def main() -> None:
    """Entry of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queue")
    parser.add_argument("measure", choices=sorted(MEASURES))
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--gaps", type=float, nargs=2, default=(0.02, 0.08))
    parser.add_argument("--within", type=float, default=30.0)
    asked = parser.parse_args()
    marks.clear()
    peer: Peer = importlib.import_module(f"bench.peers.{asked.queue}").Queue()
    peer.open()
    try:
        figures = MEASURES[asked.measure](peer, asked)
    finally:
        peer.stop()
        peer.close()
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
