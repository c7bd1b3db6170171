"""Changes to one mapping of a document, as replacements of as little text as possible."""

from __future__ import annotations

from typing import Any, NamedTuple

from headgate.policy.rules.layout import Layout
from headgate.policy.rules.render import entry_lines, flow_text, scalar_text, value_parts
from headgate.policy.rules.tree import Mapping, Node, Scalar, Sequence, data

_AFTER_NAME = ("description", "enabled")


class Splice(NamedTuple):
    """The text from `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str


def apply(text: str, splices: list[Splice]) -> str:
    for splice in sorted(splices, reverse=True):
        text = text[: splice.start] + splice.text + text[splice.end :]
    return text


def same(left: Any, right: Any) -> bool:
    """Equality that tells 1 from true."""
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def mapping_splices(layout: Layout, mapping: Mapping, wanted: dict[str, Any]) -> list[Splice]:
    """Makes a mapping hold exactly `wanted`, leaving what is already so untouched."""
    splices: list[Splice] = []
    first_kept = next(at for at, (key, _) in enumerate(mapping.entries) if key.text in wanted)
    for position, (key, old) in enumerate(mapping.entries):
        if key.text in wanted:
            splices += _value_splices(layout, key, old, wanted[key.text], flow=mapping.flow)
        else:
            splices.append(_removal(layout, mapping, position, first_kept))
    missing = {key: value for key, value in wanted.items() if mapping.get(key) is None}
    return splices + _insertions(layout, mapping, missing)


def _value_splices(layout: Layout, key: Scalar, old: Node, new: Any, *, flow: bool) -> list[Splice]:
    if same(data(old), new):
        return []
    if isinstance(old, Mapping) and isinstance(new, dict) and _shares_keys(old, new):
        return mapping_splices(layout, old, new)
    if isinstance(old, Sequence) and isinstance(new, list) and _same_shape(old, new):
        pairs = zip(old.items, new, strict=True)
        return [splice for item, value in pairs for splice in _item_splices(layout, item, value)]
    colon = layout.text.index(":", key.end) + 1
    if flow:
        return [_inline(layout, colon, old, " " + flow_text(new))]
    return _replacement(layout, key, colon, old, new)


def _same_shape(old: Sequence, new: list[Any]) -> bool:
    """Whether a list can be changed item by item."""
    return len(old.items) == len(new) and all(map(_same_kind, old.items, new))


def _same_kind(item: Node, value: Any) -> bool:
    if isinstance(item, Scalar):
        return isinstance(value, str | int | float | bool) and item.style not in ("|", ">")
    if isinstance(item, Mapping) and isinstance(value, dict):
        return _shares_keys(item, value)
    return same(data(item), value)


def _shares_keys(mapping: Mapping, wanted: dict[str, Any]) -> bool:
    """Whether something of a mapping stays; else it is replaced as a whole."""
    return any(key.text in wanted for key, _ in mapping.entries)


def _item_splices(layout: Layout, item: Node, value: Any) -> list[Splice]:
    if same(data(item), value):
        return []
    if isinstance(item, Mapping):
        return mapping_splices(layout, item, value)
    style = item.style if isinstance(item, Scalar) else ""
    return [Splice(item.start, item.end, scalar_text(value, style))]


def _replacement(layout: Layout, key: Scalar, colon: int, old: Node, new: Any) -> list[Splice]:
    style = old.style if isinstance(old, Scalar) else ""
    inline, below = value_parts(new, layout.indent(key.start))
    if not below and not isinstance(new, dict | list):
        inline = " " + scalar_text(new, style)
    lines = "".join(line + layout.newline for line in below)
    if isinstance(old, Scalar) and style in ("|", ">"):
        first = layout.line_end(old.start)
        header_end = old.start + len(layout.header(old))
        return [Splice(old.start, header_end, inline.strip()), Splice(first, layout.tail(old), lines)]
    if isinstance(old, Mapping | Sequence) and not old.flow:
        first = layout.line_end(key.end)
        return [Splice(colon, colon, inline), Splice(first, layout.tail(old), lines)]
    below_at = layout.line_end(_inline_end(colon, old))
    below_splice = Splice(below_at, below_at, _on_new_line(layout, below_at, lines))
    return [_inline(layout, colon, old, inline), below_splice]


def _inline(layout: Layout, colon: int, old: Node, inline: str) -> Splice:
    if inline and old.start < old.end and layout.line_start(old.start) == layout.line_start(colon):
        return Splice(old.start, old.end, inline.lstrip())
    return Splice(colon, _inline_end(colon, old), inline)


def _inline_end(colon: int, old: Node) -> int:
    # a missing value has no extent of its own; its mark may lie on a later line
    return old.end if old.end > old.start else colon


def _on_new_line(layout: Layout, offset: int, lines: str) -> str:
    unfinished = offset > 0 and layout.text[offset - 1] != "\n"
    return layout.newline + lines if lines and unfinished else lines


def _insertions(layout: Layout, mapping: Mapping, missing: dict[str, Any]) -> list[Splice]:
    if not missing:
        return []
    if mapping.flow:
        return [_flow_insertion(mapping, missing)]
    indent = layout.indent(mapping.start)
    texts: dict[int, list[str]] = {}
    for key, value in missing.items():
        texts.setdefault(_anchor(layout, mapping, key), []).extend(entry_lines(key, value, indent))
    joined = {at: "".join(line + layout.newline for line in lines) for at, lines in texts.items()}
    return [Splice(at, at, _on_new_line(layout, at, lines)) for at, lines in joined.items()]


def _anchor(layout: Layout, mapping: Mapping, key: str) -> int:
    name = mapping.get("name")
    if key in _AFTER_NAME and name is not None:
        return layout.tail(name)
    return layout.tail(mapping.entries[-1][1])


def _flow_insertion(mapping: Mapping, missing: dict[str, Any]) -> Splice:
    text = ", ".join(f"{scalar_text(key)}: {flow_text(value)}" for key, value in missing.items())
    if not mapping.entries:
        return Splice(mapping.start, mapping.end, f"{{ {text} }}")
    at = mapping.entries[-1][1].end
    return Splice(at, at, f", {text}")


def _removal(layout: Layout, mapping: Mapping, position: int, first_kept: int) -> Splice:
    key, value = mapping.entries[position]
    first = mapping.entries[0][0]
    starts_a_line = layout.text[layout.line_start(first.start) : first.start].strip(" ") == ""
    if position < first_kept and (mapping.flow or not starts_a_line):
        # the bracket or dash before the first key stays, so what follows moves up to it
        return Splice(key.start, mapping.entries[position + 1][0].start, "")
    if mapping.flow:
        return Splice(mapping.entries[position - 1][1].end, value.end, "")
    return Splice(layout.line_start(key.start), layout.tail(value), "")
