"""What may run. Wordings and outcomes were measured on Claude Code 2.1.325, but where a comment says otherwise."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ralph.claude_cli.desk import Desk
from ralph.claude_cli.flags import BadUsage
from ralph.claude_cli.permissions import decide
from ralph.claude_cli.permissions.decide import Permissions
from ralph.claude_cli.permissions.rules import Allowed, Denied
from ralph.claude_cli.settings import SOURCES, read_settings
from tests.claude_cli.conftest import Use
from tests.support.rows import rows

NESTED = "A nested command in this command can't be checked before it runs"
APPROVAL = "This command requires approval"
QUOTED = "Quoted text in this command can't be checked before it runs"
VARIABLE = "A variable in this command can't be checked before it runs"
OPERATORS = "This command uses shell operators that require approval for safety"

BACKGROUND = (
    "This command uses the `&` background operator, which defers execution past approval-time safety checks. Approve "
    "only if you trust it."
)


def many(part: str) -> str:
    return f"This Bash command contains multiple operations. The following part requires approval: {part}"


@pytest.fixture
def home(world: Path) -> Path:
    return world / "home"


@pytest.fixture
def tree(here: Path) -> Path:
    for name in ("a.txt", ".env", "sub/x.txt", "sub/y.md"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("x\n")
    (here / "link").symlink_to("/etc/hostname")
    (here / "elsewhere").symlink_to("/etc")
    return here


def gather(
    *, home: Path, cwd: Path, sources: Sequence[str] = SOURCES, mode: str = "", may_bypass: bool = True, **flags: Any
) -> Permissions:
    settings = read_settings({"HOME": str(home)}, cwd, sources)
    return decide.gather(settings=settings, home=home, cwd=cwd, mode=mode, may_bypass=may_bypass, **flags)


def bash(permissions: Permissions, desk: Desk, command: str) -> str:
    """What is said of a command; empty: it may run."""
    decided = permissions.decide("Bash", {"command": command}, desk)
    return decided.message if isinstance(decided, Denied) else ""


def write_settings(folder: Path, name: str, **permissions: object) -> None:
    (folder / ".claude").mkdir(parents=True, exist_ok=True)
    (folder / ".claude" / name).write_text(json.dumps({"permissions": permissions}))


def trust(home: Path, folder: Path) -> None:
    (home / ".claude.json").write_text(json.dumps({"projects": {str(folder): {"hasTrustDialogAccepted": True}}}))


@rows(
    "command",
    [
        "ls",
        "ls -la sub",
        "cat a.txt",
        "cat *.txt",
        "echo hi",
        "echo $HOME",
        "ls | wc -l",
        "cd sub && ls",
        "cd sub && cat ../a.txt",
        "find . -name x",
        "grep -n one a.txt",
        "sed -n 1,3p a.txt",
        "git status",
        "git log --oneline -3",
        "git diff HEAD",
        "echo hi > /dev/null",
        "ls sub > /dev/null 2>&1",
        "test -f /etc/hostname",
        "ls 2>&1",
        "for i in a b; do echo x; done",
        "cat <<'E'\n$(make)\nE",
        "[[ -f a.txt ]] && ls",
        "TZ=UTC CI=1 ls",
        "x=1 && ls",
        "command ls",
        "builtin echo hi",
        "if test -f a.txt; then cat a.txt; fi",
        "echo 'rm -rf /; $(id) `id`'",
        "timeout 5 ls",
        "# nothing but a comment",
    ],
)
def test_looking_needs_no_leave(tree: Path, desk: Desk, home: Path, command: str) -> None:
    for mode in ("default", "acceptEdits", "dontAsk"):
        assert bash(gather(home=home, cwd=tree, mode=mode), desk, command) == ""


@rows(
    ("command", "said"),
    [
        ("make", APPROVAL),
        ("python3 -c 1", APPROVAL),
        ("curl http://127.0.0.1:1/", APPROVAL),
        ("ls && make", many("make")),
        ("ls\nmake all", many("make all")),
        ("ls & make", many("make")),
        ("ls &", BACKGROUND),
        ("ls | tee f", many("tee f")),
        ("ls $(make)", NESTED),
        ("ls `make`", NESTED),
        ('echo "$(make)"', QUOTED),
        ("echo FOO=$FOO", VARIABLE),
        ("echo $PATH", VARIABLE),
        ("echo ${FOO}", "A variable in braces in this command can't be checked before it runs"),
        ("x=1; echo $x", "A variable set in this command can't be checked before it runs"),
        ("for i in a b; do echo $i; done", VARIABLE),
        ("case x in x) ls;; esac", "A case statement in this command can't be checked before it runs"),
        ("echo a\\ b", "Contains backslash-escaped whitespace"),
        ("echo {1..3}", "A brace pattern in this command can't be checked before it runs"),
        ("eval ls", "'eval' evaluates arguments as shell code"),
        ("ls &&", "Parse error"),
        ("PYTHONPATH=1 ls", APPROVAL),
        ("cat <(make)", "A command used as a file in this command can't be checked before it runs"),
        ("(make)", OPERATORS),
        ("f() { ls; }; f", "A function definition in this command can't be checked before it runs"),
        ("cat <<E\n$(make)\nE", "Heredoc with unquoted delimiter undergoes shell expansion"),
        ("cat {a,b}.txt", "Brace expansion"),
        ("cat $'\\x2fetc'", "Text with escape codes in this command can't be checked before it runs"),
        ("echo 'unclosed", "Parse error"),
        ("{ ls; }", "A group in braces or double parentheses in this command can't be checked before it runs"),
        ("FOO=1 ls", APPROVAL),
        ("PATH=/tmp/ls", APPROVAL),
        ("for PATH in /tmp; do ls; done", OPERATORS),
        ("printf -v PATH /tmp", APPROVAL),
        ("/tmp/ls", APPROVAL),
        ("./ls", APPROVAL),
        ("sort -o a.txt sub/x.txt", APPROVAL),
        ("uniq a.txt sub/x.txt", APPROVAL),
        ("git diff --output=x", APPROVAL),
        ("git -c core.pager=make log", APPROVAL),
        ("git commit -m x", APPROVAL),
        ("date -s 2020-01-01", APPROVAL),
        ("cd; cat .bashrc", many("cd")),
        ("cd - && ls", many("cd -")),
        ("grep -Rn x .", APPROVAL),
        ("find -L . -name x", APPROVAL),
        ("diff -r sub elsewhere", APPROVAL),
        ("wc --files0-from=list", APPROVAL),
        ("cat $X", VARIABLE),
        (
            "find . -delete",
            "find with '-delete' executes commands or modifies files — cannot be auto-allowed by a Bash(find:*) "
            "prefix rule",
        ),
        ("sed -i 's/a/b/e' a.txt", APPROVAL),
        ("sed -n '1w /tmp/x' a.txt", APPROVAL),
    ],
)
def test_what_does_more_than_look_is_not_run(tree: Path, desk: Desk, home: Path, command: str, said: str) -> None:
    assert bash(gather(home=home, cwd=tree), desk, command) == said


@rows(
    ("command", "place", "verb"),
    [
        ("ls /etc", "/etc", "list files in"),
        ("cat /etc/hostname", "/etc/hostname", "concatenate files from"),
        ("cd /tmp && ls", "/tmp", "change directories to"),
        ("cat link", "/etc/hostname", "concatenate files from"),
        ("cat l*", "/etc/hostname", "concatenate files from"),
        ("cat e*/hostname", "/etc/hostname", "concatenate files from"),
        ("cat elsewhere/../hostname", "/hostname", "concatenate files from"),
        ("grep -f/etc/passwd x a.txt", "/etc/passwd", "search for patterns in files from"),
        ("cd sub && cat ../../x", "@/../x", "concatenate files from"),
        ("cd sub && ls; cat ../x", "@/../x", "concatenate files from"),
        ("cd nosuch; cat ../x", "@/../x", "concatenate files from"),
        ("rm -rf /tmp/zzz", "/tmp/zzz", "remove files from"),
        ("cp /etc/passwd a.txt", "/etc/passwd", "copy files to"),
    ],
)
def test_nothing_reaches_outside(tree: Path, desk: Desk, home: Path, command: str, place: str, verb: str) -> None:
    at = (tree.parent / "x") if place == "@/../x" else place.replace("@", str(tree))
    said = f"{command.split(maxsplit=1)[0] if 'cat' not in command else 'cat'} in '{at}' was blocked. "
    said += f"For security, Claude Code may only {verb} the allowed working directories for this session: '{tree}'."
    for mode in ("default", "acceptEdits"):
        assert bash(gather(home=home, cwd=tree, mode=mode), desk, command) == said


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("touch q", "q"),
        ("rm a.txt", "a.txt"),
        ("mkdir -p n", "n"),
        ("sed -i s/a/b/ a.txt", "a.txt"),
        ("mv a.txt b", "a.txt"),
    ],
)
def test_edits_by_shell_need_the_mode_for_it(tree: Path, desk: Desk, home: Path, command: str, path: str) -> None:
    said = (
        f"{command.split(maxsplit=1)[0]} in '{tree / path}' needs approval. The path is inside the working "
        f"directories for this session ('{tree}'), and Claude Code asks before a shell command creates, changes or "
        "removes files there."
    )
    assert bash(gather(home=home, cwd=tree), desk, command) == said
    assert bash(gather(home=home, cwd=tree, mode="acceptEdits"), desk, f"ls && {command}") == ""


def test_redirections_are_writes(tree: Path, desk: Desk, home: Path) -> None:
    default, edits = gather(home=home, cwd=tree), gather(home=home, cwd=tree, mode="acceptEdits")
    for command in (
        "echo hi > f.txt",
        "echo hi >> f.txt",
        "ls &> f.txt",
        "echo hi >| f.txt",
        "for i in a; do ls; done > f.txt",
    ):
        said = bash(default, desk, command)
        assert said.startswith(f"Output redirection to '{tree}/f.txt' needs approval. The path is inside the working")
        assert bash(edits, desk, command) == ""
    for command in ("echo hi > /tmp/zz", "echo hi > elsewhere/zz", "cd sub; echo hi > ../../zz"):
        assert "The path is outside the working directories" in bash(edits, desk, command)
    assert bash(edits, desk, "echo hi > $X") == VARIABLE
    assert bash(edits, desk, "echo hi > ~/x") == "Shell expansion syntax in paths requires manual approval"
    assert "needs approval" in bash(edits, desk, "echo hi > .git/config")
    assert bash(edits, desk, "cat < /etc/passwd").startswith("Input redirection from '/etc/passwd' was blocked. ")
    assert "outside the working directories" in bash(edits, desk, "echo hi > elsewhere/../f.txt")


RULES = ["Bash(git commit:*),Bash(make:*)", "Bash(npm run test)", "Bash(python3 *)", "Bash(docker * ps)"]


@pytest.mark.spec("4.1.2-ab")
@rows(
    "command",
    [
        "make",
        "make -j2 all",
        "make && make",
        "make | python3 -c 1",
        "make; ls",
        "npm run test",
        "python3",
        "make 2>/dev/null",
        "make 'a;b'",
        "make $HOME",
        "timeout 5 make",
        "time make",
        "for i in 1; do make; done",
        "docker compose ps",
        'git commit -m "fix: a; b"',
    ],
)
def test_a_rule_allows_what_it_names(tree: Path, desk: Desk, home: Path, command: str) -> None:
    assert bash(gather(home=home, cwd=tree, allowed=RULES), desk, command) == ""


@rows(
    ("command", "said"),
    [
        ("makex", APPROVAL),
        ("npm run test --x", APPROVAL),
        ("/usr/bin/make", APPROVAL),
        ("FOO=1 make", APPROVAL),
        ("env make", APPROVAL),
        ("make; perl -e 1", many("perl -e 1")),
        ("make && perl -e 1", many("perl -e 1")),
        ("make || perl -e 1", many("perl -e 1")),
        ("make | perl -e 1", many("perl -e 1")),
        ("make |& perl -e 1", many("perl -e 1")),
        ("make & perl -e 1", many("perl -e 1")),
        ("make\nperl -e 1", many("perl -e 1")),
        ("make \\\n; perl -e 1", many("perl -e 1")),
        ("make $(perl -e 1)", NESTED),
        ('make "`perl -e 1`"', QUOTED),
        ("make ${X:-$(id)}", "A variable in braces in this command can't be checked before it runs"),
        ("make <(perl -e 1)", "A command used as a file in this command can't be checked before it runs"),
        ("make <<E\n$(id)\nE", "Heredoc with unquoted delimiter undergoes shell expansion"),
        ("if make; then perl -e 1; fi", many("perl -e 1")),
        ("! perl -e 1", APPROVAL),
    ],
)
def test_nothing_slips_through_beside_a_rule(tree: Path, desk: Desk, home: Path, command: str, said: str) -> None:
    permissions = gather(home=home, cwd=tree, allowed=RULES)
    assert bash(permissions, desk, command) == said


def test_a_redirection_beside_a_rule_is_judged_by_itself(tree: Path, desk: Desk, home: Path) -> None:
    permissions = gather(home=home, cwd=tree, allowed=RULES)
    assert bash(permissions, desk, "make > f.txt").startswith("Output redirection to ")
    assert "outside the working directories" in bash(permissions, desk, "make > /tmp/zz")


@rows(
    "command",
    [
        "rm a.txt",
        "rm",
        "ls && rm a.txt",
        "echo $(rm a.txt)",
        "FOO=1 rm a.txt",
        "/bin/rm a.txt",
        "r\\m a.txt",
        "'rm' a.txt",
        "timeout 5 rm a.txt",
        "bash -c 'rm a.txt'",
        "bash -c 'ls;rm a.txt'",
        "find . -exec rm {} +",
        "ls | xargs rm",
        "(rm a.txt)",
        "if true; then rm a.txt; fi",
        "$X a.txt",
        "cat .env",
        "cat ./sub/../.env",
        "cat .e*",
        "echo x > .env",
        "cd sub; cat ../.env",
        "cd sub && cat ../.env",
        "cd s*; cat ../.env",
        "X=.env; cat $X",
        "for f in .env; do cat $f; done",
        "cat $PWD/.env",
        "echo $X | xargs cat",
        "ln -s . dd; cat dd/.env",
        "dd if=.env",
        "grep -f.env x",
        "bash -c 'cat .env'",
        "python3 -c \"print(open('.env').read())\"",
        "cd sub; echo x > ../locked.txt",
        "setsid rm x",
        "nohup rm x",
        "env A=1 rm x",
        "time rm x",
        "nice -n 5 rm x",
        "busybox rm x",
        "ionice rm x",
    ],
)
def test_a_denied_command_is_found_in_every_dress_even_unguarded(
    tree: Path, desk: Desk, home: Path, command: str
) -> None:
    denied = ["Bash(rm:*)", "Read(./.env)", "Edit(./locked.txt)"]
    permissions = gather(home=home, cwd=tree, mode="bypassPermissions", disallowed=denied)
    assert bash(permissions, desk, command) == f"Permission to use Bash with command {command} has been denied."


def test_what_a_denial_does_not_name_runs_unguarded(tree: Path, desk: Desk, home: Path) -> None:
    permissions = gather(home=home, cwd=tree, mode="bypassPermissions", disallowed=["Bash(rm:*)", "Read(./.env)"])
    for command in (
        "rmdir zz",
        "echo $HOME",
        "awk '{print $1}' a.txt",
        "cd sub; cat ../a.txt",
        "ln -s a b",
        "echo rm",
        "cat a.txt > /tmp/x",
        "find . -name rmx",
    ):
        assert bash(permissions, desk, command) == ""


def test_a_question_stays_one_even_unguarded(tree: Path, desk: Desk, home: Path) -> None:
    write_settings(home, "settings.json", ask=["Bash(perl:*)"], deny=["Bash(make)"])
    permissions = gather(home=home, cwd=tree, mode="bypassPermissions")
    asked = "Claude requested permissions to use Bash, but you haven't granted it yet."
    assert bash(permissions, desk, "perl -e 1") == asked
    assert bash(permissions, desk, "make") == "Permission to use Bash with command make has been denied."
    assert bash(permissions, desk, "make all") == ""


def test_the_whole_of_bash_may_be_allowed(tree: Path, desk: Desk, home: Path) -> None:
    for rule in ("Bash", "Bash(*)"):
        permissions = gather(home=home, cwd=tree, allowed=[rule])
        assert bash(permissions, desk, "make $(echo all) > /tmp/x") == ""


def said(permissions: Permissions, desk: Desk, tool: str, path: str) -> str:
    argument = {"Glob": "path", "Grep": "path"}.get(tool, "file_path")
    decided = permissions.decide(tool, {argument: path, "pattern": "*"}, desk)
    return decided.message if isinstance(decided, Denied) else ""


@pytest.mark.spec("4.1.2-j")
def test_files_may_be_read_inside_and_written_in_the_mode_for_it(tree: Path, desk: Desk, home: Path) -> None:
    default, edits = gather(home=home, cwd=tree), gather(home=home, cwd=tree, mode="acceptEdits")
    for tool in ("Read", "Glob", "Grep"):
        assert said(default, desk, tool, "sub") == ""
    for tool in ("Write", "Edit"):
        asked = f"Claude requested permissions to write to {tree}/a.txt, but you haven't granted it yet."
        assert said(default, desk, tool, "a.txt") == asked
        assert said(edits, desk, tool, "a.txt") == ""
        plan = gather(home=home, cwd=tree, mode="plan")
        assert said(plan, desk, tool, "a.txt") == f"Cannot write to {tree}/a.txt while in plan mode."
    assert said(edits, desk, "Write", ".git/config") == (
        f"Claude requested permissions to edit {tree}/.git/config which is a sensitive file."
    )
    assert "haven't granted it yet." in said(edits, desk, "Write", ".claude/settings.json")
    assert said(gather(home=home, cwd=tree, mode="bypassPermissions"), desk, "Write", ".git/config") == ""


def test_paths_outside_are_denied_in_every_mode(tree: Path, desk: Desk, home: Path) -> None:
    # claude lets a session without permissions, or with the whole tool allowed, out; the working directories hold here.
    for permissions in (
        gather(home=home, cwd=tree),
        gather(home=home, cwd=tree, mode="bypassPermissions"),
        gather(home=home, cwd=tree, allowed=["Read", "Write"]),
    ):
        asked = "Claude requested permissions to {} {}, but you haven't granted it yet."
        assert said(permissions, desk, "Read", "/etc/hostname") == asked.format("read from", "/etc/hostname")
        assert said(permissions, desk, "Grep", "/etc") == asked.format("read from", "/etc")
        assert said(permissions, desk, "Write", "/tmp/zz") == asked.format("write to", "/tmp/zz")
    decided = gather(home=home, cwd=tree).decide("Read", {"file_path": "link"}, desk)
    through = (
        f"{tree}/link resolves through a symlink to /etc/hostname, which is outside the allowed working directories"
    )
    first = f"Claude requested permissions to read from {tree}/link, but you haven't granted it yet."
    assert decided == Denied(f"{first} {through}.", "workingDir", through)
    glob = gather(home=home, cwd=tree).decide("Glob", {"pattern": "/etc/host*"}, desk)
    outside = "Path is outside allowed working directories"
    refused = "Claude requested permissions to read from /etc, but you haven't granted it yet."
    assert glob == Denied(refused, "workingDir", outside)


@rows(
    ("command", "path", "what"),
    [
        ("rm -rf /", "/", "a critical system directory"),
        ("rm -rf ~", "~", "a critical system directory"),
        ("ls; rm -rf ~/", "~", "a critical system directory"),
        ("rm -rf /usr", "/usr", "a critical system directory"),
        ("rm -rf .", "@", "a workspace directory ("),
        ("timeout 5 rm -r ../repo", "@", "a workspace directory ("),
        ("nohup rm -r ../repo > /dev/null", "@", "a workspace directory ("),
        ("rm -rf ..", "@/..", "a workspace directory ("),
    ],
)
def test_a_whole_workspace_is_not_removed_though_bash_is_allowed(
    tree: Path, desk: Desk, home: Path, command: str, path: str, what: str
) -> None:
    at = str(tree.parent) if path == "@/.." else path.replace("@", str(tree)).replace("~", str(home))
    for permissions in (gather(home=home, cwd=tree, allowed=["Bash"]), gather(home=home, cwd=tree, mode="acceptEdits")):
        said = bash(permissions, desk, command)
        assert said.startswith(f"Dangerous rm operation detected: '{at}'\n\nThis command would remove {what}")
    assert bash(gather(home=home, cwd=tree, allowed=["Bash"]), desk, "rm -rf sub /tmp/zz") == ""


def test_file_rules(tree: Path, desk: Desk, home: Path, use: Use) -> None:
    write_settings(
        home, "settings.json", allow=["Edit(./sub/**)", "Write"], deny=["Read(sub/x.txt)", "Edit(/locked/**)"]
    )
    permissions = gather(home=home, cwd=tree)
    denied = "File is in a directory that is denied by your permission settings."
    decided = permissions.decide("Read", {"file_path": "sub/x.txt"}, desk)
    assert decided == Denied(denied, "rule", by="rule", source="user_reject", is_rejection=True)
    assert said(permissions, desk, "Edit", "sub/x.txt") == (
        "File is covered by a Read deny rule in your permission settings and cannot be edited."
    )
    assert said(permissions, desk, "Grep", "sub/x.txt") == f"Permission to read {tree}/sub/x.txt has been denied."
    assert said(permissions, desk, "Write", "locked/deep/n.txt") == denied
    assert said(permissions, desk, "Write", "sub/n.txt") == ""
    assert said(permissions, desk, "Edit", "sub/n.txt") == ""
    assert said(permissions, desk, "Write", "n.txt") == ""
    assert said(permissions, desk, "Edit", "n.txt").endswith("n.txt, but you haven't granted it yet.")
    desk.hides = permissions.hides
    assert use("Glob", pattern="sub/*").content == "sub/y.md"
    assert use("Grep", pattern="x", path="sub").content == "Found 1 file\nsub/y.md"


def test_a_file_is_hidden_under_every_name_it_has(tree: Path, desk: Desk, home: Path) -> None:
    (tree / "alias").symlink_to(tree / ".env")
    permissions = gather(home=home, cwd=tree, disallowed=["Read(./.env)"])
    assert "denied by your permission settings" in said(permissions, desk, "Read", "alias")


def test_a_tool_denied_whole_is_not_offered(tree: Path, desk: Desk, home: Path) -> None:
    permissions = gather(home=home, cwd=tree, disallowed=["Bash Write", "Read(./.env)"])
    assert permissions.removed(["Bash", "Read", "Write", "Edit"]) == {"Bash", "Write"}
    assert isinstance(permissions.decide("Bash", {"command": "ls"}, desk), Denied)


def test_where_nobody_may_be_asked_the_denial_says_so(tree: Path, desk: Desk, home: Path) -> None:
    permissions = gather(home=home, cwd=tree, mode="dontAsk")
    for tool, arguments in (
        ("Bash", {"command": "make"}),
        ("Write", {"file_path": "a.txt"}),
        ("Read", {"file_path": "/etc/hostname"}),
    ):
        decided = permissions.decide(tool, arguments, desk)
        assert isinstance(decided, Denied)
        assert decided.reason_type == "mode"
        assert decided.message.startswith(
            f"Permission to use {tool} has been denied because Claude Code is running in don't ask mode. IMPORTANT: "
        )
    assert permissions.decide("Skill", {"skill": "x"}, desk) == Allowed()


def test_a_decision_says_what_it_rests_on(tree: Path, desk: Desk, home: Path) -> None:
    write_settings(home, "settings.json", allow=["Bash(perl:*)", "Edit(./sub/**)"], deny=["Bash(touch:*)"])
    permissions = gather(home=home, cwd=tree, allowed=["Bash(make:*)"])
    for tool, argument, decision in (
        ("Read", "a.txt", Allowed("mode")),
        ("Bash", "ls", Allowed("subcommandResults")),
        ("Bash", "ls; make", Allowed("subcommandResults")),
        ("Bash", "make all", Allowed("rule")),
        ("Bash", "perl -e 1", Allowed("rule", "user_permanent")),
        ("Write", "sub/n.txt", Allowed("rule", "user_permanent")),
        ("Skill", "x", Allowed()),
        ("Bash", "touch q", Denied("", "rule", by="rule", source="user_reject")),
        ("Bash", "python3", Denied(APPROVAL, "other", APPROVAL)),
    ):
        name = {"Bash": "command", "Skill": "skill"}.get(tool, "file_path")
        decided = permissions.decide(tool, {name: argument}, desk)
        if isinstance(decided, Denied) and decided.by == "rule":
            decided = dataclasses.replace(decided, message="")
        assert decided == decision


def test_a_skill_may_be_denied_by_name(tree: Path, desk: Desk, home: Path) -> None:
    permissions = gather(home=home, cwd=tree, disallowed=["Skill(deploy)"])
    assert isinstance(permissions.decide("Skill", {"skill": "deploy"}, desk), Denied)
    assert permissions.decide("Skill", {"skill": "review"}, desk) == Allowed()


def test_a_link_lends_no_leave(tree: Path, desk: Desk, home: Path) -> None:
    (tree / "sub" / "alias").symlink_to(tree / "a.txt")
    permissions = gather(home=home, cwd=tree, allowed=["Edit(./sub/**)"])
    assert said(permissions, desk, "Write", "sub/n.txt") == ""
    assert said(permissions, desk, "Write", "sub/alias").endswith("alias, but you haven't granted it yet.")


@pytest.mark.spec("1.7.2-ab")
@pytest.mark.spec("4.1.6-e")
def test_settings_add_up_and_the_nearest_mode_wins(tree: Path, desk: Desk, home: Path) -> None:
    write_settings(home, "settings.json", allow=["Bash(make)"], defaultMode="dontAsk")
    write_settings(tree, "settings.json", deny=["Bash(touch:*)"], defaultMode="acceptEdits")
    write_settings(tree, "settings.local.json", allow=["Bash(perl:*)"])
    trust(home, tree)
    permissions = gather(home=home, cwd=tree)
    assert permissions.mode == "acceptEdits"
    assert bash(permissions, desk, "make && perl -e 1") == ""
    assert bash(permissions, desk, "touch q") == "Permission to use Bash with command touch q has been denied."
    assert gather(home=home, cwd=tree, mode="plan").mode == "plan"
    assert gather(home=home, cwd=tree, mode="bypassPermissions").mode == "bypassPermissions"
    assert gather(home=home, cwd=tree, sources=["user"]).mode == "dontAsk"


def test_a_repository_that_is_not_trusted_allows_nothing(tree: Path, desk: Desk, home: Path) -> None:
    write_settings(tree, "settings.json", allow=["Bash(make)"], defaultMode="bypassPermissions")
    untrusted = gather(home=home, cwd=tree)
    assert read_settings({"HOME": str(home)}, tree).notes == (
        "Ignoring 1 permissions.allow entry from .claude/settings.json: this workspace has not been trusted. "
        "Run Claude Code interactively here once and accept the trust dialog, or set "
        f'projects["{tree}"].hasTrustDialogAccepted: true '
        f"in {home}/.claude.json.",
    )
    assert untrusted.mode == "default"  # claude takes even this from the repository
    assert bash(untrusted, desk, "make") == APPROVAL
    trust(home, tree)
    trusted = gather(home=home, cwd=tree)
    assert read_settings({"HOME": str(home)}, tree).notes == ()
    assert bash(trusted, desk, "make") == ""


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"permissions": 3}', '{"permissions": {"allow": "Bash", "deny": [1, "("]}}', "\xff"]
)
def test_broken_settings_say_nothing(tree: Path, desk: Desk, home: Path, content: str) -> None:
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_bytes(content.encode("latin-1"))
    assert gather(home=home, cwd=tree).rules == ()


@rows(
    "command",
    [
        "printf -vPATH %s $PWD/evilbin; ls",
        "printf %n PATH; ls",
        "for i in -vPATH; do printf $i /tmp; done",
        "for i in %n; do printf x$i PATH; done",
        "wait -p PATH",
        "test -v 'a[$(touch x)]'",
        "test -R 'a[$(touch x)]'",
        "[ -v 'a[$(touch x)]' ]",
        "for i in '-v a[$(touch x)]'; do test $i; done",
        "sed -n 1p -e '1e touch x' a.txt",
        "cd sub && git status",
        "cd sub; git log",
        "git log --outpu=x",
        "grep -e. /etc/hostname",
        "grep --regexp=. /etc/hostname",
        "grep -n -e . /etc/hostname",
        "grep -f link a.txt",
        "grep --file=link a.txt",
        "grep --der x .",
        "for i in 'x /etc/hostname'; do grep $i; done",
        "cat ~+/../outside.txt",
        "cat < ~+/../outside.txt",
        "tail ~root/.bashrc",
        "cat [^a]ink",
        "cat [[:alpha:]]ink",
        "echo /etc/*",
        "sort --files0=list0",
        "wc --files0=list0",
        "md5sum -c list0",
        "diff sub elsewhere",
        "diff sub sub",
        "ps auxe",
        "ps e",
        "sort -ro out a.txt",
        "sort -uo.git/hooks/pre-commit a.txt",
        "sort --outpu=x a.txt",
        "cd elsew*; ls",
        "true || cd sub && cat ../../x",
        "! cd nosuch && cat nosuch/../../x",
    ],
)
def test_looking_goes_no_further_than_options_that_are_known(tree: Path, desk: Desk, home: Path, command: str) -> None:
    for mode in ("default", "acceptEdits"):
        assert bash(gather(home=home, cwd=tree, mode=mode), desk, command) != ""


def test_a_pattern_may_stand_for_an_option(tree: Path, desk: Desk, home: Path) -> None:
    permissions = gather(home=home, cwd=tree)
    assert bash(permissions, desk, "wc ?.txt") == ""
    (tree / "-oa.txt").touch()
    for command in ("sort *", "wc ?.txt", "[ * ]"):
        assert bash(permissions, desk, command) == APPROVAL


def test_whether_a_cd_was_run_is_not_taken_for_granted(tree: Path, desk: Desk, home: Path) -> None:
    (tree / "sub" / "deep").mkdir()
    desk.cwd = tree / "sub"
    for command in (
        "true || cd deep && cat ../../x",
        "! cd deep && cat ../../x",
        "if false; then cd deep; fi && cat ../../x",
    ):
        assert "was blocked" in bash(gather(home=home, cwd=tree), desk, command)
    assert bash(gather(home=home, cwd=tree), desk, "cd deep && cat ../../a.txt") == ""


def test_git_is_not_run_on_settings_that_came_with_the_files(tree: Path, desk: Desk, home: Path) -> None:
    permissions = gather(home=home, cwd=tree)
    (tree / ".git").mkdir()
    (tree / "bare" / "objects" / "deep").mkdir(parents=True)
    (tree / "bare" / "HEAD").touch()
    (tree / "nested" / ".git").mkdir(parents=True)
    for place, said in (
        ("", ""),
        ("sub", ""),
        ("bare", APPROVAL),
        ("bare/objects/deep", APPROVAL),
        ("nested", APPROVAL),
    ):
        desk.cwd = tree / place
        assert bash(permissions, desk, "git status") == said


@pytest.mark.parametrize(
    "command",
    [
        'nice<<<"x git status " touch /tmp/pwn',
        'timeout 5 <<<"x git status" touch /tmp/pwn',
        "nice 'git status'",
        "git status \r#; touch /tmp/pwn",
        "\x0bgit status",
        "\u00a0git status",
    ],
)
def test_a_rule_is_held_against_what_the_shell_will_run(tree: Path, desk: Desk, home: Path, command: str) -> None:
    permissions = gather(home=home, cwd=tree, allowed=["Bash(git status:*)"])
    assert bash(permissions, desk, command) != ""
    assert bash(permissions, desk, "nice git status --zzz 'a b'") == ""


def test_edits_by_shell_bring_nothing_along_that_runs_later(tree: Path, desk: Desk, home: Path) -> None:
    edits = gather(home=home, cwd=tree, mode="acceptEdits")
    (tree / ".git" / "hooks").mkdir(parents=True)
    (tree / "sub" / "link").symlink_to("/tmp/zz")
    for command in (
        "cp -r tpl/. .",
        "mv -t .git/hooks a.txt",
        "cp -a sub .",
        "cd .git/hooks && echo x > pre-commit",
        "cd .git && cp ../a.txt config",
    ):
        assert "approval" in bash(edits, desk, command)
    (tree / "link").unlink()
    (tree / "link").touch()
    assert "was blocked" in bash(edits, desk, "cp link sub")
    for command in ("cp a.txt b.txt", "mkdir -p x/y", "rm -rf sub"):
        assert bash(edits, desk, command) == ""


def test_local_settings_may_have_come_with_the_repository(tree: Path, desk: Desk, home: Path) -> None:
    write_settings(tree, "settings.local.json", allow=["Bash"], deny=["Bash(ls)"], defaultMode="bypassPermissions")
    untrusted = gather(home=home, cwd=tree)
    assert untrusted.mode == "default"
    [note] = read_settings({"HOME": str(home)}, tree).notes
    assert "from .claude/settings.local.json: this workspace has not been trusted." in note
    assert bash(untrusted, desk, "make") == APPROVAL
    assert bash(untrusted, desk, "ls") != ""
    write_settings(tree, "settings.local.json", defaultMode="acceptEdits")
    assert gather(home=home, cwd=tree).mode == "default"
    trust(home, tree)
    assert gather(home=home, cwd=tree).mode == "acceptEdits"


def test_root_does_not_lift_the_guard_by_settings(tree: Path, home: Path) -> None:
    write_settings(home, "settings.json", defaultMode="bypassPermissions")
    assert gather(home=home, cwd=tree, may_bypass=True).mode == "bypassPermissions"
    assert gather(home=home, cwd=tree, may_bypass=False, mode="default").mode == "default"
    with pytest.raises(BadUsage, match="root/sudo"):
        gather(home=home, cwd=tree, may_bypass=False)


def test_a_plan_only_looks(tree: Path, desk: Desk, home: Path) -> None:
    for rule in ("Bash", "Bash(touch:*)", "Bash(touch planned)"):
        plan = gather(home=home, cwd=tree, mode="plan", allowed=[rule])
        assert bash(plan, desk, "touch planned") != ""
        assert bash(plan, desk, "cat a.txt") == ""
