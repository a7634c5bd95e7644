#!/usr/bin/env python3
"""Writes host/src/dataset/classic_specs.json from the tables of swebench 4.1.0, the
last version that derives test commands from repository and version.

Usage: classic_specs.py FOLDER_OF_THE_PACKAGE FOLDER_OF_5.0.2 > host/src/dataset/classic_specs.json

The second folder is that of swebench 5.0.2, for the name of each repository's parser
and for the repositories whose parser sees failures alone.
"""

import importlib.util
import json
import re
import sys
import types

root = sys.argv[1] + "/swebench/harness/constants"
for name in ("swebench", "swebench.harness"):
    module = types.ModuleType(name)
    module.__path__ = []
    sys.modules[name] = module
spec = importlib.util.spec_from_file_location(
    "swebench.harness.constants", root + "/__init__.py", submodule_search_locations=[root]
)
constants = importlib.util.module_from_spec(spec)
sys.modules["swebench.harness.constants"] = constants
spec.loader.exec_module(constants)


def listed(value):
    return [] if value is None else [value] if isinstance(value, str) else list(value)


parsers, aliases = {}, {}
for name in ("python", "javascript", "c", "go", "java", "php", "ruby", "rust"):
    text = open(f"{sys.argv[2]}/swebench/harness/log_parsers/{name}.py").read()
    parsers.update(re.findall(r'^    "([^"/]+/[^"]+)": (parse_\w+),$', text, re.MULTILINE))
    aliases.update(re.findall(r"^(parse_\w+) = (parse_\w+)$", text, re.MULTILINE))
names = open(f"{sys.argv[2]}/swebench/harness/log_parsers/__init__.py").read()
registered = set(re.findall(r'"(parse_\w+)":', names))
constants_5 = open(f"{sys.argv[2]}/swebench/harness/constants/__init__.py").read()
fail_only = set(re.findall(r'"([^"]+/[^"]+)"', constants_5.split("FAIL_ONLY_REPOS")[1]))

repos = {}
for repo, versions in constants.MAP_REPO_VERSION_TO_SPECS.items():
    language = constants.MAP_REPO_TO_EXT[repo]
    if repo == "Automattic/wp-calypso":
        continue  # its commands depend on the paths of each test patch
    specs, by_version = [], {}
    for version, spec in versions.items():
        kept = {"test": listed(spec.get("test_cmd"))}
        if language == "py":
            kept["before"] = listed(spec.get("eval_commands"))
            kept["install"] = listed(spec.get("install"))
        else:
            kept["build"] = listed(spec.get("build"))
        kept = {key: value for key, value in kept.items() if value}
        if kept not in specs:
            specs.append(kept)
        by_version[str(version)] = specs.index(kept)
    parser = parsers.get(repo, "parse_log_pytest")
    parser = parser if parser in registered else aliases.get(parser, parser)
    if parser not in registered:
        continue  # no parser of version 5 reads its logs
    repos[repo] = {"language": language, "parser": parser, "specs": specs, "versions": by_version}
    if repo in fail_only:
        repos[repo]["fail_only"] = True

print("{")
print(",\n".join(f"{json.dumps(repo)}: {json.dumps(repos[repo])}" for repo in sorted(repos)))
print("}")
