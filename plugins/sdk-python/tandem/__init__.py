"""Write a Tandem plugin in Python.

A plugin is one file. What it defines is what it subscribes to:

    from tandem import refuse

    def on_tool_call(context, call):
        if "git push" in (call.command() or ""):
            return refuse("There is nowhere to push to.")

The functions and what they return, where `None` means that nothing happens:

    on_episode_start(context: Context, instruction: str) -> str | None
    on_model_call(context: Context) -> Note | Stop | None
    on_format_error(context: Context, error: FormatError, output: str) -> str | None
    on_tool_call(context: Context, call: ToolCall) -> Rewrite | Refuse | None
    on_tool_result(context: Context, call: ToolCall, outcome: ToolResult) -> Annotate | Replace | None
    on_loop(context: Context, repetition: Repetition) -> Note | Stop | None
    on_submit(context: Context, submission: Submission) -> str | None
    on_choose_patch(context: Context, candidates: list[PatchCandidate]) -> int | None
    on_limit(context: Context, limit: Limit, work_tree: PatchCandidate) -> bool
    observe(context: Context, name: str, payload: str) -> None    # a JSON object as text
    settings_schema() -> dict

A tool is a function under `@tool(...)`. Each module `tandem.GRANT` is a capability, and importing it is what
the plugin asks for: `log`, `clock`, `random`, `state`, `settings`, `workspace_read`, `workspace_write`, `exec`.
The standard library is there, without files, network, clock and chance: the same input must give the same
answer. An exception is a plugin fault, and its text names your file and line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Literal

ToolStatus = Literal["finished", "failed", "timed-out", "refused"]
PatchSource = Literal["submitted", "work-tree"]
FormatError = Literal["no-action", "several-actions", "unknown-tool", "bad-arguments", "cut-off"]
#: The same call with the same result 4 times, the same error 3 times, two calls in turn 6 times, no action 3 times.
Repetition = Literal["same-call", "same-error", "alternating", "no-action"]
Limit = Literal["turns", "tokens", "seconds", "format-errors"]


@dataclass
class Usage:
    """How much of one resource the episode has used, and its limit if it has one."""

    used: int
    limit: int | None


@dataclass
class Budget:
    """Seconds are virtual: they count turns and commands as recorded, not a wall clock."""

    turns: Usage
    tokens: Usage
    seconds: Usage


@dataclass
class Context:
    """Where in the episode a call happens. Turns count from 1."""

    turn: int
    budget: Budget


@dataclass
class ToolCall:
    """A tool call of the policy. `arguments` is a JSON object as text."""

    id: str
    name: str
    arguments: str

    def args(self) -> dict[str, Any]:
        """The arguments; an empty dictionary where they are no JSON object."""
        return json_object(self.arguments)

    def command(self) -> str | None:
        """The command line of a call of `bash`; None for a call of another tool."""
        command = self.args().get("command") if self.name == "bash" else None
        return command if isinstance(command, str) else None


@dataclass
class ToolResult:
    """What the policy is about to be shown of a tool call."""

    status: ToolStatus
    #: Of `bash`, when it finished.
    exit_code: int | None
    text: str
    #: Bytes of output before the model-visible cap was applied.
    raw_bytes: int


@dataclass
class WorkTree:
    """The work tree against the commit that the episode started from."""

    changed: list[str]
    untracked: list[str]


@dataclass
class PatchCandidate:
    """One patch that the host could hand in."""

    source: PatchSource
    #: 0 is an empty patch.
    bytes: int
    files: list[str]
    #: Whether it applies to the commit that the episode started from.
    applies: bool


@dataclass
class Submission:
    patch: PatchCandidate
    work_tree: WorkTree
    #: How often this episode's submission was deferred already; the host allows two.
    deferrals: int


@dataclass
class Note:
    """Text at the end of the newest content that the policy has not seen."""

    text: str


@dataclass
class Stop:
    """The end of the episode, with a reason for the record."""

    text: str


@dataclass
class Rewrite:
    """The call with these arguments instead, JSON as text."""

    text: str


@dataclass
class Refuse:
    """No call; the policy reads the reason as its result."""

    text: str


@dataclass
class Annotate:
    """Text after the result."""

    text: str


@dataclass
class Replace:
    """Text instead of the result."""

    text: str


note, stop, refuse, annotate, replace = Note, Stop, Refuse, Annotate, Replace


def rewrite(arguments: dict[str, Any]) -> Rewrite:
    """The call with these arguments instead."""
    return Rewrite(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


@dataclass
class Image:
    media_type: str
    data: bytes


@dataclass
class ToolOutput:
    """The answer of a tool."""

    text: str = ""
    #: What JSON can hold, if the tool has a structured answer.
    structured: Any = None
    is_error: bool = False
    images: list[Image] = field(default_factory=list)


class ToolError(Exception):
    """A tool's failure that the policy reads. Say what to do instead."""


class WorkspaceError(Exception):
    """Why the host did not do what a capability of the workspace was asked for."""

    kind: Literal["not-found", "denied", "too-large", "failed"]

    def __init__(self, kind: str, text: str) -> None:
        says = {"not-found": f"{text} does not exist", "denied": f"{text} is outside the workspace or may not be used"}
        super().__init__(says.get(kind, text))
        self.kind = kind  # type: ignore[assignment]


#: Name, description, JSON Schema and function of each tool, in the order of the file.
_tools: list[tuple[str, str, dict[str, Any], Callable[..., ToolOutput | str]]] = []


def tool(name: str, description: str, input_schema: dict[str, Any]) -> Callable[[Any], Any]:
    """Makes the function below a tool that the policy may call.

    It is called with the context and the arguments, a dictionary (empty where the policy sent no JSON object), and
    returns a text or a `ToolOutput`. The name has letters, digits, `_` and `-`, at most 64.
    """

    def add(run: Callable[..., ToolOutput | str]) -> Callable[..., ToolOutput | str]:
        _tools.append((name, description, input_schema, run))
        return run

    return add


def json_object(text: str) -> dict[str, Any]:
    """The JSON object in a text; an empty dictionary where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def lines(text: str) -> list[str]:
    """The lines of a text, split at line feeds; one at its end makes no further line."""
    all_lines = text.split("\n")
    if all_lines[-1] == "":
        all_lines.pop()
    return all_lines
