"""A process that owns the database of an app and whose main thread has ended, while other threads work on."""

import subprocess
import sys
from pathlib import Path

import headgate

OWNER = """
import sys, threading
import headgate

app = headgate.App(sys.argv[1], load=0)
job = app.submit(type="nobody-runs-it")
main = threading.main_thread()

def work():
    main.join()
    print(job.id, flush=True)
    sys.stdin.readline()

threading.Thread(target=work).start()
job.info()
"""


def test_an_owner_whose_main_thread_has_ended_still_answers_what_only_the_store_knows(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    command = [sys.executable, "-c", OWNER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        id_ = owner.stdout.readline().strip()
        app = headgate.App(str(path), load=0)
        try:
            assert app.get(id_).state == "queued"
        finally:
            app.close()
            owner.stdin.close()
    assert owner.returncode == 0
