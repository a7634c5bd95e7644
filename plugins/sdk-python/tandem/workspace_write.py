"""Writing the workspace. Grant: `workspace-write`."""

from __future__ import annotations

from . import WorkspaceError
from ._host import Interface

__all__ = ["WorkspaceError", "write"]

_workspace = Interface("workspace_write")


def write(path: str, content: str | bytes) -> None:
    """A text is written as UTF-8. Raises `WorkspaceError`."""
    _workspace("write", path, content.encode() if isinstance(content, str) else content)
