"""Running a program in the workspace's sandbox. Grant: `exec`."""

from __future__ import annotations

from dataclasses import dataclass

from . import WorkspaceError
from ._host import Interface

__all__ = ["Output", "WorkspaceError", "run"]

_exec = Interface("exec")


@dataclass
class Output:
    #: None when it was stopped at its time limit.
    exit_code: int | None
    #: Standard output and error, cut head and tail at the host's cap.
    text: str


def run(argv: list[str], timeout_ms: int) -> Output:
    """`argv` is run as it is, not by a shell. Raises `WorkspaceError`."""
    output = _exec("run", argv, timeout_ms)
    return Output(output.exit_code, bytes(output.text).decode(errors="replace"))
