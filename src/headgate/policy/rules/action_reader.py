"""Reads the `action` of a rule from the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headgate.policy.rules.diagnostics import Notes, nearest, shown
from headgate.policy.rules.luacheck import LuaSyntaxProblem, check_body, check_script
from headgate.policy.rules.model import (
    Action,
    Dispatch,
    Evict,
    LuaBody,
    LuaScript,
    Preempt,
    StartWorker,
    UsePlatform,
    Wait,
)
from headgate.policy.rules.tree import Mapping, Node, Scalar, Sequence
from headgate.policy.rules.vocabulary import (
    ACTIONS,
    CLASSES,
    EVICTIONS,
    MODEL_MATCHES,
    PLATFORM,
    SELECTIONS,
)

LONGEST_WAIT_MS = 24 * 3600 * 1000


def read_action(node: Node, path: str, notes: Notes) -> Action | None:
    """The action, or None after noting what is wrong with it."""
    if not isinstance(node, Mapping):
        hint = nearest(node.text, ACTIONS) if isinstance(node, Scalar) else None
        message = "an action is a mapping, as in dispatch: {worker_selection: least-loaded}"
        notes.add("wrong-type", node.start, message, path=path, suggestion=hint)
        return None
    if len(node.entries) != 1:
        message = f"an action is exactly one of {', '.join(ACTIONS)}; found {len(node.entries)}"
        notes.add("several-actions" if node.entries else "missing-key", node.start, message, path=path)
        return None
    key, value = node.entries[0]
    reader = _READERS.get(key.text)
    if reader is None:
        hint = nearest(key.text, ACTIONS)
        message = f"unknown action {shown(key.text)}"
        notes.add("unknown-action", key.start, message, path=path, suggestion=hint)
        return None
    failures = len(notes.found)
    action = reader(value, f"{path}.{key.text}", notes)
    failed = any(note.severity == "error" for note in notes.found[failures:])
    return None if failed else action


def _dispatch(node: Node, path: str, notes: Notes) -> Action | None:
    settings = _settings(node, ("worker_selection", "model_match"), path, notes)
    return Dispatch(
        _choice(settings, "worker_selection", SELECTIONS, path, notes) or "least-loaded",
        _choice(settings, "model_match", MODEL_MATCHES, path, notes),
    )


def _wait(node: Node, path: str, notes: Notes) -> Action | None:
    settings = _settings(node, ("duration_ms",), path, notes)
    given = settings.get("duration_ms")
    if given is None:
        return Wait()
    duration = _scalar(given)
    if not isinstance(duration, int) or isinstance(duration, bool) or not 0 <= duration <= LONGEST_WAIT_MS:
        message = f"duration_ms is a whole number from 0 to {LONGEST_WAIT_MS}"
        notes.add("wrong-type", given.start, message, path=f"{path}.duration_ms")
        return None
    return Wait(duration)


def _evict(node: Node, path: str, notes: Notes) -> Action | None:
    settings = _settings(node, ("worker_id", "select"), path, notes)
    if isinstance(node, Mapping) and ("worker_id" in settings) == ("select" in settings):
        notes.add("missing-key", node.start, "evict takes either worker_id or select", path=path)
        return None
    worker_id = _name(settings, "worker_id", path, notes)
    return Evict(worker_id, _choice(settings, "select", EVICTIONS, path, notes))


def _start_worker(node: Node, path: str, notes: Notes) -> Action | None:
    settings = _settings(node, ("model_ref", "pool_id", "gpu_id"), path, notes)
    model_ref = _name(settings, "model_ref", path, notes)
    pool_id = _name(settings, "pool_id", path, notes)
    given = settings.get("gpu_id")
    if given is None:
        return StartWorker(model_ref, pool_id)
    gpu = _scalar(given)
    whole = isinstance(gpu, int) and not isinstance(gpu, bool) and 0 <= gpu <= 2**53
    if not whole and not (isinstance(gpu, str) and gpu):
        notes.add("wrong-type", given.start, "gpu_id is a number from 0 or a name", path=f"{path}.gpu_id")
        return None
    return StartWorker(model_ref, pool_id, gpu if isinstance(gpu, int | str) else None)


def _preempt(node: Node, path: str, notes: Notes) -> Action | None:
    classes = _settings(node, ("classes",), path, notes).get("classes")
    if not isinstance(classes, Sequence) or not classes.items:
        if isinstance(node, Mapping):
            message = f"preempt takes classes, a list of {', '.join(CLASSES)}"
            code = "missing-key" if classes is None else "wrong-type"
            notes.add(code, (classes or node).start, message, path=path)
        return None
    found = [_one_of(item, CLASSES, f"{path}.classes[{at}]", notes) for at, item in enumerate(classes.items)]
    return Preempt(tuple(dict.fromkeys(name for name in found if name is not None)))


def _use(node: Node, path: str, notes: Notes) -> Action | None:
    return UsePlatform() if _one_of(node, (PLATFORM,), path, notes) else None


def _lua(node: Node, path: str, notes: Notes) -> Action | None:
    if isinstance(node, Mapping):
        script = _settings(node, ("script",), path, notes).get("script")
        if script is None:
            notes.add("missing-key", node.start, "a Lua card is text, or a mapping with script", path=path)
            return None
        return _card(script, LuaScript, check_script, f"{path}.script", notes)
    return _card(node, LuaBody, check_body, path, notes)


def _card(
    node: Node,
    build: Callable[[str], Action],
    check: Callable[[str], LuaSyntaxProblem | None],
    path: str,
    notes: Notes,
) -> Action | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.text.strip():
        notes.add("wrong-type", node.start, "a Lua card holds Lua source as text", path=path)
        return None
    problem = check(node.text)
    if problem is not None:
        _note_lua(node, problem, path, notes)
        return None
    return build(node.text)


def _note_lua(node: Scalar, problem: LuaSyntaxProblem, path: str, notes: Notes) -> None:
    message = f"Lua: {problem.message}"
    if node.style == "|":
        notes.add_in_block("bad-lua", node.start, problem.line, message, path=path)
    else:
        notes.add("bad-lua", node.start, f"{message} (line {problem.line} of the Lua)", path=path)


def _settings(node: Node, known: tuple[str, ...], path: str, notes: Notes) -> dict[str, Node]:
    if isinstance(node, Scalar) and node.value is None:
        return {}
    if not isinstance(node, Mapping):
        notes.add("wrong-type", node.start, f"expected a mapping with {', '.join(known)}", path=path)
        return {}
    for key, _ in node.entries:
        if key.text not in known:
            hint = nearest(key.text, known)
            notes.add("unknown-key", key.start, f"unknown key {shown(key.text)}", path=path, suggestion=hint)
    return {key.text: value for key, value in node.entries}


def _choice(settings: dict[str, Node], key: str, known: tuple[str, ...], path: str, notes: Notes) -> str | None:
    node = settings.get(key)
    return None if node is None else _one_of(node, known, f"{path}.{key}", notes)


def _one_of(node: Node, known: Iterable[str], path: str, notes: Notes) -> str | None:
    names = tuple(known)
    value = _scalar(node)
    if isinstance(value, str) and value in names:
        return value
    if not isinstance(value, str):
        notes.add("wrong-type", node.start, f"expected one of {', '.join(names)}", path=path)
        return None
    message = f"unknown value {shown(value)}; expected one of {', '.join(names)}"
    notes.add("unknown-value", node.start, message, path=path, suggestion=nearest(value, names))
    return None


def _name(settings: dict[str, Node], key: str, path: str, notes: Notes) -> str | None:
    node = settings.get(key)
    if node is None:
        return None
    value = _scalar(node)
    if isinstance(value, str) and value.strip():
        return value
    notes.add("wrong-type", node.start, f"{key} is text and not empty", path=f"{path}.{key}")
    return None


def _scalar(node: Node) -> str | int | float | bool | None:
    return node.value if isinstance(node, Scalar) else None


_READERS: dict[str, Callable[[Node, str, Notes], Action | None]] = {
    "dispatch": _dispatch,
    "wait": _wait,
    "evict": _evict,
    "start_worker": _start_worker,
    "preempt": _preempt,
    "use": _use,
    "lua": _lua,
}
