"""Reading the workspace. Grant: `workspace-read`.

Paths are relative to it; links out of it are refused. All of it raises `WorkspaceError`.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import WorkspaceError
from ._host import Interface

__all__ = ["Entry", "SearchHit", "WorkspaceError", "diff", "list", "read", "read_text", "search", "stat", "untracked"]

_workspace = Interface("workspace_read")


@dataclass
class Entry:
    path: str
    is_folder: bool
    bytes: int


@dataclass
class SearchHit:
    path: str
    #: Counts from 1.
    line: int
    text: str


def read(path: str) -> bytes:
    return bytes(_workspace("read", path))


def read_text(path: str) -> str:
    """The file as text; what is not UTF-8 becomes U+FFFD."""
    return read(path).decode(errors="replace")


def list(path: str) -> list[Entry]:
    return [Entry(entry.path, entry.is_folder, entry.bytes) for entry in _workspace("list", path)]


def stat(path: str) -> Entry:
    entry = _workspace("stat", path)
    return Entry(entry.path, entry.is_folder, entry.bytes)


def search(text: str, suffix: str, max_hits: int) -> list[SearchHit]:
    """Lines that contain `text`, in files whose name ends in `suffix`."""
    return [SearchHit(hit.path, hit.line, hit.text) for hit in _workspace("search", text, suffix, max_hits)]


def diff() -> bytes:
    """The difference of the work tree to the start of the episode."""
    return bytes(_workspace("diff"))


def untracked() -> list[str]:
    return _workspace("untracked")
