"""Waiting for company pays, or is not done."""

from headgate.engine.company import Company

TOOK = 1.0


def after(*rounds: tuple[str, ...]) -> tuple[Company, float]:
    """A company after rounds of a second each, without a pause, and what time it is then."""
    company, now = Company(), 0.0
    for callers in ((),) * 50 + rounds:
        company.served(callers, now, now + TOOK)
        now += TOOK
    return company, now


def test_those_who_spoke_in_the_last_two_rounds_are_waited_for_half_a_round_at_most() -> None:
    company, now = after(("one",), ("other",))
    assert 0.4 * TOOK < company.patience({"other"}, now) <= 0.5 * TOOK


def test_nobody_waits_when_all_are_here() -> None:
    company, now = after(("one",), ("other",))
    assert company.patience({"other", "one", "third"}, now) == 0


def test_who_has_not_spoken_for_two_rounds_is_not_waited_for() -> None:
    company, now = after(("one", "other"), ("other",), ("other",))
    assert company.patience({"other"}, now) == 0


def test_after_a_silence_nobody_is_waited_for() -> None:
    company, now = after(("one",), ("other",))
    assert company.patience({"other"}, now + 5 * TOOK) == 0


def test_who_does_not_come_is_waited_for_ever_more_rarely_and_at_once_again_when_it_does() -> None:
    company, now = after(("one",), ("other",))
    gaps: list[int] = []
    gap = 0
    while len(gaps) < 8:
        if company.patience({"other"}, now):
            company.waited(came=False)
            gaps.append(gap)
            gap = 0
        else:
            gap += 1
    assert gaps == [0, 2, 4, 8, 16, 32, 64, 64]
    company.waited(came=True)
    assert company.patience({"other"}, now) > 0
