#!/usr/bin/env python3
"""Answers of the package swebench 5.0.2, for the test beside this file.

Usage: official.py FOLDER_OF_THE_PACKAGE < questions.jsonl > answers.jsonl

A question is {"log", "parser", "instance_id", "version"}, which asks for the map
of a parser, or the same with {"fail_to_pass", "pass_to_pass", "eval_type"}, which
asks for the whole grading of a log file with these bytes ("log" as Latin-1 text).
Only the modules of the parsers and of grading run; heavy imports are stand-ins.
"""

import contextlib
import io
import json
import sys
import tempfile
import types

sys.path.insert(0, sys.argv[1])
# The package's own `__init__` imports docker, datasets and more; a bare module
# with its path leaves them out.
package = types.ModuleType("swebench")
package.__path__ = [sys.argv[1] + "/swebench"]
sys.modules["swebench"] = package
harness = types.ModuleType("swebench.harness")
harness.__path__ = [sys.argv[1] + "/swebench/harness"]
sys.modules["swebench.harness"] = harness
unidiff = types.ModuleType("unidiff")
unidiff.PatchSet = None
sys.modules.setdefault("unidiff", unidiff)

from swebench.harness.grading import get_eval_report, get_resolution_status  # noqa: E402
from swebench.harness.log_parsers import PARSER_REGISTRY  # noqa: E402
from swebench.types import TestSpec  # noqa: E402


def spec(question):
    return TestSpec(
        instance_id=question["instance_id"],
        image="",
        eval_script_list=[],
        repo="",
        version=question["version"],
        FAIL_TO_PASS=question.get("fail_to_pass", []),
        PASS_TO_PASS=question.get("pass_to_pass", []),
        log_parser=question["parser"],
        eval_type=question.get("eval_type", ""),
    )


def answer(question):
    if "eval_type" not in question:
        found = PARSER_REGISTRY[question["parser"]](question["log"], spec(question))
        return {"map": [[name, status] for name, status in found.items()]}
    with tempfile.NamedTemporaryFile() as file:
        # As `exec_run_with_timeout` and `run_instance` write it.
        text = question["log"].encode("latin-1").decode(errors="replace")
        with open(file.name, "w", encoding="utf-8") as out:
            out.write(text)
        prediction = {"instance_id": question["instance_id"], "model_patch": "x"}
        report = get_eval_report(spec(question), prediction, file.name, True)[question["instance_id"]]
    graded = {
        "applied": report["patch_successfully_applied"],
        "resolved": report["resolved"],
        "reason": report.get("infra_failure_reason"),
        "infra": report["infra_failure"],
    }
    if "tests_status" in report:
        tests = report["tests_status"]
        graded["resolution"] = get_resolution_status(tests)
        for key in ("FAIL_TO_PASS", "PASS_TO_PASS"):
            graded[key] = [tests[key]["success"], tests[key]["failure"]]
    return graded


for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            result = answer(json.loads(line))
        except Exception:  # noqa: BLE001 - whatever a parser raises is its answer
            result = {"fault": True}
    print(json.dumps(result))
