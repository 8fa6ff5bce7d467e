"""Settings: which source wins, what each fault says, and what `ralph config set` writes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from ralph.agents.base import AgentOptions, ClaudeOptions, CodexOptions
from ralph.config import paths, settings
from ralph.config.keys import KEYS
from ralph.config.settings import AskOptions, Mode, Settings, load, set_value
from ralph.core.errors import UsageError
from ralph.core.fallback import Fallback
from ralph.core.limits import Limits, Reasoning
from ralph.core.proof import ProofRules, TestPolicy
from ralph.core.summary import Rhythm
from ralph.sandbox.policy import SandboxMode, SandboxOptions
from tests.support.rows import rows


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".ralph").mkdir()
    return tmp_path


def project(root: Path, text: str) -> Path:
    path = root / ".ralph" / "config.toml"
    path.write_text(text)
    return path


def user(text: str) -> Path:
    path = paths.user_config()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def dotenv(root: Path, text: str) -> Path:
    (root / ".env").write_text(text)
    return root / ".env"


def faults(root: Path | None = None, env: Mapping[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(UsageError) as caught:
        load(env=env or {}, root=root, flags=flags)
    return caught.value.message


NAMED_BY_SPEC_2 = ("auto", "codex", "rtf1", "plain", "claude")


@pytest.mark.spec("5.5-a")
def test_every_default_is_the_designs(root: Path) -> None:
    assert load(env={}, root=root) == Settings(
        agent="claude",
        model="sonnet",
        reasoning=Reasoning.MED,
        limits=Limits(iterations=50),
        iteration_timeout=3600.0,
        idle_timeout=600.0,
        fallback=Fallback((), 600.0),
        proof=ProofRules(TestPolicy.MAY_CHANGE, protect=(), baseline=True, needs_commit=False),
        check=None,
        check_timeout=1800.0,
        require_check=False,
        envrc_timeout=30,
        on_denial="stop",
        failures=3,
        stall_after=3,
        worker=Mode(("Read", "Write", "Edit", "Glob", "Grep", "Bash", "Skill", "StructuredOutput"), ""),
        scout=Mode(("Read", "Glob", "Grep", "StructuredOutput"), ""),
        planner=Mode(("Read", "Glob", "Grep", "StructuredOutput"), ""),
        summarizer=Mode(("Read", "Glob", "Grep", "StructuredOutput"), "", model="haiku", reasoning=Reasoning.HIGH),
        rhythm=Rhythm(every=10, keep=5),
        agents=AgentOptions(
            claude=ClaudeOptions(
                path="", permission_mode="", auth="login", project_settings=True, max_retries=3, extra_args=()
            ),
            codex=CodexOptions(path="", sandbox="workspace-write", extra_args=()),
            command="",
            transcript="auto",
        ),
        ask=AskOptions(max_turns=10, allowed_tools=("Bash", "Read", "Write", "Edit"), timeout=600.0),
        sandbox=SandboxOptions(SandboxMode.NONE, processes=8192),
        notify=(),
        bell=True,
        most_goals=2,
        values=load(env={}, root=root).values,
    )


def test_the_command_that_tells_of_news_is_the_users_alone(root: Path) -> None:
    file = project(root, 'notify = "planted"\n')
    dotenv(root, "RALPH_NOTIFY=planted\n")
    user('notify = ["my-notifier", "two words"]\n')
    loaded = load(env={}, root=root)
    assert loaded.notify == ("my-notifier", "two words")
    assert any(note.startswith(f"{file}: notify ignored") for note in loaded.notes)
    assert load(env={"RALPH_NOTIFY": "~/bin/tell 'two words'"}, root=root).notify == (
        str(Path.home() / "bin" / "tell"),
        "two words",
    )
    assert load(env={"RALPH_NOTIFY": "none"}, root=root).notify == ()


@pytest.mark.parametrize(
    ("written", "words"),
    [("./tell", "write the full path"), ("bin/tell x", "write the full path"), ("'open", "cannot parse")],
)
def test_a_command_that_an_agent_could_write_is_refused(root: Path, written: str, words: str) -> None:
    assert words in faults(root, {"RALPH_NOTIFY": written})


SOURCES = ("flag", "environment", "goal", ".env", "project", "user", "default")


@pytest.mark.parametrize("strongest", range(len(SOURCES)), ids=SOURCES)
def test_the_strongest_source_wins_and_is_named(root: Path, strongest: int) -> None:
    present = SOURCES[strongest:]
    goal = root / "goal.md"
    names = {
        "flag": "flag",
        "environment": "environment",
        "goal": str(goal),
        ".env": str(dotenv(root, "RALPH_MODEL=from-.env\n") if ".env" in present else ""),
        "project": str(project(root, 'model = "from-project"\n') if "project" in present else ""),
        "user": str(user('model = "from-user"\n') if "user" in present else ""),
        "default": "default",
    }
    loaded = load(
        env={"RALPH_MODEL": "from-environment"} if "environment" in present else {},
        root=root,
        flags={"model": "from-flag"} if "flag" in present else {},
        front_matter={"model": "from-goal"} if "goal" in present else {},
        goal=goal,
    )
    winner = SOURCES[strongest]
    assert loaded.model == ("sonnet" if winner == "default" else f"from-{winner}")
    assert loaded.values["model"].source == names[winner]


def test_values_are_read_from_text_and_from_toml_alike(root: Path) -> None:
    project(root, 'max_iterations = 5\nmax_cost = 2.5\nduration = "1h30m"\nrequire_check = true\n')
    written = load(env={}, root=root)
    env = {
        "RALPH_MAX_ITERATIONS": "5",
        "RALPH_MAX_COST": "$2.50",
        "RALPH_DURATION": "90m",
        "RALPH_REQUIRE_CHECK": "yes",
    }
    assert written.limits == load(env=env).limits == Limits(5, 5400.0, 2.5, None)
    assert written.require_check is load(env=env).require_check is True


def test_nested_keys_have_flat_names_in_the_environment() -> None:
    loaded = load(env={"RALPH_MODES_WORKER_TOOLS": "Read, Bash", "RALPH_AGENTS_CLAUDE_MAX_RETRIES": "0"})
    assert (loaded.worker.tools, loaded.agents.claude.max_retries) == (("Read", "Bash"), 0)


def test_an_empty_variable_is_no_setting() -> None:
    assert load(env={"RALPH_MODEL": " "}).values["model"].source == "default"


def test_front_matter_keys_that_are_no_settings_do_not_matter() -> None:
    assert load(env={}, front_matter={"title": "x", "model": "opus"}).model == "opus"


def test_all_faults_are_said_at_once_each_with_its_place(root: Path) -> None:
    own = user('modle = "opus"\nidle_timeout = "soon"\n')
    shared = project(root, "failures = 0\n[agents.claude]\nmax_retries = -1\n")
    hidden = dotenv(root, "RALPH_REASONING=hihg\n")
    message = faults(root, {"RALPH_MAX_COST": "much"}, agent="claud")
    for said in (
        f"{own}: unknown key modle (did you mean model?)",
        f"{own}: idle_timeout: 'soon' is not a duration",
        f"{shared}: failures: '0' is not a whole number above zero",
        f"{shared}: agents.claude.max_retries: '-1'",
        f"{hidden}: RALPH_REASONING: 'hihg' is not one of none, low, med, high (did you mean high?)",
        "RALPH_MAX_COST: 'much' is not an amount",
        "--agent: 'claud' is not one of claude, codex, custom, ralph-claude, demo (did you mean claude?)",
    ):
        assert said in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model = ", "invalid TOML"),
        ("model = 5", "model: must be a string, not 5"),
        ("model = [1]", "model: must be a string, not [1]"),
        ("[model]\nname = 'x'", "model: must be a string, not a table"),
        ("max_iterations = true", "max_iterations: must be a number or a string, not true"),
        ("max_iterations = 2026-01-01", "must be a number or a string, not 2026-01-01"),
        ("max_tokens = nan", "max_tokens: 'nan' is not a whole number"),
        ("require_check = 'perhaps'", "require_check: must be true or false, not 'perhaps'"),
        ("modes.worker.tools = [1]", "modes.worker.tools: must be a string or a list of strings, not [1]"),
        ("[agents.claude]\npaht = '/x'", "unknown key agents.claude.paht (did you mean agents.claude.path?)"),
        ("model = ''", "model"),
    ],
)
def test_a_fault_in_the_projects_file_names_the_file(root: Path, text: str, said: str) -> None:
    path = project(root, text)
    message = faults(root)
    assert f"{path}: " in message
    assert said in message


def test_a_file_that_is_not_utf8_is_a_fault_not_a_crash(root: Path) -> None:
    (root / ".ralph" / "config.toml").write_bytes(b'model = "\xff"')
    assert "not UTF-8 text" in faults(root)


def test_a_directory_in_a_files_place_is_a_fault_not_a_crash(root: Path) -> None:
    (root / ".ralph" / "config.toml").mkdir()
    (root / ".env").mkdir()
    message = faults(root)
    assert f"cannot read {root / '.ralph' / 'config.toml'}" in message
    assert f"cannot read {root / '.env'}" in message


@rows(
    ("flags", "model", "every"),
    [
        ({}, "haiku", 10),
        ({"model": "opus"}, "haiku", 10),
        ({"agent": "ralph-claude"}, "haiku", 10),
        ({"agent": "codex"}, "", 10),
        ({"agent": "codex", "model": "gpt"}, "gpt", 10),
        ({"agent_cmd": "mine"}, "", 10),
        ({"agent": "demo"}, "sonnet", 0),
        ({"agent": "ralph-claude", "model": "scripted:a.json"}, "scripted:a.json", 0),
        ({"agent": "demo", "summary_every": "10"}, "sonnet", 10),
        ({"model": "scripted:a.json", "modes.summarizer.model": "scripted:b.json"}, "scripted:b.json", 10),
        ({"agent": "codex", "modes.summarizer.model": "gpt-mini"}, "gpt-mini", 10),
    ],
)
def test_haiku_condenses_for_claude_others_for_themselves_and_a_script_not(
    flags: dict[str, object], model: str, every: int
) -> None:
    loaded = load(env={}, flags=flags)
    assert (loaded.summarizer.model, loaded.rhythm.every) == (model, every)


@pytest.mark.parametrize(("every", "keep"), [("5", "10"), ("1", "1"), ("95", "5"), ("0", "5")])
def test_the_rhythm_of_summaries_is_the_users(every: str, keep: str) -> None:
    loaded = load(env={"RALPH_SUMMARY_EVERY": every, "RALPH_SUMMARY_KEEP": keep})
    assert loaded.rhythm == Rhythm(int(every), int(keep))


def test_summaries_too_seldom_for_any_prompt_are_refused() -> None:
    assert "a prompt would quote 101 iterations, at most 100 fit" in faults(summary_every="97")
    assert "'1.5' is not a whole number" in faults(summary_keep=1.5)


GUARDED = (
    "agent_cmd",
    "check",
    "notify",
    "db",
    "max",
    "merge",
    "agents.claude.path",
    "agents.claude.permission_mode",
    "agents.claude.auth",
    "agents.claude.extra_args",
    "agents.codex.path",
    "agents.codex.sandbox",
    "agents.codex.extra_args",
    "sandbox.command",
    "sandbox.bind",
    "sandbox.env",
)


def test_the_guarded_keys_are_those_that_run_code_or_hold_secrets() -> None:
    assert tuple(name for name, key in KEYS.items() if key.guarded) == GUARDED


def test_a_repository_does_not_decide_guarded_keys_and_that_is_said(root: Path) -> None:
    shared = project(root, '[agents.claude]\npath = "/evil"\nauth = "nonsense"\nextra_args = ["--evil"]\n')
    hidden = dotenv(root, "RALPH_AGENTS_CLAUDE_PATH=/evil\nRALPH_AGENTS_CLAUDE_EXTRA_ARGS=--evil\n")
    loaded = load(env={}, root=root)
    assert (loaded.agents.claude.path, loaded.agents.claude.auth, loaded.agents.claude.extra_args) == ("", "login", ())
    assert [note.split(" ignored")[0] for note in loaded.notes] == [
        f"{shared}: agents.claude.path",
        f"{shared}: agents.claude.auth",
        f"{shared}: agents.claude.extra_args",
        f"{hidden}: agents.claude.path",
        f"{hidden}: agents.claude.extra_args",
    ]


def test_the_user_decides_guarded_keys(root: Path) -> None:
    user('[agents.claude]\npath = "/mine"\nextra_args = "--one \'two three\'"\n')
    loaded = load(env={"RALPH_AGENTS_CLAUDE_AUTH": "api-key"}, root=root)
    assert (loaded.agents.claude.path, loaded.agents.claude.auth) == ("/mine", "api-key")
    assert loaded.agents.claude.extra_args == ("--one", "two three")
    assert loaded.notes == ()


def test_of_env_only_ralphs_own_names_count(root: Path) -> None:
    dotenv(root, "MODEL=evil\nmodel=evil\nANTHROPIC_API_KEY=secret\nexport RALPH_MODEL='opus' # mine\n")
    loaded = load(env={}, root=root)
    assert loaded.model == "opus"
    assert "secret" not in str(loaded)


def test_env_does_not_pull_in_other_variables(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    dotenv(root, "OTHER=x\nRALPH_MODEL=${SECRET}-${OTHER}\n")
    assert load(env={"SECRET": "hunter2"}, root=root).model == "${SECRET}-${OTHER}"


def test_an_unreadable_line_of_env_does_no_harm(root: Path) -> None:
    (root / ".env").write_bytes(b"\xff\xfe = [broken\n=\nRALPH_MODEL=opus\n")
    assert load(env={}, root=root).model == "opus"


@pytest.mark.parametrize(
    ("env", "directory"), [({"RALPH_DIR": "/x/y"}, "/x/y"), ({"RALPH_DIR": "~/r"}, "home/r"), ({}, "home/state/ralph")]
)
def test_the_state_directory_is_the_users_or_the_platforms(world: Path, env: dict[str, str], directory: str) -> None:
    assert paths.ralph_dir(env) == world / directory


# ralph config set


@pytest.mark.parametrize(
    ("name", "written", "stored", "value"),
    [
        ("model", "opus", {"model": "opus"}, "opus"),
        ("max_iterations", "1_000", {"max_iterations": 1000}, 1000),
        ("duration", "1h30m", {"duration": "1h30m"}, 5400.0),
        ("max_cost", "$5", {"max_cost": "$5"}, 5.0),
        ("require_check", "yes", {"require_check": True}, True),
        ("modes.worker.tools", "Read, Bash", {"modes": {"worker": {"tools": ["Read", "Bash"]}}}, ("Read", "Bash")),
        ("agents.claude.max_retries", "0", {"agents": {"claude": {"max_retries": 0}}}, 0),
        ("agents.claude.project_settings", "false", {"agents": {"claude": {"project_settings": False}}}, False),
        ("agents.claude.extra_args", "-a 'b c'", {"agents": {"claude": {"extra_args": ["-a", "b c"]}}}, ("-a", "b c")),
    ],
)
def test_a_value_that_is_set_is_read_back(name: str, written: str, stored: object, value: object) -> None:
    path = paths.user_config()
    assert set_value(path, name, written) == ""
    assert tomllib.loads(path.read_text()) == stored
    loaded = load(env={}).values[name]
    assert (loaded.value, loaded.source) == (value, str(path))


def test_setting_one_key_keeps_the_others() -> None:
    path = user('model = "opus"\n[agents.claude]\nauth = "login"\n')
    set_value(path, "agents.claude.max_retries", "7")
    assert tomllib.loads(path.read_text()) == {
        "model": "opus",
        "agents": {"claude": {"auth": "login", "max_retries": 7}},
    }


@pytest.mark.parametrize("text", ["# why\nmodel = 'opus'\n", "model = 'opus'  # why\n", "[agents] # why\n"])
def test_comments_are_kept_aside_and_that_is_said(text: str) -> None:
    path = user(text)
    note = set_value(path, "failures", "5")
    kept = path.with_name("config.toml.bak")
    assert kept.read_text() == text
    assert str(kept) in note


@pytest.mark.parametrize(
    ("before", "name", "written", "said"),
    [
        ("model = 'opus'\n", "max_cost", "much", "max_cost: 'much' is not an amount"),
        ("model = 'opus'\n", "modle", "x", "unknown key modle (did you mean model?)"),
        ("model = ", "model", "x", "invalid TOML"),
        ("agents = 5\n", "agents.claude.auth", "login", "agents is not a table"),
        ("[agents]\nclaude = 5\n", "agents.claude.auth", "login", "claude is not a table"),
    ],
)
def test_what_cannot_be_set_changes_nothing(before: str, name: str, written: str, said: str) -> None:
    path = user(before)
    with pytest.raises(UsageError) as caught:
        set_value(path, name, written)
    assert said in caught.value.message
    assert path.read_text() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["config.toml"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        set_value(tmp_path / "file" / "config.toml", "model", "opus")


@pytest.mark.spec("2.7-bcdegh", "2.14-b", "2.15-bde", "2.18-e")
@rows(
    ("env", "flags", "agent", "transcript"),
    [
        ({}, {}, "claude", "claude"),
        ({}, {"agent": "codex"}, "codex", "codex"),
        ({}, {"agent": "ralph-claude"}, "ralph-claude", "claude"),
        ({}, {"agent": "codex", "transcript": "plain"}, "codex", "plain"),
        ({}, {"agent_cmd": "mine"}, "custom", "plain"),
        ({}, {"agent": "custom", "agent_cmd": "mine", "transcript": "rtf1"}, "custom", "rtf1"),
        ({"RALPH_TRANSCRIPT": "rtf1"}, {"agent_cmd": "mine"}, "custom", "rtf1"),
        ({"RALPH_TRANSCRIPT": "rtf1"}, {"agent_cmd": "mine", "transcript": "auto"}, "custom", "plain"),
        ({"RALPH_AGENT": "codex"}, {"agent_cmd": "mine"}, "custom", "plain"),
        ({"RALPH_AGENT_CMD": "mine"}, {"agent": "codex"}, "codex", "codex"),
        ({"RALPH_AGENT_CMD": "mine", "RALPH_AGENT": "custom"}, {}, "custom", "plain"),
    ],
)
def test_which_agent_and_which_transcript(
    env: Mapping[str, str], flags: Mapping[str, object], agent: str, transcript: str
) -> None:
    chosen = load(env=env, flags=flags)
    assert (chosen.agent, chosen.transcript) == (agent, transcript)


@pytest.mark.spec("2.15-c")
def test_a_command_for_another_agent_than_custom_is_a_contradiction() -> None:
    assert "--agent-cmd works only with the agent custom, not codex" in faults(agent="codex", agent_cmd="mine")


@pytest.mark.spec("2.7-a", "2.15-a")
def test_an_agent_or_transcript_that_nobody_has_is_refused_with_those_there_are() -> None:
    assert "'codx' is not one of claude, codex, custom, ralph-claude, demo" in faults(agent="codx")
    assert "'rtf' is not one of auto, " in faults(transcript="rtf")
    chosen = [load(env={}, flags={"agent_cmd": "mine", "transcript": each}).transcript for each in NAMED_BY_SPEC_2]
    assert chosen == ["plain", "codex", "rtf1", "plain", "claude"]


def test_a_repository_does_not_choose_the_command_that_is_run(root: Path) -> None:
    project(root, 'agent_cmd = "evil"\n[agents.codex]\npath = "/evil"\nsandbox = "danger-full-access"\n')
    loaded = load(env={}, root=root)
    assert (loaded.agent, loaded.agents.command, loaded.agents.codex) == ("claude", "", CodexOptions())
    assert len(loaded.notes) == 3


def test_the_usual_model_is_for_agents_with_claudes_models() -> None:
    assert load(env={}, flags={"agent": "demo"}).model == "sonnet"
    assert load(env={}, flags={"agent": "codex"}).model == ""
    assert load(env={}, flags={"agent": "codex", "model": "gpt"}).model == "gpt"
    assert load(env={"RALPH_MODEL": "gpt"}, flags={"agent_cmd": "mine"}).model == "gpt"


def test_a_repositorys_dotenv_is_not_heeded_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("RALPH_MAX_COST=1000\n")
    assert settings.load(env={}, root=tmp_path).limits.cost_usd == 1000
    assert settings.load(env={"RALPH_DOTENV": "no"}, root=tmp_path).limits.cost_usd is None
