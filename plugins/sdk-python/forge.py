"""Builds one Python file into a component. Runs in the forge's sandbox.

    python3 -I -S -B forge.py SDK PACKAGES SOURCE OUT

SDK is this folder with the contract beside it as `harness.wit`; PACKAGES has componentize-py. OUT gets
`result.json`, and `plugin.wasm` unless the result has diagnostics. Nothing of the plugin runs in this process: its
text is compiled and looked at here, and its first run is in the component's own Python. An exit code other than 0 is
a fault of the tools, said on standard error.
"""

import ast
import difflib
import json
import os
import re
import shutil
import sys

# The author's function and the interface of the contract behind it.
POINTS = {
    "settings_schema": "settings-schema",
    "on_episode_start": "on-episode-start",
    "on_model_call": "on-model-call",
    "on_format_error": "on-format-error",
    "on_tool_call": "on-tool-call",
    "on_tool_result": "on-tool-result",
    "on_loop": "on-loop",
    "on_submit": "on-submit",
    "on_choose_patch": "on-choose-patch",
    "on_limit": "on-limit",
    "observe": "observe",
}
# Points whose effects are a variant of their own.
EFFECTS = {"on_model_call", "on_tool_call", "on_tool_result", "on_loop"}
GRANTS = ["log", "clock", "random", "state", "settings", "workspace_read", "workspace_write", "exec"]

# What a plugin has instead of what other places offer.
NO_BUILTIN = {
    "open": "files are read with `tandem.workspace_read` and written with `tandem.workspace_write`",
    "print": "say it with `tandem.log`",
    "input": "nobody is there to answer",
    "breakpoint": "say it with `tandem.log`",
}
NO_MODULE = {
    "time": "the time of the episode is in `tandem.clock`",
    "random": "chance is in `tandem.random`",
    "secrets": "chance is in `tandem.random`",
    "subprocess": "programs are run with `tandem.exec`",
    "socket": "a plugin has no network",
    "ssl": "a plugin has no network",
    "http": "a plugin has no network",
    "urllib.request": "a plugin has no network",
    "asyncio": "a plugin answers at once",
    "threading": "a plugin answers at once",
    "multiprocessing": "a plugin answers at once",
    "logging": "say it with `tandem.log`",
    "pathlib": "files are read with `tandem.workspace_read`; paths are taken apart with `posixpath`",
    "tempfile": "files are written with `tandem.workspace_write`",
    "shutil": "files are written with `tandem.workspace_write`",
    "ctypes": "a plugin is Python and its standard library",
}


class Check(ast.NodeVisitor):
    """What a file defines and imports, and what is wrong with it."""

    def __init__(self, text):
        self.lines = text.split("\n")
        self.diagnostics = []
        self.points = {}
        self.tools = False
        self.grants = set()
        self.assigned = set()

    def say(self, node, message, help=None, code=None):
        line = getattr(node, "lineno", 0) or 0
        column = (getattr(node, "col_offset", 0) or 0) + 1 if line else 0
        snippet = self.lines[line - 1] if 0 < line <= len(self.lines) else None
        self.diagnostics.append(
            {
                "file": "plugin.py" if line else "",
                "line": line,
                "column": column,
                "level": "error",
                "code": code,
                "message": message,
                "help": help,
                "snippet": snippet,
            }
        )

    def file(self, tree):
        self.assigned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self.assigned |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        self.assigned |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        for statement in tree.body:
            self.top(statement)
        for node in ast.walk(tree):
            self.visit_one(node)
        nested = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node not in tree.body]
        for node in nested:
            if node.name in POINTS and node.name.startswith("on_"):
                self.say(node, f"`{node.name}` is not at the top of the file, so it is no hook", "define it outside of everything else")
            elif any(is_tool(decorator) for decorator in node.decorator_list):
                self.say(node, f"the tool `{node.name}` is not at the top of the file", "define it outside of everything else")
        if not self.points and not self.tools and not self.diagnostics:
            self.say(None, "the file defines no hook point and no tools", f"define a function such as `on_tool_call`; there are {', '.join(POINTS)} and `@tool(...)`")

    def top(self, statement):
        if isinstance(statement, ast.AsyncFunctionDef) and (statement.name in POINTS or any(map(is_tool, statement.decorator_list))):
            self.say(statement, f"`{statement.name}` is `async`; a plugin answers at once", "write `def`")
        elif isinstance(statement, ast.FunctionDef):
            self.tools = self.tools or any(map(is_tool, statement.decorator_list))
            self.named(statement, statement.name)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id in POINTS:
                    self.points[target.id] = statement

    def named(self, node, name):
        if name in POINTS:
            self.points[name] = node
        elif name.startswith("on_"):
            near = difflib.get_close_matches(name, POINTS, 1)
            help = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(POINTS)}; other functions have names without `on_`"
            self.say(node, f"`{name}` is no hook point of the contract", help)

    def visit_one(self, node):
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imported(node, alias.name)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                self.say(node, "a plugin is one file, so there is nothing beside it to import", "put the rest into this file")
            elif node.module == "tandem":
                for alias in node.names:
                    if alias.name == "*":
                        self.say(node, "`from tandem import *` does not say what the plugin asks for", "name what is used")
                    elif alias.name in GRANTS:
                        self.grants.add(alias.name)
            else:
                self.imported(node, node.module)
                if node.module in ("urllib", "importlib"):
                    for alias in node.names:
                        self.imported(node, f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tandem":
            if node.attr in GRANTS:
                self.grants.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NO_BUILTIN:
            if node.func.id not in self.assigned:
                self.say(node, f"a plugin has no `{node.func.id}`", NO_BUILTIN[node.func.id])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("now", "utcnow", "today"):
            if "date" in ast.unparse(node.func.value):
                self.say(node, "a plugin has no clock of its own", NO_MODULE["time"])

    def imported(self, node, name):
        first, _, rest = name.partition(".")
        if first == "tandem":
            if rest in GRANTS:
                self.grants.add(rest)
            elif rest:
                self.say(node, f"there is no module `{name}`", f"the capabilities are {', '.join('tandem.' + grant for grant in GRANTS)}")
        elif name in NO_MODULE or first in NO_MODULE:
            self.say(node, f"a plugin cannot use `{name}`", NO_MODULE.get(name, NO_MODULE.get(first)))
        elif first not in sys.stdlib_module_names:
            self.say(node, f"there is no module `{name}`", "a plugin has the standard library and `tandem`")


def is_tool(decorator):
    called = decorator.func if isinstance(decorator, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
    return name == "tool"


def check(text):
    found = Check(text)
    try:
        tree = ast.parse(text, "plugin.py")
        compile(tree, "plugin.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        error.col_offset = max((error.offset or 1) - 1, 0)
        error.lineno = error.lineno or 0
        found.say(error, error.msg, code=type(error).__name__)
        return found
    except ValueError as error:
        found.say(None, f"the text is not Python: {error}")
        return found
    except RecursionError:
        found.say(None, "the source is nested too deep", "simplify it")
        return found
    except MemoryError:
        found.say(None, "the source is nested too deep", "simplify it")
        return found
    found.file(tree)
    found.diagnostics.sort(key=lambda one: (one["line"], one["column"]))
    return found


def world(contract, exports, grants):
    version = re.search(r"^package tandem:harness@(.*);$", contract, re.M)[1]
    imports = ["failure"] + [grant.replace("_", "-") for grant in grants]
    items = [f"  import tandem:harness/{name}@{version};" for name in imports]
    items += [f"  export tandem:harness/{name}@{version};" for name in exports]
    return "package tandem:component;\n\nworld component {\n" + "\n".join(items) + "\n}\n"


def shim(points, tools):
    """The module that componentize-py is given: a class for each interface."""
    parts = ["from tandem import _shim", "import plugin"]
    parts += [f"import wit_world.exports.{name}" for name in sorted(EFFECTS.intersection(points)) + ["tools"] * tools]
    if tools:
        parts.append(
            "class Tools:\n"
            "    def definitions(self):\n        return _shim.definitions()\n"
            "    def call(self, context, name, arguments):\n        return _shim.call_tool(context, name, arguments)"
        )
    for point in points:
        name = "".join(word.capitalize() for word in point.split("_"))
        run = f"plugin.{point}"
        if point == "settings_schema":
            body = f"_shim.settings_schema({run})"
        else:
            body = f'_shim.call("{point}", {run}, *values)'
        parts.append(f"class {name}:\n    def {point}(self, *values):\n        return {body}")
    return "\n\n".join(parts) + "\n"


def load_failure(found, message):
    """The first run of the file, at build time, ended with an exception. Its traceback is in the message."""
    lines = message.split("\n")
    own = [re.search(r'File "/\d+/plugin\.py", line (\d+)', line) for line in lines]
    own = [match for match in own if match]
    said = [line for line in lines if re.match(r"^[A-Za-z_.]*(Error|Exception|Interrupt|Exit|Warning|StopIteration)\b", line.strip())]
    trap = re.search(r"wasm trap: (.*)", message)
    if not own and not said and not trap:
        raise RuntimeError(message)
    place = ast.Pass(lineno=int(own[-1][1]) if own else 0, col_offset=0)
    what = said[-1].strip() if said else trap[1] if trap else "an exception"
    found.say(place, f"the file fails while it is loaded: {what}", "code outside of functions runs once, when the component is built; keep it to constants")


def main():
    sdk, packages, source, out = sys.argv[1:]
    with open(source, encoding="utf-8", newline="") as file:
        text = file.read()
    found = check(text)
    points = [point for point in POINTS if point in found.points]
    grants = [grant for grant in GRANTS if grant in found.grants]
    if not found.diagnostics:
        build(sdk, packages, source, out, found, points, grants)
    result = {
        "exports": ["tools"] * found.tools + [POINTS[point] for point in points],
        "grants": [grant.replace("_", "-") for grant in grants],
        "diagnostics": found.diagnostics,
    }
    with open(os.path.join(out, "result.json"), "w", encoding="utf-8") as file:
        json.dump(result, file)


def build(sdk, packages, source, out, found, points, grants):
    work = "/tmp/build"
    wit, app = os.path.join(work, "wit"), os.path.join(work, "app")
    os.makedirs(os.path.join(wit, "deps/harness"))
    shutil.copy(os.path.join(sdk, "harness.wit"), os.path.join(wit, "deps/harness/harness.wit"))
    with open(os.path.join(sdk, "harness.wit"), encoding="utf-8") as file:
        contract = file.read()
    exports = ["tools"] * found.tools + [POINTS[point] for point in points]
    write(os.path.join(wit, "world.wit"), world(contract, exports, grants))
    shutil.copytree(os.path.join(sdk, "tandem"), os.path.join(app, "tandem"))
    shutil.copy(source, os.path.join(app, "plugin.py"))
    write(os.path.join(app, "entry.py"), shim(points, found.tools))

    sys.path.insert(0, packages)
    import componentize_py

    component = os.path.join(out, "plugin.wasm")
    try:
        # The arguments of its command `componentize --stub-wasi entry`, without the search for installed packages.
        componentize_py.componentize([wit], ["component"], [], False, None, [app], [], "entry", component, True, [], [], False, None)
    except AssertionError as error:
        load_failure(found, str(error))


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
