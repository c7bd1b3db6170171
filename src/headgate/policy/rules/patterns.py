"""`matches`: a subset of regular expressions, translated to Lua patterns.

Understood: literals, `.`, classes, `\\d \\w \\s` and their negations, `* + ? *? +?` and `{n}`, `{n,}`,
`{n,m}` on single characters, `^` and `$` at the ends, groups and alternatives that carry no quantifier.
Lua patterns have no alternatives, so `a(b|c)` becomes two patterns, of which one must match.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_LENGTH = 500
MAX_ALTERNATIVES = 32
MAX_REPEAT = 64
# LuaJIT gives up with an error at about 200 nested repetitions; stay far below
MAX_QUANTIFIED = 40

_CLASSES = {"d": "%d", "D": "%D", "s": "%s", "S": "%S", "w": "[%w_]", "W": "[^%w_]"}
_CLASSES_INSIDE = {"d": "%d", "D": "%D", "s": "%s", "S": "%S", "w": "%w_"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


class PatternError(Exception):
    """The pattern cannot be translated."""

    def __init__(self, message: str, offset: int) -> None:
        self.message, self.offset = message, offset
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class _Piece:
    lua: str
    quantified: int = 0


def to_lua_patterns(pattern: str) -> tuple[str, ...]:
    """Lua patterns of which at least one is found exactly where the expression would be."""
    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"longer than {MAX_LENGTH} characters", MAX_LENGTH)
    parser = _Parser(pattern)
    branches = parser.alternatives()
    if parser.at < len(pattern):
        raise PatternError("unbalanced ')'", parser.at)
    return tuple(dict.fromkeys(_finish(branch, pattern) for branch in branches))


def _finish(branch: tuple[_Piece, ...], pattern: str) -> str:
    if sum(piece.quantified for piece in branch) > MAX_QUANTIFIED:
        raise PatternError(f"more than {MAX_QUANTIFIED} repetitions", len(pattern))
    for index, piece in enumerate(branch):
        if piece.lua == "^" and index > 0:
            raise PatternError("'^' stands only at the beginning", pattern.find("^", 1))
        if piece.lua == "$" and index < len(branch) - 1:
            raise PatternError("'$' stands only at the end", pattern.find("$"))
    return "".join(piece.lua for piece in branch)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self._depth = text, 0, 0

    def alternatives(self) -> list[tuple[_Piece, ...]]:
        branches = self._sequence()
        while self._peek() == "|":
            self.at += 1
            branches = branches + self._sequence()
            self._check_number(branches)
        return branches

    def _sequence(self) -> list[tuple[_Piece, ...]]:
        branches: list[tuple[_Piece, ...]] = [()]
        while self._peek() not in ("", "|", ")"):
            following = self._group() if self._peek() == "(" else [self._repeated()]
            branches = [left + right for left in branches for right in following]
            self._check_number(branches)
        return branches

    def _group(self) -> list[tuple[_Piece, ...]]:
        start, self.at, self._depth = self.at, self.at + 1, self._depth + 1
        if self._depth > MAX_ALTERNATIVES:
            raise PatternError("groups are nested too deeply", start)
        if self._peek() == "?":
            if self.text[self.at : self.at + 2] != "?:":
                raise PatternError("look-around, flags and named groups are not understood", start)
            self.at += 2
        branches = self.alternatives()
        if self._peek() != ")":
            raise PatternError("missing ')'", start)
        self.at, self._depth = self.at + 1, self._depth - 1
        if self._peek() in ("*", "+", "?", "{"):
            raise PatternError("a group cannot be repeated, only a single character", self.at)
        return branches

    def _repeated(self) -> tuple[_Piece, ...]:
        start = self.at
        item = self._item()
        sign = self._peek()
        if sign not in ("*", "+", "?", "{"):
            return (_Piece(item),)
        if item in ("^", "$"):
            raise PatternError("nothing to repeat", self.at)
        if not item.isascii():
            raise PatternError("only ASCII characters can be repeated; Lua patterns work on bytes", start)
        pieces = self._braces(item) if sign == "{" else self._star(item, sign)
        if self._peek() in ("*", "+", "?", "{"):
            raise PatternError("repeated twice", self.at)
        return pieces

    def _star(self, item: str, sign: str) -> tuple[_Piece, ...]:
        self.at += 1
        if self._peek() != "?":
            return (_Piece(item + sign, 1),)
        self.at += 1
        lazy = {"*": (_Piece(item + "-", 1),), "+": (_Piece(item), _Piece(item + "-", 1))}
        return lazy.get(sign, (_Piece(item + "?", 1),))

    def _braces(self, item: str) -> tuple[_Piece, ...]:
        start, close = self.at, self.text.find("}", self.at)
        low, comma, high = self.text[start + 1 : max(close, 0)].partition(",")
        bounds = (low, high if comma and high else low)
        if close < 0 or not all(bound.isascii() and bound.isdigit() and len(bound) < 4 for bound in bounds):
            raise PatternError("expected {n}, {n,} or {n,m}", start)
        least, most = int(bounds[0]), int(bounds[1])
        if most < least or most > MAX_REPEAT:
            raise PatternError(f"the range must rise and end at {MAX_REPEAT} at most", start)
        self.at = close + 1
        if self._peek() == "?":
            self.at += 1  # lazy or greedy makes no difference to whether something matches
        repeated = (_Piece(item),) * least
        if comma and not high:
            return (*repeated, _Piece(item + "*", 1))
        return repeated + (_Piece(item + "?", 1),) * (most - least)

    def _item(self) -> str:
        char = self._take()
        if char == "[":
            return self._set()
        if char == "\\":
            return self._escape(_CLASSES)
        if char in "*+?{":
            raise PatternError("nothing to repeat", self.at - 1)
        return char if char in ".^$" else _literal(char, self.at - 1)

    def _escape(self, classes: dict[str, str]) -> str:
        char = self._take()
        if char in classes:
            return classes[char]
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isalnum():
            raise PatternError(f"'\\{char}' is not understood", self.at - 2)
        return _literal(char, self.at - 1)

    def _set(self) -> str:
        start = self.at - 1
        negated = self._peek() == "^"
        self.at += negated
        members: list[str] = []
        while self._peek() != "]" or not members:
            if not self._peek():
                raise PatternError("missing ']'", start)
            members.append(self._member())
        self.at += 1
        return f"[{'^' if negated else ''}{''.join(members)}]"

    def _member(self) -> str:
        first = self._set_char()
        if self._peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return first
        self.at += 1
        last = self._set_char()
        low, high = _bare(first), _bare(last)
        if low is None or high is None or low > high:
            raise PatternError("not a range of characters", self.at - 1)
        return _range(low, high)

    def _set_char(self) -> str:
        char = self._take()
        member = self._escape(_CLASSES_INSIDE) if char == "\\" else _literal(char, self.at - 1)
        if not member.isascii():
            raise PatternError("a class holds ASCII characters only; Lua patterns work on bytes", self.at - 1)
        return member

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self) -> str:
        if self.at >= len(self.text):
            raise PatternError("ends in the middle", self.at)
        self.at += 1
        return self.text[self.at - 1]

    def _check_number(self, branches: list[tuple[_Piece, ...]]) -> None:
        if len(branches) > MAX_ALTERNATIVES:
            raise PatternError(f"more than {MAX_ALTERNATIVES} alternatives", self.at)


def _literal(char: str, offset: int) -> str:
    if char == "\0":
        raise PatternError("a NUL character cannot be matched", offset)
    if char.isascii():
        return char if char.isalnum() or char in "_ \n\t\r" else "%" + char
    return char


def _bare(member: str) -> str | None:
    if len(member) == 1:
        return member
    return member[1] if len(member) == 2 and member[0] == "%" and not member[1].isalnum() else None


def _range(low: str, high: str) -> str:
    # Lua takes escapes at the ends of a range literally, so a range over signs is spelled out
    if low.isalnum() and high.isalnum():
        return f"{low}-{high}"
    return "".join(_literal(chr(code), 0) for code in range(ord(low), ord(high) + 1))
