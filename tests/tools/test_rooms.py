"""The import rules: they let through what the table allows and name what it does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.rooms import read_table

ROOT = Path(__file__).parents[2]


def lint(tmp_path: Path, modules: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the project's own contracts over a package of that name made of these modules."""
    package = tmp_path / "headgate"
    for name, source in {"__init__": "", **modules}.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent != package:
            (path.parent / "__init__.py").touch()
        path.write_text(source, encoding="utf-8")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    # The copy has to be found before the installed package.
    script = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from importlinter.cli import lint_imports_command
lint_imports_command()
"""
    command = [sys.executable, "-c", script, f"--config={ROOT / 'pyproject.toml'}", "--no-cache"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)


def test_allowed_imports_pass(tmp_path: Path) -> None:
    modules = {
        "core/jobs": "import msgspec",
        "ports/clock": "from headgate.core import jobs",
        "engine/shell": "import asyncio\nfrom headgate.core import jobs\nfrom headgate.ports import clock",
    }
    done = lint(tmp_path, modules)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("modules", "named"),
    [
        ({"core/jobs": "from headgate.stores import memory", "stores/memory": ""}, "headgate.core.jobs"),
        ({"core/jobs": "import asyncio"}, "headgate.core.jobs -> asyncio"),
        ({"core/jobs": "def f():\n    import random"}, "headgate.core.jobs -> random"),
        ({"core/jobs": "import headgate"}, "headgate.core.jobs -> headgate"),
        ({"policy/host": "from headgate.engine import shell", "engine/shell": ""}, "headgate.policy.host"),
        ({"server/app": "from headgate.stores import memory", "stores/memory": ""}, "headgate.server.app"),
        ({"cli/up": "from headgate.engine import shell", "engine/shell": ""}, "headgate.cli.up"),
        ({"attic/junk": ""}, "add a row for 'attic'"),
        ({"core/a": "from headgate.core import b", "core/b": "from headgate.core import a"}, "headgate.core"),
    ],
)
def test_a_forbidden_import_is_named(tmp_path: Path, modules: dict[str, str], named: str) -> None:
    done = lint(tmp_path, modules)
    assert done.returncode == 1, done.stdout + done.stderr
    assert named in " ".join(done.stdout.split())


def test_a_row_without_a_colon_is_refused() -> None:
    with pytest.raises(ValueError, match="room: allowed"):
        read_table(["core"])
