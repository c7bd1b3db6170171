"""Fencing: a word with a token that is not the live one gets the typed error and changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from headgate.core import commands as c
from headgate.core.errors import InvalidInput, OutcomeConflict, StaleLease
from headgate.core.events import Failure
from headgate.core.lease import token_of
from headgate.core.state import State
from headgate.testing import Harness, job, snapshot, worker

Word = Callable[[str, int], c.Command[Any]]
WORDS: dict[str, Word] = {
    "start": c.Start,
    "heartbeat": c.Heartbeat,
    "progress": lambda lease, token: c.Progress(lease, token, 0.5),
    "complete": lambda lease, token: c.Complete(lease, token, b'"done"'),
    "fail": lambda lease, token: c.Fail(lease, token, Failure("bug")),
    "release": c.Release,
}


@pytest.fixture
def h() -> Harness:
    harness = Harness(lease_ttl=10_000)
    harness.join(worker("w", slots=2))
    return harness


def granted(h: Harness, name: str = "j", **fields: Any) -> tuple[str, int]:
    h.submit(job(name, **fields))
    lease = h.grant(name, "w")
    return lease.id, lease.token


def refuses(h: Harness, word: Word, lease_id: str, token: int) -> None:
    before = snapshot(h.state)
    with pytest.raises(StaleLease, match="stop the work") as caught:
        h.tell(word(lease_id, token))
    assert caught.value.lease_id == lease_id
    assert snapshot(h.state) == before


@pytest.mark.parametrize("verb", WORDS)
def test_the_token_of_a_lease_that_expired_is_stale(h: Harness, verb: str) -> None:
    lease_id, token = granted(h, retry=5)
    h.start("j")
    h.advance(10_000)
    refuses(h, WORDS[verb], lease_id, token)
    h.advance(5_000)
    h.hear("w")
    new = h.grant("j", "w")
    h.start("j")
    refuses(h, WORDS[verb], lease_id, token)
    refuses(h, WORDS[verb], new.id, token)
    refuses(h, WORDS[verb], lease_id, new.token)
    h.is_("running", "j")


@pytest.mark.parametrize("verb", WORDS)
@pytest.mark.parametrize("started", [False, True])
def test_a_foreign_a_future_and_an_invented_token_are_stale(h: Harness, verb: str, started: bool) -> None:
    lease_id, token = granted(h)
    _, foreign = granted(h, "other")
    if started:
        h.start("j")
    for wrong in (foreign, token - 1, token + 1, token + 1_000, token_of(2, 1), 0, -1, 2**70):
        refuses(h, WORDS[verb], lease_id, wrong)
    refuses(h, WORDS[verb], "1-99", token)
    refuses(h, WORDS[verb], "", token)


@pytest.mark.parametrize("verb", WORDS)
@pytest.mark.parametrize("wrong", [True, None, "1", 1.5])
def test_what_cannot_be_a_token_is_bad_input(h: Harness, verb: str, wrong: Any) -> None:
    lease_id, _ = granted(h)
    with pytest.raises(InvalidInput, match="token"):
        h.tell(WORDS[verb](lease_id, wrong))


@pytest.mark.parametrize("verb", WORDS)
def test_a_cancelled_job_and_a_failed_worker_leave_stale_tokens(h: Harness, verb: str) -> None:
    mine, other = granted(h), granted(h, "other")
    h.cancel("j")
    refuses(h, WORDS[verb], *mine)
    h.kill("w")
    refuses(h, WORDS[verb], *other)


ENDS = {
    "complete": (WORDS["complete"], lambda lease, token: c.Complete(lease, token, b'"else"')),
    "fail": (WORDS["fail"], lambda lease, token: c.Fail(lease, token, Failure("another"))),
}


@pytest.mark.parametrize("verb", ENDS)
def test_the_same_outcome_twice_is_accepted_and_changes_nothing(h: Harness, verb: str) -> None:
    lease_id, token = granted(h)
    h.start("j")
    word, _ = ENDS[verb]
    h.tell(word(lease_id, token))
    before, events = snapshot(h.state), len(h.events)
    h.tell(word(lease_id, token))
    assert (snapshot(h.state), len(h.events)) == (before, events)


@pytest.mark.parametrize("verb", ENDS)
def test_another_outcome_after_the_first_conflicts(h: Harness, verb: str) -> None:
    lease_id, token = granted(h)
    h.start("j")
    word, other_content = ENDS[verb]
    h.tell(word(lease_id, token))
    other_verb = ENDS["fail" if verb == "complete" else "complete"][0]
    for wrong in (other_content, other_verb, c.Release):
        before = snapshot(h.state)
        with pytest.raises(OutcomeConflict, match=verb):
            h.tell(wrong(lease_id, token))
        assert snapshot(h.state) == before


@pytest.mark.parametrize("verb", ["start", "heartbeat", "progress"])
def test_a_settled_lease_is_stale_for_words_that_settle_nothing(h: Harness, verb: str) -> None:
    lease_id, token = granted(h)
    h.start("j")
    h.complete("j")
    refuses(h, WORDS[verb], lease_id, token)


def test_a_failure_that_led_to_a_retry_may_be_repeated_while_the_job_waits_and_runs_again(h: Harness) -> None:
    lease_id, token = granted(h, retry={"attempts": 3, "initial": 0})
    h.start("j")
    fail = c.Fail(lease_id, token, Failure("bug"))
    h.tell(fail)
    h.tell(fail)
    h.tick()
    h.grant("j", "w")
    h.tell(fail)
    assert h.state.job("j").attempt == 2
    h.start("j")
    h.complete("j")
    refuses(h, WORDS["fail"], lease_id, token)


def test_releasing_twice_is_once_and_a_late_word_after_it_conflicts(h: Harness) -> None:
    lease_id, token = granted(h)
    h.tell(c.Release(lease_id, token))
    h.tell(c.Release(lease_id, token))
    assert h.state.job("j").attempt == 0
    with pytest.raises(OutcomeConflict):
        h.tell(c.Complete(lease_id, token))


def test_many_heartbeats_at_once_tell_the_stale_ones_and_renew_the_others(h: Harness) -> None:
    mine, other = granted(h), granted(h, "other")
    h.cancel("other")
    h.clock.advance(4_000)
    beats = h.tell(c.Heartbeats((other, mine, (mine[0], mine[1] + 1))))
    assert [beat.stale for beat in beats] == [True, False, True]
    assert beats[1].expires_at == h.now + 10_000


def test_tokens_grow_with_every_lease_and_with_the_epoch() -> None:
    h = Harness()
    h.join(worker("w", slots=50))
    for number in range(50):
        h.grant(h.submit(job(f"j{number}")), "w")
    assert h.witness.tokens == sorted(set(h.witness.tokens))
    assert token_of(2, 1) > token_of(1, 2**40 - 1)
    assert State(epoch=2).epoch == 2
