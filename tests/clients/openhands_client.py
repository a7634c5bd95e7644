"""Lets the OpenHands SDK work on a task with a served policy. Arguments: URL, model, task folder, work folder."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.sdk.tool import Action, Observation, ToolDefinition, ToolExecutor, register_tool
from pydantic import Field, SecretStr

SENTINEL = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
url, model, task, work = sys.argv[1:]
for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "base"]):
    subprocess.run(["git", *command], cwd=work, check=True)
done = {"commands": [], "patch": None}


class BashAction(Action):
    command: str = Field(description="The command to run.")


class BashObservation(Observation):
    pass


class BashExecutor(ToolExecutor):
    def __call__(self, action, conversation=None):
        ran = subprocess.run(["bash", "-c", action.command], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
        done["commands"].append(action.command)
        first, _, rest = ran.stdout.partition("\n")
        if first == SENTINEL:
            done["patch"] = rest
            conversation.pause()
        return BashObservation.from_text(text=f"exit code {ran.returncode}\n{ran.stdout}")


class BashTool(ToolDefinition[BashAction, BashObservation]):
    name = "bash"

    @classmethod
    def create(cls, conv_state=None, **params) -> Sequence["BashTool"]:
        return [cls(description="Runs a command.", action_type=BashAction, observation_type=BashObservation, executor=BashExecutor())]


register_tool("bash", BashTool)
llm = LLM(
    model=f"openai/{model}", base_url=url, api_key=SecretStr("none"), usage_id="t", seed=1, temperature=0.0,
    max_output_tokens=100, num_retries=0, caching_prompt=False, reasoning_effort=None,
)
# The prompts of the harness that the policy was warmed up with.
agent = Agent(
    llm=llm, tools=[Tool(name="bash")], include_default_tools=[],
    system_prompt="You fix bugs in Python projects. Each reply is one short thought and one command in a ```bash block.",
)
conversation = Conversation(agent=agent, workspace=work, max_iteration_per_run=8, visualizer=None)
conversation.send_message(
    Path(task, "instruction.md").read_text()
    + f"\n\nThe project is in the current folder. When it is fixed, hand in with:\n\n```bash\necho {SENTINEL} && git diff\n```"
)
conversation.run()
print(json.dumps({"status": str(conversation.state.execution_status), **done}))
