"""The page about the command line is written from the parsers."""

from tools import cli_docs


def test_the_page_is_what_the_parsers_say() -> None:
    assert cli_docs.PAGE.read_text(encoding="utf-8") == cli_docs.page(), "run python -m tools.cli_docs"
