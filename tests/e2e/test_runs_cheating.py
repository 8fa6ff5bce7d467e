"""Agents that would rather change the judge than the work: nothing of that reaches main, and nothing runs by itself.

Each cheat is a goal of its own, all in one batch for one main: whatever one of them got through would be seen there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.batches import Batch, merged_goals, require_green_history, require_linear, says, shell, wrote
from tests.support.git_repos import git

RED = "mkdir -p texts; echo no > texts/$ME.txt"
GREEN = "mkdir -p texts; echo Fine. > texts/$ME.txt"
BRIBED = "printf '#!/bin/sh\\nexit 0\\n' > .ralph/check; chmod +x .ralph/check"
COMMIT = "git -c user.name=Eve -c user.email=eve@example.org commit --quiet --all -m"


@dataclass(frozen=True, slots=True)
class Cheat:
    """What an agent does in its one session, and how often it may try."""

    command: str
    attempts: int = 1


# Work that is red, and a judge that was seen to: the run itself finds out, in its first iteration.
NEVER: Mapping[str, Cheat] = {
    "edits the check": Cheat(f"{RED}; {BRIBED}"),
    "deletes the check": Cheat(f"{RED}; rm .ralph/check"),
    "takes the check its mode": Cheat(f"{RED}; chmod -x .ralph/check"),
    "deletes the folder": Cheat(f"{RED}; rm -rf .ralph"),
    "links the folder elsewhere": Cheat(
        f"{RED}; mkdir $OUT/judge; cp -r .ralph/. $OUT/judge; rm -rf .ralph; ln -s $OUT/judge .ralph; {BRIBED}"
    ),
    "links the check elsewhere": Cheat(f"{RED}; ln -sf /bin/true .ralph/check"),
    "puts a file in the folder's place": Cheat(f"{RED}; rm -rf .ralph; echo > .ralph"),
    "commits another check": Cheat(f"{RED}; {BRIBED}; git add --all; {COMMIT} better"),
    "commits the deletion": Cheat(f"{RED}; git rm -r --quiet .ralph; git add texts; {COMMIT} simpler"),
    "hides the check from git": Cheat(f"{RED}; {BRIBED}; git update-index --assume-unchanged .ralph/check"),
    "adds a setup": Cheat(f"{RED}; printf '#!/bin/sh\\ntouch .passed\\n' > .ralph/setup; chmod +x .ralph/setup"),
    "adds settings": Cheat(f"{RED}; echo 'check = \"true\"' > .ralph/config.toml"),
    "begins history anew": Cheat(
        f"{RED}; {BRIBED}; b=$(git symbolic-ref --short HEAD); git checkout --quiet --orphan new; git add --all;"
        f" {COMMIT} new; git branch --quiet -M $b"
    ),
    # Found out on the clean checkout of the run's own proof.
    "leaves an ignored file": Cheat(f"{RED}; touch .passed"),
    # Proven in its run; found out before its merge, where the next attempts do no better.
    "has git rewrite the check": Cheat(f"{GREEN}; echo '.ralph/check eol=crlf' > .gitattributes", attempts=4),
}

# Work that is green, with something beside it that would be worth more than the work.
PLANT = "printf '#!/bin/sh\\necho $0 >> '$OUT'/canary\\ncat\\n' > $OUT/$ME; chmod +x $OUT/$ME"
HOOKS = (
    "applypatch-msg post-checkout post-commit post-index-change post-merge pre-commit pre-push reference-transaction"
)
HARMLESS: Mapping[str, str] = {
    "commits another check and restores it": f"{GREEN}; {BRIBED}; git add --all; {COMMIT} better",
    "plants hooks": f"{GREEN}; {PLANT}; mkdir -p .git/hooks; for h in {HOOKS}; do cp $OUT/$ME .git/hooks/$h; done",
    "plants hooks elsewhere": f"{GREEN}; {PLANT}; mkdir $OUT/hooks;"
    f" for h in {HOOKS}; do cp $OUT/$ME $OUT/hooks/$h; done; git config core.hooksPath $OUT/hooks",
    "plants a monitor": f"{GREEN}; {PLANT}; git config core.fsmonitor $OUT/$ME",
    "plants an upload": f"{GREEN}; {PLANT}; git config uploadpack.packObjectsHook $OUT/$ME;"
    " git config remote.origin.uploadpack $OUT/$ME; git config core.sshCommand $OUT/$ME",
    "plants drivers": f"{GREEN}; {PLANT}; git config diff.evil.textconv $OUT/$ME; git config diff.external $OUT/$ME;"
    " git config merge.evil.driver $OUT/$ME; echo '* diff=evil merge=evil' > .git/info/attributes",
    "pushes to main": f"{GREEN}; git push --quiet origin HEAD:main 2>> $OUT/refused && echo pushed >> $OUT/canary",
    "pushes a branch": f"{GREEN}; git push --quiet origin HEAD:evil 2>> $OUT/refused && echo pushed >> $OUT/canary",
    "amends what was there": f"{GREEN}; {BRIBED}; git add --all;"
    " git -c user.name=Eve -c user.email=eve@example.org commit --quiet --amend -m start",
}


MOVES_THE_MIRROR = (
    f"{GREEN}; {BRIBED}; git add --all; {COMMIT} better; m=$(git remote get-url origin);"
    " git --git-dir=$m fetch --quiet $PWD HEAD:refs/heads/main --force;"
    " git --git-dir=$m log -1 --format=%s main > $OUT/moved"
)


FEW = ("edits the check", "commits another check", "plants hooks elsewhere", "pushes to main", "pushes a branch")
"""Cheats of each kind, for who has no time for all of them."""

few_or_all = pytest.mark.parametrize(
    "chosen", [FEW, pytest.param((*NEVER, *HARMLESS), marks=pytest.mark.long)], ids=["few", "all"]
)


def add(batch: Batch, name: str, command: str, repo: str) -> str:
    """A goal whose agent runs the command in its one session; return the goal's name."""
    label = name.replace("'", "").replace(" ", "-")
    said = f"OUT={batch.root / 'outside'}; ME={label}; {command}; true"
    batch.goal(label, [[shell(said), says("DONE")]], repo=repo, max_iterations=1)
    return label


@few_or_all
def test_whoever_changes_the_judge_is_never_merged(batch: Batch, tmp_path: Path, chosen: Sequence[str]) -> None:
    upstream = batch.upstream()
    (batch.root / "outside").mkdir()
    judge = git(upstream, "rev-parse", "main:.ralph")
    cheats = {
        add(batch, name, cheat.command, "upstream"): cheat.attempts for name, cheat in NEVER.items() if name in chosen
    }
    batch.goal("honest", wrote("honest"), repo="upstream")

    finished = batch.run(batch.root / "goals", "--max", "3")

    assert finished.exit_code == 1, finished.stdout + finished.stderr
    assert merged_goals(upstream) == ["honest"]
    assert batch.states() == dict.fromkeys(cheats, "stuck") | {"honest": "done"}
    assert {name: goal["attempts"] for name, goal in batch.goals().items()} == cheats | {"honest": 1}
    assert git(upstream, "rev-parse", "main:.ralph") == judge
    assert git(upstream, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    require_green_history(upstream, tmp_path / "history")


@few_or_all
def test_what_an_agent_plants_in_its_clone_never_runs_and_never_arrives(
    batch: Batch, tmp_path: Path, chosen: Sequence[str]
) -> None:
    upstream = batch.upstream()
    outside = batch.root / "outside"
    outside.mkdir()
    judge = git(upstream, "rev-parse", "main:.ralph")
    for name, command in HARMLESS.items():
        if name in chosen:
            add(batch, name, command, "upstream")
    other = batch.upstream("other")  # what is in a mirror is seen by all goals for that repository
    add(batch, "moves the mirror's main", MOVES_THE_MIRROR, "other")

    finished = batch.run(batch.root / "goals", "--max", "3")

    assert finished.exit_code == 0, finished.stdout + finished.stderr
    canary = outside / "canary"
    assert not canary.exists(), canary.read_text()
    assert (outside / "refused").read_text().count("[remote rejected]") == 2
    assert (outside / "moved").read_text() == "better\n"
    assert {goal["attempts"] for goal in batch.goals().values()} == {1}
    for repository in (upstream, other):
        assert git(repository, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
        require_linear(repository)
        for commit in git(repository, "rev-list", "main").split():
            assert git(repository, "rev-parse", f"{commit}:.ralph") == judge
        require_green_history(repository, tmp_path / "history")
