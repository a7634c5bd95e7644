"""Messages for the plugin's author, kept in the episode's record. Grant: `log`."""

from ._host import Interface

_log = Interface("log")


def _say(level: str, message: object) -> None:
    _log("log", getattr(_log.module, "Level")[level] if _log.module else level, str(message))


def debug(message: object) -> None:
    _say("DEBUG", message)


def info(message: object) -> None:
    _say("INFO", message)


def warn(message: object) -> None:
    _say("WARN", message)
