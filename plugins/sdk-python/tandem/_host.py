"""What stands between a plugin and the host."""

import importlib

from . import WorkspaceError

#: Set with the first call. Until then the file is being loaded, at build time, with no host behind it.
called = False


class Interface:
    """A capability: its functions, with the errors that the contract gives them as exceptions."""

    def __init__(self, name):
        self.name = name
        try:
            self.module = importlib.import_module(f"wit_world.imports.{name}")
        except ImportError:
            self.module = None

    def __call__(self, function, *values):
        if self.module is None:
            raise RuntimeError(f"`tandem.{self.name}` works only in a built plugin that imports it by its name")
        if not called:
            raise RuntimeError(f"`tandem.{self.name}` can be used only inside a hook or a tool, not while the file is loaded")
        from componentize_py_types import Err

        try:
            return getattr(self.module, function)(*values)
        except Err as error:
            problem = error.value
        if isinstance(problem, str):
            raise RuntimeError(problem)
        case = type(problem).__name__.removeprefix("WorkspaceError_")
        kind = {"NotFound": "not-found", "Denied": "denied", "TooLarge": "too-large"}.get(case, "failed")
        raise WorkspaceError(kind, problem.value)
