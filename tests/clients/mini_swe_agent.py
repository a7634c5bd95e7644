"""Lets mini-SWE-agent work on a task with a served policy. Arguments: URL, model, task folder, work folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

os.environ |= {"MSWEA_SILENT_STARTUP": "1", "MSWEA_COST_TRACKING": "ignore_errors", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

url, model, task, work = sys.argv[1:]
for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "base"]):
    subprocess.run(["git", *command], cwd=work, check=True)
# The prompts of the harness that the policy was warmed up with.
agent = DefaultAgent(
    LitellmModel(
        model_name=f"openai/{model}",
        model_kwargs={"api_base": url, "api_key": "none", "temperature": 0, "max_tokens": 100, "seed": 1},
        observation_template="exit code {{ output.returncode }}\n{{ output.output }}",
        format_error_template="Write exactly one command in a ```bash block. {{ error }}",
    ),
    LocalEnvironment(cwd=work, timeout=20),
    system_template="You fix bugs in Python projects. Each reply is one short thought and one command in a ```bash block.",
    instance_template="{{ task }}\n\nThe project is in the current folder. When it is fixed, hand in with:\n\n"
    "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff\n```",
    step_limit=8,
)
result = agent.run(Path(task, "instruction.md").read_text())
calls = [call for message in agent.messages for call in message.get("tool_calls") or []]
commands = [json.loads(call["function"]["arguments"])["command"] for call in calls]
print(json.dumps({"exit": result["exit_status"], "patch": result["submission"], "commands": commands}))
