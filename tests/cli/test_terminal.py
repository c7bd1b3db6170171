"""What others wrote does not steer the terminal of whoever looks at it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.terminal import harmless

OBEYED = {
    "clear the screen": "\x1b[2J\x1b[H",
    "set the title": "\x1b]0;owned\x07",
    "set the title, 8 bit": "\x9d0;owned\x9c",
    "move, 8 bit": "\x9b1A",
    "write the clipboard": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "a link that lies": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "ask for an answer": "\x1b[c\x05",
    "device control": "\x1bP$q\x1b\\",
    "write over the line": "all is well\rsomething else",
    "erase": "secret\b\b\b\b\b\b",
    "turn around": "\u202egnp.exe",
    "a long colour": "\x1b[" + "1;" * 500 + "m",
}


@pytest.mark.parametrize("name", OBEYED)
def test_what_a_terminal_would_obey_is_shown_instead(name: str) -> None:
    shown = harmless(OBEYED[name])
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown), shown


def test_text_lines_and_colours_stay() -> None:
    text = "a\tb\nümläut 漢字 🎉\n\x1b[31mred\x1b[0m"
    assert harmless(text) == text
    assert harmless("one\r\ntwo") == "one\ntwo"


@given(st.text())
def test_nothing_but_colours_is_left_to_obey(text: str) -> None:
    rest = re.sub("\x1b\\[[0-9;]{0,32}m", "", harmless(text))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", rest)
    assert harmless(harmless(text)) == harmless(text)
