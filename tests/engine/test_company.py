import threading
from collections.abc import Hashable

from headgate.engine.company import Company
from headgate.testing import ManualClock

WITHIN = 10.0
SLOW_MS = 100


def after_a_round(clock: ManualClock, company: Company, *callers: int, took: int = SLOW_MS) -> None:
    began = clock.now()
    clock.advance(took)
    company.served(callers, began)


def never_asked() -> set[Hashable]:
    raise AssertionError("somebody looked around")


def test_on_a_quick_disk_nobody_waits() -> None:
    clock = ManualClock()
    company = Company(clock)
    after_a_round(clock, company, 1, 2, took=1)
    company.wait(never_asked)


def test_whoever_leads_waits_for_those_who_spoke_in_the_last_two_rounds() -> None:
    clock = ManualClock()
    company = Company(clock)
    after_a_round(clock, company, 1)
    after_a_round(clock, company, 2)
    here: set[Hashable] = {2}
    looked = threading.Event()

    def look() -> set[Hashable]:
        looked.set()
        return set(here)

    leading = threading.Thread(target=company.wait, args=(look,))
    leading.start()
    assert looked.wait(WITHIN)
    here.add(1)
    company.come()
    leading.join(WITHIN)
    assert not leading.is_alive()


def test_nobody_waits_longer_than_a_part_of_the_commit_that_is_saved() -> None:
    clock = ManualClock()
    company = Company(clock)
    after_a_round(clock, company, 1, 2)

    def look() -> set[Hashable]:
        clock.advance(SLOW_MS // 4)
        return {1}

    company.wait(look)


def test_nobody_waits_for_those_who_have_been_silent_for_a_while() -> None:
    clock = ManualClock()
    company = Company(clock)
    after_a_round(clock, company, 1, 2)
    clock.advance(3 * SLOW_MS)
    company.wait(never_asked)


def test_who_has_not_spoken_for_two_rounds_is_not_waited_for() -> None:
    clock = ManualClock()
    company = Company(clock)
    for callers in ((1, 2), (2,), (2,)):
        after_a_round(clock, company, *callers)
    company.wait(lambda: {2})
