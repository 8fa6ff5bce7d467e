"""A pull request or merge request for a pushed branch, by the host's own program if the user has it."""

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from ralph.system import environ
from ralph.system.programs import ask

_LIMIT = 120.0
_MOST = 20_000
"""Characters of a description: an argument has room for 128 KiB, the hosts take 64."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is proposed: a branch for a base."""

    url: str
    branch: str
    base: str
    title: str
    body: str


def propose(proposal: Proposal, cwd: Path) -> str:
    """Make the request; say its address, or what the user can type to make it."""
    argv = command(proposal)
    if argv is None:
        return f"propose it on its host: from {proposal.branch} to {proposal.base}"
    env = environ.inherited() | {"GH_PROMPT_DISABLED": "1", "NO_PROMPT": "1", "NO_COLOR": "1"}
    program = shutil.which(argv[0], path=env.get("PATH"))
    if program is None:
        return f"propose it with: {shlex.join(argv)}"
    reply = ask([program, *argv[1:]], cwd=cwd, environment=env, limit=_LIMIT)
    # One that is open already is complained of, with its address: the push has brought it up to date.
    if address := re.search(r"https?://\S+/(?:pull|merge_requests)/\d+", reply.output + reply.complaints):
        return f"proposed as {address[0]}"
    said = reply.complaints.strip().rpartition("\n")[2]
    return f"{argv[0]} could not propose it ({said or f'exit {reply.exit_code}'}); do it with: {shlex.join(argv)}"


def command(proposal: Proposal) -> list[str] | None:
    """The command that makes the request, for hosts that are known to have one."""
    place = re.fullmatch(r"(?:[a-z+]+://)?(?:[^@/]*@)?([^/:]+)(?::\d+(?=/))?[:/]+(.*?)(?:\.git)?/*", proposal.url)
    if place is None:
        return None
    host, name = place[1], place[2]
    if "github" in host:
        return [
            "gh", "pr", "create", f"--repo={host}/{name}", f"--head={proposal.branch}", f"--base={proposal.base}",
            f"--title={proposal.title}", f"--body={proposal.body[:_MOST]}",
        ]  # fmt: skip
    if "gitlab" in host:
        return [
            "glab", "mr", "create", f"--repo=https://{host}/{name}", f"--source-branch={proposal.branch}",
            f"--target-branch={proposal.base}", f"--title={proposal.title}",
            f"--description={proposal.body[:_MOST]}", "--yes",
        ]  # fmt: skip
    return None
