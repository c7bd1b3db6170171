import logging

import pytest

from headgate.testing import ManualClock
from headgate.worker.complaints import AGAIN, Complaints


def test_the_same_complaint_is_heard_once_and_again_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complaints = Complaints(logging.getLogger("headgate.worker"), clock)
    down, other = OSError("nobody answers"), OSError("refused")
    for _ in range(3):
        complaints.say("cannot listen", down)
    complaints.say("cannot renew", down)
    complaints.say("cannot listen", other)
    clock.advance(AGAIN)
    complaints.say("cannot listen", other)
    said = ["cannot listen: nobody answers", "cannot renew: nobody answers"]
    assert [record.getMessage() for record in caplog.records] == [*said, *["cannot listen: refused"] * 2]
