"""Plays the cases of standard input with mini-SWE-agent from the folder that is named.

The agent, its two LiteLLM models and its local environment are the package's own; `litellm`
is a stand-in that answers with the scripted replies. Commands run in `bash -c`, as its
configurations for SWE-bench ask for. Writes what was shown, what ran and how it ended.
"""

import json
import logging
import os
import shlex
import subprocess
import sys
import tempfile
import types
from pathlib import Path

sys.path.insert(0, sys.argv[1])
os.environ.update(MSWEA_SILENT_STARTUP="1", MSWEA_COST_TRACKING="ignore_errors", MSWEA_GLOBAL_CONFIG_DIR=tempfile.mkdtemp())


class Record(types.SimpleNamespace):
    """An answer of an endpoint: attributes, and a form that can be written."""

    def model_dump(self, **_):
        plain = lambda v: v.model_dump() if isinstance(v, Record) else [plain(x) for x in v] if isinstance(v, list) else v
        return {key: plain(value) for key, value in vars(self).items()}


class Litellm(types.ModuleType):
    """What the package uses of `litellm`."""

    class exceptions:  # noqa: N801
        UnsupportedParamsError = NotFoundError = PermissionDeniedError = type("Refused", (Exception,), {})
        ContextWindowExceededError = AuthenticationError = type("Refused", (Exception,), {})

    class cost_calculator:  # noqa: N801
        @staticmethod
        def completion_cost(*_, **__):
            return 1e-9

    def start(self, replies):
        self.replies, self.shown, self.seen = iter(replies), [], 0

    def completion(self, messages, **_):
        # What is new since the last call, but for what the model itself said.
        new = [message for message in messages[self.seen:] if message["role"] != "assistant"]
        self.shown.append([[message["role"], message["content"]] for message in new])
        self.seen = len(messages)
        reply = next(self.replies)
        calls = [
            Record(id=call["id"], type="function", function=Record(name=call["name"], arguments=call["arguments"]))
            for call in reply["calls"]
        ]
        message = Record(role="assistant", content=reply["text"], tool_calls=calls or None)
        return Record(choices=[Record(message=message, finish_reason=reply["finish"])])


sys.modules["litellm"] = litellm = Litellm("litellm")

from minisweagent.agents.default import DefaultAgent  # noqa: E402
from minisweagent.environments.local import LocalEnvironment  # noqa: E402
from minisweagent.models.litellm_model import LitellmModel  # noqa: E402
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel  # noqa: E402

logging.disable(logging.CRITICAL)

OBSERVATION = (
    "{% if output.exception_info %}<exception>{{ output.exception_info }}</exception>{% endif %}"
    "<code>{{ output.returncode }}</code>"
    # The numbers are those of the package's own templates.
    "{% if output.output | length < 10000 %}<output>{{ output.output }}</output>{% else %}"
    "<head>{{ output.output[:5000] }}</head><elided>{{ output.output | length - 10000 }}</elided>"
    "<tail>{{ output.output[-5000:] }}</tail>{% endif %}"
)
CUT_OFF = "{% if finish_reason == 'length' %}cut off{% else %}"


class Bash(LocalEnvironment):
    """The local environment with the interpreter of the configurations for SWE-bench."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.ran = []

    def execute(self, action, **kwargs):
        ran = [action["command"], None]
        self.ran.append(ran)
        return super().execute({"command": "exec bash -c " + shlex.quote(action["command"])}, **kwargs)

    def _check_finished(self, output):
        self.ran[-1][1] = output["returncode"]
        super()._check_finished(output)


def play(case, folder):
    for name, text in case["files"].items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    for line in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
        subprocess.run(["git", *line], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    litellm.start(case["replies"])
    if case["protocol"] == "tools":
        model = LitellmModel(
            model_name="script",
            observation_template=OBSERVATION,
            format_error_template=CUT_OFF + "call a tool{% endif %}",
        )
    else:
        model = LitellmTextbasedModel(
            model_name="script",
            observation_template=OBSERVATION,
            action_regex=r"```bash\s*\n(.*?)\n```",
            format_error_template=CUT_OFF + "actions {{ actions | length }}{% endif %}",
        )
    environment = Bash(cwd=folder, timeout=case["command_seconds"])
    agent = DefaultAgent(
        model,
        environment,
        system_template="system",
        instance_template="task: {{ task }}",
        step_limit=case["turns"],
        cost_limit=0,
        wall_time_limit_seconds=case["seconds"],
        max_consecutive_format_errors=case["format_errors"],
    )
    try:
        end = agent.run("repair it")
    except StopIteration:
        sys.exit(f"{case['name']}: the script is too short")
    return {
        "shown": litellm.shown,
        "ran": environment.ran,
        "exit": end["exit_status"],
        "patch": end["submission"],
        "replies_kept": sum(message["role"] == "assistant" for message in agent.messages),
    }


def main():
    os.environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", LANG="C.UTF-8")
    for key in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{key}_NAME": "a", f"GIT_{key}_EMAIL": "a@localhost"}
    answers = {}
    for case in json.load(sys.stdin):
        with tempfile.TemporaryDirectory() as folder:
            answers[case["name"]] = play(case, folder)
    json.dump(answers, sys.stdout, indent=1, ensure_ascii=False)


main()
