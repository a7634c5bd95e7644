"""What turns the author's functions into the contract's exports, and exceptions into the text of a fault."""

import importlib
import json

import tandem
from tandem import _host
from wit_world.imports import failure

FILE = "plugin.py"


def call(name, run, *values):
    """Calls `run` with the contract's values as the SDK's own."""
    _host.called = True
    try:
        return answer(name, run(*[own(value) for value in values]))
    except BaseException as error:
        failure.explain(describe(error))
        raise


def describe(error):
    """The exception and the author's own lines that it came through. `traceback` would read the source file."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.endswith("/" + FILE):
            places.append(f"    at {code.co_name} ({FILE}:{trace.tb_lineno})")
        trace = trace.tb_next
    # The innermost first; a recursion has thousands.
    return "\n".join([f"uncaught {type(error).__name__}: {error}", *places[::-1][:10]])


def own(value):
    """A record of the generated bindings as the SDK's, an enumeration as its word in the contract."""
    if isinstance(value, list):
        return [own(item) for item in value]
    kind = type(value)
    if not kind.__module__.startswith("wit_world"):
        return value
    if hasattr(value, "name") and hasattr(kind, "__members__"):
        return value.name.lower().replace("_", "-")
    fields = {name: own(item) for name, item in vars(value).items()}
    return getattr(tandem, kind.__name__)(**fields)


def answer(name, value):
    """The answer of a point as the generated bindings have it. Anything else would be a trap without a text."""
    kinds, words = ANSWERS[name]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"`{name}` returns {value!r:.100}, not {words}")
    if isinstance(value, EFFECTS):
        module = importlib.import_module(f"wit_world.exports.{name}")
        if not isinstance(value.text, str):
            raise TypeError(f"`{name}` returns {value!r:.100}, whose text is no text")
        return getattr(module, f"Effect_{type(value).__name__}")(value.text)
    return None if name == "observe" else value


NONE = type(None)
EFFECTS = (tandem.Note, tandem.Stop, tandem.Rewrite, tandem.Refuse, tandem.Annotate, tandem.Replace)
TEXT = ((str, NONE), "a text or None")
STEER = ((tandem.Note, tandem.Stop, NONE), "note(...), stop(...) or None")
# What each export may answer.
ANSWERS = {
    "on_episode_start": TEXT,
    "on_model_call": STEER,
    "on_format_error": TEXT,
    "on_tool_call": ((tandem.Rewrite, tandem.Refuse, NONE), "rewrite(...), refuse(...) or None"),
    "on_tool_result": ((tandem.Annotate, tandem.Replace, NONE), "annotate(...), replace(...) or None"),
    "on_loop": STEER,
    "on_submit": TEXT,
    "on_choose_patch": ((int, NONE), "a whole number or None"),
    "on_limit": ((bool,), "True or False"),
    "observe": ((object,), "None"),
    "settings_schema": ((str,), "a JSON Schema"),
    "tools": ((object,), "an answer"),
}


def settings_schema(schema):
    return call("settings_schema", lambda: text(schema() if callable(schema) else schema))


def text(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def definitions():
    from wit_world.exports import tools

    return call("tools", lambda: [tools.ToolDefinition(name, says, text(schema)) for name, says, schema, _ in tandem._tools])


def call_tool(context, name, arguments):
    from wit_world.exports import tools

    def run(context):
        for known, _, _, function in tandem._tools:
            if known == name:
                try:
                    return function(context, tandem.json_object(arguments))
                except tandem.ToolError as error:
                    return tandem.ToolOutput(str(error), is_error=True)
        return tandem.ToolOutput(f"there is no tool {name}", is_error=True)

    def output(context):
        said = run(context)
        said = tandem.ToolOutput(said) if isinstance(said, str) else said
        if not isinstance(said, tandem.ToolOutput) or not isinstance(said.text, str):
            raise TypeError(f"the tool `{name}` returns {said!r:.100}, not a text or ToolOutput(...)")
        content = [tools.Content_Text(said.text)] if said.text or not said.images else []
        content += [tools.Content_Image(tools.Image(image.media_type, image.data)) for image in said.images]
        structured = None if said.structured is None else text(said.structured)
        return tools.ToolOutput(content, structured, said.is_error)

    return call("tools", output, context)
