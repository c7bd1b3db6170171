"""The documentation keeps its promises: links lead somewhere, pages can be found, examples run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOP_LEVEL = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
PAGES = [ROOT / name for name in TOP_LEVEL] + sorted(DOCS.rglob("*.md"))

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|(?:src|srcset|href)=\"([^\"]+)\"")
FENCE = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"<!-- example:start -->\s*```python\n(.*?)```\s*<!-- example:end -->", re.DOTALL)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Written in two halves so that this file passes its own test.
REGISTRIES = [
    "pypi" + ".org",
    "files.python" + "hosted.org",
    "registry.npm" + "js.org",
    "deb.debian" + ".org",
]
MACHINE_PATH = re.compile(r"(?<![\w.)}\]*:/-])/(?:work|root|home)/")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def links(page: Path) -> list[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = [first or second for first, second in LINK.findall(text)]
    return [link for link in found if not re.match(r"[a-z][a-z0-9+.-]*:", link)]


def slug(heading: str) -> str:
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {slug(heading) for heading in re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)}


def text_files() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: which files are committed is unknown")
    paths = [ROOT / path for path in listed.stdout.split("\0") if path]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:8192]]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_resolves(page: Path) -> None:
    broken = []
    for link in links(page):
        target, _, fragment = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (fragment and path.suffix == ".md" and fragment not in anchors(path)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_navigation() -> None:
    listed = {DOCS / "index.md"}
    for page in DOCS.rglob("*.md"):
        for tree in TOCTREE.findall(page.read_text(encoding="utf-8")):
            entries = [line.strip() for line in tree.splitlines() if line.strip() and not line.startswith(":")]
            for entry in entries:
                listed.update(page.parent.glob(f"{entry}.md"))
    assert sorted(map(name, set(DOCS.rglob("*.md")) - listed)) == []


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    example = EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert example, "README.md has no python block between the example markers"
    command = [sys.executable, "-W", "error", "-c", example[1]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_make_target_is_explained_to_contributors() -> None:
    listed = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    targets = re.findall(r"^  ([a-z-]+)", listed.stdout, re.MULTILINE)
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {"up", "test", "check", "bench", "docs", "simtest", "lock", "clean", "help"} <= set(targets)
    assert [target for target in targets if f"`make {target}" not in contributing] == []


def test_no_file_names_a_package_registry() -> None:
    found = [
        f"{name(path)}: {host}"
        for path in text_files()
        for host in REGISTRIES
        if host in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in text_files()}
    found = [name(path) for path, text in texts.items() if MACHINE_PATH.search(text)]
    assert found == []
