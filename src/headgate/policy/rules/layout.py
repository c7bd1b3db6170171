"""Where things stand in a document's text: lines, values, rules with the comments that belong to them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from headgate.policy.rules.tree import Mapping, Node, Scalar, Sequence


class Layout:
    """Offsets in one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def line_start(self, offset: int) -> int:
        return max(self.text.rfind("\n", 0, offset), self._lone_return(offset)) + 1

    def line_end(self, offset: int) -> int:
        """Just behind the line break of the line that holds `offset`."""
        found = self.text.find("\n", offset)
        return len(self.text) if found < 0 else found + 1

    def column(self, offset: int) -> int:
        return offset - self.line_start(offset)

    def indent(self, offset: int) -> str:
        return " " * self.column(offset)

    def tail(self, node: Node) -> int:
        """Behind the last line of a value, comments on that line included."""
        leaf = _last_leaf(node)
        if isinstance(leaf, Scalar) and leaf.style in ("|", ">") and "+" in self.header(leaf):
            return leaf.end
        end = len(self.text[: node.end].rstrip())
        return self.line_end(max(end, node.start))

    def header(self, scalar: Scalar) -> str:
        """The `|-` of a block scalar."""
        line = self.text[scalar.start : self.line_end(scalar.start)]
        return line.split("#")[0].strip()

    def _lone_return(self, offset: int) -> int:
        found = self.text.rfind("\r", 0, offset)
        return found if found >= 0 and self.text[found + 1 : found + 2] != "\n" else -1


@dataclass(slots=True)
class Slots:
    """The items of a sequence with what stands before, between and after them; joined, they are the text."""

    before: str
    items: list[str]
    gaps: list[str]
    after: str
    flow: bool

    def join(self) -> str:
        parts = [text for pair in zip(self.items, [*self.gaps, ""], strict=True) for text in pair]
        return self.before + "".join(parts) + self.after


def slots_of(layout: Layout, rules: Sequence) -> Slots:
    """The rules of a document, each with the comments that belong to it."""
    spans = _flow_spans(rules) if rules.flow else _block_spans(layout, rules)
    text = layout.text
    gaps = [text[left[1] : right[0]] for left, right in pairwise(spans)]
    items = [text[start:end] for start, end in spans]
    return Slots(text[: spans[0][0]], items, gaps, text[spans[-1][1] :], rules.flow)


def _flow_spans(rules: Sequence) -> list[tuple[int, int]]:
    return [(item.start, item.end) for item in rules.items]


def _block_spans(layout: Layout, rules: Sequence) -> list[tuple[int, int]]:
    dash_column = layout.column(rules.start)
    spans: list[tuple[int, int]] = []
    for item in rules.items:
        floor = spans[-1][1] if spans else 0
        dash_line = _dash_line(layout, item, dash_column)
        end = _with_trailing_comments(layout, layout.tail(item), dash_column)
        spans.append((_lead(layout, dash_line, floor), end))
    return spans


def _dash_line(layout: Layout, item: Node, dash_column: int) -> int:
    start = layout.line_start(item.start)
    while start > 0 and layout.text[start : start + dash_column + 1] != " " * dash_column + "-":
        start = layout.line_start(start - 1)
    return start


def _lead(layout: Layout, line: int, floor: int) -> int:
    """Comment lines directly above a rule belong to it."""
    while line > floor:
        above = layout.line_start(line - 1)
        if above < floor or not layout.text[above:line].lstrip().startswith("#"):
            break
        line = above
    return line


def _with_trailing_comments(layout: Layout, end: int, dash_column: int) -> int:
    """Comment lines directly below a rule, indented like its content, belong to it."""
    while end < len(layout.text):
        line = layout.text[end : layout.line_end(end)]
        content = line.lstrip(" ")
        if not content.startswith("#") or len(line) - len(content) <= dash_column:
            break
        end += len(line)
    return end


def _last_leaf(node: Node) -> Node:
    while isinstance(node, Sequence | Mapping) and not node.flow:
        parts = node.items if isinstance(node, Sequence) else tuple(value for _, value in node.entries)
        if not parts:
            break
        node = parts[-1]
    return node
