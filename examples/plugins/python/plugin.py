"""Refuses `rm -r` of everything, names the failing tests, and adds a tool `head`.

Defines: on_tool_call, on_tool_result, a tool. Grant: workspace-read.
"""

import re

from tandem import ToolError, ToolOutput, WorkspaceError, annotate, lines, refuse, tool, workspace_read

# What nobody means to delete.
EVERYTHING = {"/", "/*", "~", "~/", "$HOME", "$HOME/", ".", "./", "..", "*"}


def on_tool_call(context, call):
    for simple in re.split(r"[;&|\n]", call.command() or ""):
        target = deletes([word for word in re.split(r"[ \t]", simple) if word])
        if target:
            return refuse(f"`rm -r` of `{target}` would delete what the task needs; name the folder that you mean")


def deletes(words):
    """What a simple command would delete of EVERYTHING."""
    if words[:1] == ["sudo"]:
        words = words[1:]
    if not words or not (words[0] == "rm" or words[0].endswith("/rm")):
        return None
    flags = [word for word in words[1:] if word.startswith("-")]
    if not any(map(is_recursive, flags)):
        return None
    return next((word for word in words[1:] if word in EVERYTHING), None)


def is_recursive(flag):
    return flag == "--recursive" or not flag.startswith("--") and ("r" in flag or "R" in flag)


def on_tool_result(context, call, outcome):
    if call.name != "bash" or outcome.status != "finished" or outcome.exit_code in (None, 0):
        return None
    failed = (line.removeprefix("FAILED ") for line in outcome.text.split("\n") if line.startswith("FAILED "))
    names = [name for line in failed if (name := line.split(" - ")[0].strip(" \t\r"))]
    if not names:
        return None
    if len(names) == 1:
        return annotate(f"1 test fails: {names[0]}")
    return annotate(f"{len(names)} tests fail; the first is {names[0]}")


@tool(
    "head",
    "Shows the first lines of a file, with their numbers.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "relative to the workspace"},
            "lines": {"type": "integer", "minimum": 1, "maximum": 200, "description": "10 unless given"},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
)
def head(context, args):
    path, count = args.get("path"), args.get("lines", 10)
    if not isinstance(path, str):
        raise ToolError("`path` is missing: name a file of the workspace")
    # True is a number to Python; 10.0 is 10 to JSON.
    if isinstance(count, bool) or not isinstance(count, (int, float)) or count not in range(1, 201):
        raise ToolError("`lines` must be a whole number from 1 to 200")
    try:
        text = workspace_read.read(path).decode()
    except WorkspaceError as error:
        raise ToolError(f"{path} does not exist" if error.kind == "not-found" else f"{path} cannot be read")
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text")
    if text == "":
        return f"{path} is empty"
    shown = lines(text)[: int(count)]
    numbered = (f"{number}\t{line}" for number, line in enumerate(shown, 1))
    return ToolOutput("\n".join(numbered), structured={"lines": len(shown)})
