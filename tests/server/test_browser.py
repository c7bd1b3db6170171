"""The pages in a real browser: what `headgate up` prints is opened, signs in by itself, and shows the status."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.server.test_jobs import submit
from tests.server.world import World

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here: apt-get install chromium")


def shown(url: str, profile: Path) -> str:
    """The page after its scripts have run and its forms were sent."""
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", *QUIET, f"--user-data-dir={profile}"]
    done = subprocess.run([*command, "--dump-dom", url], capture_output=True, text=True, timeout=100, check=True)
    return done.stdout


@needs_browser
def test_the_printed_address_signs_in_and_shows_the_status(world: World, tmp_path: Path) -> None:
    with world.client() as client:
        submit(client, name="<b>bold</b>")
    page = shown(f"{world.url}/#token={world.token}", tmp_path / "profile")
    for text in ("Busy rating", "Latest jobs", "&lt;b&gt;bold&lt;/b&gt;"):
        assert text in page
    assert world.token not in page


@needs_browser
def test_a_wrong_token_is_said_on_the_page_that_asks_for_it(world: World, tmp_path: Path) -> None:
    page = shown(f"{world.url}/#token=hg_000000000000_wrong", tmp_path / "profile")
    assert "Sign in" in page
    assert 'class="bad"' in page


@needs_browser
def test_the_description_of_the_api_opens_in_a_browser(world: World, tmp_path: Path) -> None:
    page = shown(f"{world.url}/docs", tmp_path / "profile")
    assert "/v2/jobs/{id}/explain" in page
