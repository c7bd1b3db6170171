"""The deterministic core: every rule of the domain, and nothing else.

No clock, disk, network, log, thread or random number enters this room. Time is an argument: every instant and every
duration in here is an integer number of milliseconds. The state changes only by applying events (`apply`), events come
only out of commands (`decide`), and a command that is refused raises a typed error and leaves the state as it was.
"""

from headgate.core.decide import Outcome, decide
from headgate.core.job import JobSpec
from headgate.core.job_input import parse_job
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.core.verify import verify

__all__ = ["JobSpec", "Outcome", "Settings", "State", "decide", "parse_job", "verify"]
