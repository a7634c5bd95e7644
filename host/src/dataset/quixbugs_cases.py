import json


def plain(value):
    if isinstance(value, (tuple, list)) or hasattr(value, "__next__"):
        return [plain(part) for part in value]
    return value


def alike(name, found, expected, arguments):
    if name == "sqrt":
        return abs(found - expected) <= arguments[-1]
    return plain(found) == plain(expected)


def run_cases(name, path):
    module = __import__(name)
    for line in open(path, encoding="utf-8"):
        if not line.strip():
            continue
        arguments, expected = json.loads(line)
        if not isinstance(arguments, list):
            arguments = [arguments]
        given = json.dumps(arguments)
        found = getattr(module, name)(*arguments)
        if not alike(name, found, expected, json.loads(given)):
            raise AssertionError(f"{name}(*{given}) is {found!r}, not {expected!r}")


def run_tests(name, path, place):
    import importlib
    import sys
    import types

    stand_in = types.ModuleType("pytest")
    stand_in.use_correct = False
    programs = types.ModuleType("python_programs")
    programs.__path__ = [place]
    sys.modules["pytest"] = stand_in
    sys.modules["python_programs"] = programs
    sys.modules["python_programs." + name] = importlib.import_module(name)
    scope = {"__name__": "tests"}
    exec(compile(open(path, encoding="utf-8").read(), path, "exec"), scope)
    tests = [test for title, test in scope.items() if title.startswith("test") and callable(test)]
    if not tests:
        raise AssertionError("no test was found")
    for test in tests:
        test()
