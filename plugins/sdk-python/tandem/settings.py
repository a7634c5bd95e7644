"""The settings of the plugin in the harness manifest. Grant: `settings`."""

from typing import Any

from . import json_object
from ._host import Interface

_settings = Interface("settings")


def all() -> dict[str, Any]:
    return json_object(_settings("get"))


def get(key: str, default: Any = None) -> Any:
    return all().get(key, default)
