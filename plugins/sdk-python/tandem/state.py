"""What a plugin keeps during one episode: any value that JSON can hold. Grant: `state`."""

import json
from typing import Any

from ._host import Interface

_state = Interface("state")


def get(key: str, default: Any = None) -> Any:
    kept = _state("get", key)
    return default if kept is None else json.loads(kept)


def set(key: str, value: Any) -> None:
    """Raises RuntimeError when the host's cap would be passed; the message has both numbers."""
    _state("set", key, json.dumps(value).encode())
