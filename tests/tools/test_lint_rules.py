"""The linter refuses clocks and chance everywhere but where they belong."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BANNED = [
    "import datetime\n\nNOW = datetime.datetime.now()\n",
    "from datetime import datetime\n\nNOW = datetime.utcnow()\n",
    "from datetime import date\n\nTODAY = date.today()\n",
    "import time\n\nNOW = time.time()\n",
    "from time import monotonic\n\nNOW = monotonic()\n",
    "from time import perf_counter_ns as ticks\n\nNOW = ticks()\n",
    "import time\n\ntime.sleep(1)\n",
    "import random\n\nDRAW = random.random()\n",
    "from random import shuffle\n\nshuffle([1, 2])\n",
    "import random\n\nDICE = random.SystemRandom()\n",
    "import uuid\n\nID = uuid.uuid4()\n",
    "import os\n\nNOISE = os.urandom(8)\n",
]


def banned(source: str, path: str) -> bool:
    command = [sys.executable, "-m", "ruff", "check", "--select=TID251", "--stdin-filename", path, "-"]
    done = subprocess.run(command, input=source, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return "TID251" in done.stdout


@pytest.mark.parametrize("source", BANNED, ids=lambda source: source.splitlines()[-1])
def test_asking_the_machine_is_refused_in_every_room(source: str) -> None:
    assert banned(source, "src/headgate/core/jobs.py")
    assert banned(source, "tests/core/test_jobs.py")


def test_the_system_module_and_benchmarks_may_ask() -> None:
    assert not banned("import time\n\nNOW = time.time()\n", "src/headgate/system.py")
    assert not banned("import time\n\nNOW = time.perf_counter()\n", "bench/bench_core.py")


def test_a_seeded_source_is_allowed() -> None:
    assert not banned("import random\n\nDICE = random.Random(7)\n", "src/headgate/testing/chance.py")


def test_every_ignored_rule_carries_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    ignored = text.split("\nignore = [\n")[1].split("\n]")[0].splitlines()
    assert ignored
    assert [line for line in ignored if "#" not in line] == []
