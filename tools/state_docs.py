"""Draw the states of a job for the documentation, from the transition table of the core.

    python -m tools.state_docs

writes docs/assets/states.svg and the generated part of docs/reference/states.md. Every state is a column, and every
arrow of the diagram has a row of its own: nothing has to be placed by hand and no arrow can cross a label.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from headgate.core.states import TERMINAL, JobState, diagram

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "assets" / "states.svg"
PAGE = ROOT / "docs" / "reference" / "states.md"
GENERATED = re.compile(r"(<!-- generated:start -->\n).*?(<!-- generated:end -->)", re.DOTALL)

OUTSIDE = "[*]"
COLUMN, ROW, TOP, BOX, MARGIN = 112, 30, 60, 92, 16

STYLE = """
    .panel { fill: #f8fafc; stroke: #cbd5e1; }
    .box { fill: #ffffff; stroke: #64748b; stroke-width: 1.4; }
    .end { fill: #dbeafe; stroke: #2563eb; stroke-width: 1.8; }
    .text { fill: #1e293b; }
    .soft { fill: #55637a; font-size: 12px; }
    .life { stroke: #cbd5e1; stroke-dasharray: 3 4; }
    .line { stroke: #64748b; fill: none; stroke-width: 1.6; }
    .head { fill: #64748b; }
    @media (prefers-color-scheme: dark) {
      .panel { fill: #0f172a; stroke: #334155; }
      .box { fill: #1e293b; stroke: #94a3b8; }
      .end { fill: #1e3a8a; stroke: #60a5fa; }
      .text { fill: #e2e8f0; }
      .soft { fill: #a3b1c6; }
      .life { stroke: #334155; }
      .line { stroke: #94a3b8; }
      .head { fill: #94a3b8; }
    }
  """
READABLE = 'role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif" font-size="14"'
ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="5.5" markerHeight="5.5" orient="auto">'
    '<path class="head" d="M0 0L10 5L0 10z"/></marker></defs>'
)


class Edge(NamedTuple):
    """An arrow of the diagram."""

    before: str
    after: str
    label: str


def edges(drawn: str) -> list[Edge]:
    """The arrows of a Mermaid state diagram, in the order written."""
    found = re.findall(r"^ +(\S+) --> (\S+?)(?:: (.*))?$", drawn, re.MULTILINE)
    return [Edge(*parts) for parts in found]


def svg(drawn: str) -> str:
    """The diagram as a picture."""
    states = [str(state) for state in JobState]
    middle = {state: MARGIN + COLUMN * index + COLUMN // 2 for index, state in enumerate(states)}
    rows = [edge for edge in edges(drawn) if edge.after != OUTSIDE]
    width, height = 2 * MARGIN + COLUMN * len(states), TOP + ROW * len(rows) + MARGIN + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {READABLE}>',
        '<title id="title">The states of a job</title>',
        f'<desc id="desc">{"; ".join(map(sentence, rows))}.</desc>',
        f"<style>{STYLE}</style>",
        ARROW,
        f'<rect class="panel" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="12"/>',
        *(_column(state, middle[state], height) for state in states),
        *(_arrow(edge, middle, TOP + ROW * (index + 1)) for index, edge in enumerate(rows)),
        "</svg>",
    ]
    return "\n  ".join(parts[:-1]) + "\n" + parts[-1] + "\n"


def sentence(edge: Edge) -> str:
    """An arrow in words."""
    if edge.before == OUTSIDE:
        return f"a new job is {edge.after}"
    return f"{edge.before} to {edge.after} by {edge.label}"


def _column(state: str, x: int, height: int) -> str:
    look = "end" if state in TERMINAL else "box"
    return (
        f'<line class="life" x1="{x}" y1="48" x2="{x}" y2="{height - 14}"/>'
        f'<rect class="{look}" x="{x - BOX // 2}" y="18" width="{BOX}" height="30" rx="8"/>'
        f'<text class="text" x="{x}" y="38" text-anchor="middle">{state}</text>'
    )


def _arrow(edge: Edge, middle: dict[str, int], y: int) -> str:
    end = middle[edge.after]
    begin = end - COLUMN // 2 + 4 if edge.before == OUTSIDE else middle[edge.before]
    label = "submit" if edge.before == OUTSIDE else edge.label
    return (
        f'<path class="line" d="M{begin} {y}H{end}" marker-end="url(#arrow)"/>'
        f'<circle class="head" cx="{begin}" cy="{y}" r="3"/>'
        f'<text class="soft" x="{(begin + end) // 2}" y="{y - 6}" text-anchor="middle">{label}</text>'
    )


def section(drawn: str) -> str:
    """The generated part of the page: the picture, the table, and the source of the diagram."""
    rows = [edge for edge in edges(drawn) if OUTSIDE not in (edge.before, edge.after)]
    table = ["| from | by | to |", "| --- | --- | --- |"]
    for edge in rows:
        triggers = ", ".join(f"`{label.replace(' ', '_')}`" for label in edge.label.split(", "))
        table.append(f"| `{edge.before}` | {triggers} | `{edge.after}` |")
    picture = "![The states of a job and what leads from one to the next](../assets/states.svg)"
    return "\n\n".join([picture, "\n".join(table), "The same as a Mermaid diagram:", f"```text\n{drawn}\n```\n"])


def page(text: str, drawn: str) -> str:
    """The page with its generated part replaced."""
    fresh, found = GENERATED.subn(lambda match: f"{match[1]}\n{section(drawn)}\n{match[2]}", text)
    if found != 1:
        raise ValueError(f"{PAGE.name} needs one part between the markers of generated text, has {found}")
    return fresh


def main() -> None:
    """Write both files."""
    PICTURE.write_text(svg(diagram()), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), diagram()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
