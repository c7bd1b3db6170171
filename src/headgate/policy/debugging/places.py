"""Sources as an editor knows them and lines as the Lua side knows them, each way."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from headgate.policy.debugging.subject import RulePlace, Subject
from headgate.policy.runtime import platform_source, platform_version

OWN, PLATFORM, GENERATED = 1, 2, 3
_NAMES = {OWN: "policy", PLATFORM: "platform", GENERATED: "policy"}
View = Literal["source", "lua"]


class Line(msgspec.Struct, frozen=True):
    """A line that was asked for: where it lies in the Lua, and the line to show instead, if it is another."""

    lua: int
    shown: int | None = None


class Places:
    """The sources of one subject. With the view `source` a YAML policy is walked rule by rule."""

    def __init__(self, subject: Subject, view: View = "source") -> None:
        self.subject = subject
        self.rules: dict[str, RulePlace] = subject.rules() if view == "source" else {}
        self._yaml = subject.language == "yaml" and view == "source"
        self._path = None if subject.language == "yaml" and view == "lua" else subject.path

    def line_map(self) -> list[int]:
        """For each line of the Lua the line of the rule that it belongs to, else 0; empty where they are the same."""
        if not self._yaml:
            return []
        lines = [0] * (self.subject.lua.count("\n") + 1)
        for place in self.rules.values():
            first, last = place.lua
            lines[first - 1 : last] = [place.yaml[0]] * (last - first + 1)
        return lines

    def sources(self) -> list[dict[str, Any]]:
        """All that can be shown."""
        return [self.source(n) for n in ((OWN, GENERATED, PLATFORM) if self._yaml else (OWN, PLATFORM))]

    def source(self, number: int) -> dict[str, Any]:
        """A source as the protocol describes it."""
        if number == PLATFORM:
            return {"name": f"platform-{platform_version()}.lua", "sourceReference": PLATFORM}
        if number == OWN and self._path is not None:
            return {"name": Path(self._path).name, "path": str(Path(self._path).absolute())}
        ending = "yaml" if number == OWN and self._yaml else "lua"
        return {"name": f"{self.subject.name}.{ending}", "sourceReference": number}

    def text(self, number: int) -> str | None:
        """The text of a source that is not a file of the user's."""
        texts = {PLATFORM: platform_source(), OWN: self._own(), GENERATED: self.subject.lua}
        return texts.get(number)

    def _own(self) -> str:
        return self.subject.source if self._yaml else self.subject.lua

    def find(self, source: dict[str, Any]) -> int | None:
        """Which of ours an editor means: by number, by path, or a file with the very same text."""
        number = source.get("sourceReference")
        if number in _NAMES:
            return int(number)
        path = source.get("path")
        if not isinstance(path, str):
            return None
        if self._path is not None and Path(path).absolute() == Path(self._path).absolute():
            return OWN
        if self._same_text(Path(path)):
            self._path = path
            return OWN
        return None

    def _same_text(self, path: Path) -> bool:
        try:
            return path.read_text("utf-8") == self._own()
        except (OSError, UnicodeDecodeError):
            return False

    def chunk(self, number: int) -> str:
        """The Lua side's name of a source."""
        return _NAMES[number]

    def to_lua(self, number: int, line: int) -> Line | None:
        """A line of a source in the Lua; a line of a rule stands for the rule. None where nothing follows."""
        if number != OWN or not self._yaml:
            return Line(line)
        after = sorted((p for p in self.rules.values() if p.yaml[1] >= line), key=lambda p: p.yaml[0])
        return Line(after[0].asks[0] + 1, after[0].yaml[0]) if after else None

    def of_frame(self, chunk: str, line: int, shown: int) -> tuple[dict[str, Any], int, bool]:
        """Source, line, and whether the frame is of minor interest."""
        if chunk == "platform":
            return self.source(PLATFORM), line, False
        if self._yaml and shown == 0:
            return self.source(GENERATED), line, True
        return self.source(OWN), shown, False

    def rule_at(self, chunk: str, line: int) -> str | None:
        """The rule that a line of the Lua belongs to."""
        if chunk != "policy":
            return None
        return next((name for name, place in self.rules.items() if place.lua[0] <= line <= place.lua[1]), None)
