"""Plays scripted episodes with mini-SWE-agent from the folder that is named, and says what they took.

The agent, its model for text and its environments are the package's own; `litellm` is a stand-in that
answers at once. Standard input is a list of jobs; each is answered by a line of JSON. Starting Python and
importing the package are not counted.
"""

import json
import logging
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, sys.argv[1])
os.environ.update(MSWEA_SILENT_STARTUP="1", MSWEA_COST_TRACKING="ignore_errors", MSWEA_GLOBAL_CONFIG_DIR=tempfile.mkdtemp())

talk = threading.local()


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

    def completion(self, messages, **_):
        now = time.monotonic()
        talk.gaps.append(now - talk.last)
        talk.last = now
        message = Record(role="assistant", content=next(talk.replies), tool_calls=None)
        return Record(choices=[Record(message=message, finish_reason="stop")])


sys.modules["litellm"] = Litellm("litellm")

from minisweagent.agents.default import DefaultAgent  # noqa: E402
from minisweagent.environments.extra.bubblewrap import BubblewrapEnvironment  # noqa: E402
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel  # noqa: E402

logging.disable(logging.CRITICAL)


def used():
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return [part.ru_utime + part.ru_stime for part in parts]


def episode(job, template, scratch):
    """One episode: the files, the turns, the trajectory on disk as its batch runs keep it."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    shutil.copytree(template, folder / "tree")
    talk.replies, talk.gaps, talk.last = iter(job["replies"]), [], time.monotonic()
    model = LitellmTextbasedModel(
        model_name="script",
        observation_template="exit code {{ output.returncode }}\n{{ output.output }}",
        action_regex=r"```bash\s*\n(.*?)\n```",
        format_error_template="actions {{ actions | length }}",
    )
    environment = BubblewrapEnvironment(cwd=str(folder / "tree"))
    agent = DefaultAgent(
        model,
        environment,
        system_template=job["system"],
        instance_template=job["instance"],
        cost_limit=0,
        output_path=folder / "episode.traj.json",
    )
    end = agent.run("repair it")
    assert end["exit_status"] == "Submitted", end
    environment.cleanup()
    shutil.rmtree(folder)
    return talk.gaps


def play(job, template, scratch):
    if job["at_once"] == 1:
        return [episode(job, template, scratch) for _ in range(job["episodes"])]
    with ThreadPoolExecutor(job["at_once"]) as pool:
        return list(pool.map(lambda _: episode(job, template, scratch), range(job["episodes"])))


def commands(job, template):
    environment = BubblewrapEnvironment(cwd=str(template))
    for _ in range(job["commands"]):
        assert environment.execute({"command": job["command"]})["returncode"] == 0
    return []


def main():
    os.environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", LANG="C.UTF-8")
    for key in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{key}_NAME": "a", f"GIT_{key}_EMAIL": "a@localhost"}
    with tempfile.TemporaryDirectory() as scratch:
        template = Path(scratch, "template")
        shutil.copytree(sys.argv[2], template)
        # In its images the repository is there already.
        for line in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
            subprocess.run(["git", *line], cwd=template, check=True, stdout=subprocess.DEVNULL)
        for job in json.load(sys.stdin):
            start, before = time.monotonic(), used()
            gaps = commands(job, template) if "commands" in job else play(job, template, scratch)
            wall = time.monotonic() - start
            own, children = (now - then for now, then in zip(used(), before))
            took = {"wall": wall, "cpu": own + children, "own": own, "gaps": gaps}
            print(json.dumps(took), flush=True)


main()
