"""Same commands, same events: in this process, in another one, and when the events are applied anew."""

import os
import subprocess
import sys

from headgate.core import State, verify
from headgate.core import events as e
from headgate.core.apply import apply
from headgate.core.decide import decide
from headgate.core.errors import HeadgateError
from headgate.testing import Witness, difference, replayable, snapshot
from headgate.testing.walk import SMALL, RandomWalk, fingerprint

SEED, COMMANDS = 4, 5_000


def careful_walk(seed: int, commands: int) -> tuple[RandomWalk, list[e.Event]]:
    walk, witness, events = RandomWalk(seed), Witness(), []
    for _ in range(commands):
        command, now = walk.next()
        before = snapshot(walk.state)
        try:
            outcome = decide(walk.state, command, now, walk.chance.random)
        except HeadgateError:
            after = snapshot(walk.state)
            assert before == after, f"{command} was refused and changed {difference(before, after)}"
            continue
        verify(walk.state)
        witness.saw(walk.state, outcome.events, now)
        events += outcome.events
    return walk, events


def test_thousands_of_random_commands_break_no_invariant_and_replay_to_the_same_state() -> None:
    walk, events = careful_walk(SEED, COMMANDS)
    assert sum(isinstance(event, e.LeaseGranted) for event in events) > 100
    fresh = State(SMALL)
    for event in e.decode(e.encode(events)):
        apply(fresh, event)
    assert replayable(fresh) == replayable(walk.state), difference(replayable(walk.state), replayable(fresh))
    verify(fresh)


def test_a_few_walks_come_past_every_event_there_is() -> None:
    seen = {type(event) for seed in range(4) for event in RandomWalk(seed).go(4_000)[0]}
    rare = {e.PreemptionLifted}  # needs its preemptor to end within the grace; tested by hand in test_preemption
    assert {event.__name__ for event in set(e.EVENT_TYPES) - seen - rare} == set()


def test_the_same_seed_gives_the_same_events_byte_for_byte() -> None:
    assert e.encode(RandomWalk(7).go(COMMANDS)[0]) == e.encode(RandomWalk(7).go(COMMANDS)[0])
    assert fingerprint(7, 500) != fingerprint(8, 500)


def test_the_same_seed_gives_the_same_events_in_a_process_with_another_hash_seed() -> None:
    here = fingerprint(SEED, COMMANDS)
    other = "1" if os.environ.get("PYTHONHASHSEED") == "4242" else "4242"
    command = [sys.executable, "-m", "headgate.testing.walk", str(SEED), str(COMMANDS)]
    environment = {**os.environ, "PYTHONHASHSEED": other}
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here
