"""Run in a control group of its own: an engine with a real sampler, and a process that burns CPU beside it.

Prints one JSON object a step. Polls are waited for by the signals of the burner, so that every poll has something to
measure; a poll without a burner waits on nothing but time, which is what it measures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from headgate.core import commands as c
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.engine.questions import Explain, GetStatus
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.load.cgroup import Cgroup
from headgate.load.host import CpuProbe, MemoryProbe
from headgate.load.sampler import Sampler
from headgate.stores.memory import MemoryStore
from headgate.system import SystemClock
from headgate.testing import SeededChance, external

BURN = "import os\nwhile True:\n    for _ in range(400_000): pass\n    os.write(1, b'.')\n"
POLL = 1.0


def say(step: str, engine: SharedEngine, **more: object) -> None:
    status = engine.ask(GetStatus())
    known = {"step": step, "busy": status.busy, "usable": status.usable_units, "signals": status.signals}
    sys.stdout.write(json.dumps(known | more) + "\n")
    sys.stdout.flush()


def state_of(engine: SharedEngine, job_id: str) -> str:
    return engine.read(lambda state: str(state.jobs[job_id].state))


def submit(engine: SharedEngine, job_id: str, units: int) -> None:
    engine.do(c.Submit((c.NewJob(job_id, external(job_id, units=units)),)))


def main(groups: list[str]) -> None:
    for group in groups:
        Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    clock, cgroup = SystemClock(), Cgroup()
    # The gate opens again as soon as the load is gone, so that the test need not wait a minute for it.
    settings = Settings(fall_half_life=1, recalculate=1)
    engine = SharedEngine(Writer(MemoryStore(), FirstFit(), SeededChance(1), settings), clock).start()
    sampler = Sampler([CpuProbe(clock, cgroup), MemoryProbe(cgroup)], clock)
    pause = threading.Event()
    for _ in range(8):  # until the start of this very process no longer counts
        pause.wait(POLL)
        if (sampler.hand_in(engine) or 0) < 2:
            break
    submit(engine, "before", 10)
    lease = engine.read(lambda state: state.jobs["before"].lease)
    say("quiet", engine, before=state_of(engine, "before"), limit=getattr(cgroup.cpu(), "cpus", None))
    if lease is None:
        return
    engine.do(c.Start(lease.id, lease.token))
    burner = subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE)
    if burner.stdout is None:
        raise RuntimeError("the burner has no output")
    for _ in range(2):
        pause.wait(POLL)
        burner.stdout.read(1)
        sampler.hand_in(engine)
    submit(engine, "during", 30)
    engine.do(c.Heartbeat(lease.id, lease.token))
    reasons = [reason.detail() for reason in engine.ask(Explain("during")).reasons]
    say("burning", engine, before=state_of(engine, "before"), during=state_of(engine, "during"), reasons=reasons)
    burner.kill()
    burner.wait()
    burner.stdout.close()
    polls = 0
    while polls < 8 and state_of(engine, "during") != "leased":
        polls += 1
        pause.wait(POLL)
        sampler.hand_in(engine)
    engine.do(c.Complete(lease.id, lease.token))
    say("over", engine, before=state_of(engine, "before"), during=state_of(engine, "during"), polls=polls)
    sampler.stop()
    engine.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
