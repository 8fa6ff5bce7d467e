"""`ralph config` and `ralph config set`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests.support.ralph_process import Ralph


def test_every_value_is_shown_with_its_source(repo: Path, world: Path, ralph: Ralph) -> None:
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "config.toml").write_text('reasoning = "low"\n')
    (repo / ".env").write_text("RALPH_MAX_COST=5\nSECRET=1\n")
    ralph("config", "set", "failures", "4")

    done = ralph("config", "--json", env={"RALPH_MODEL": "opus"})

    shown = json.loads(done.stdout)
    assert shown["model"] == {"value": "opus", "source": "environment"}
    assert shown["reasoning"] == {"value": "low", "source": str(repo / ".ralph" / "config.toml")}
    assert shown["max_cost"] == {"value": "5", "source": str(repo / ".env")}
    assert shown["failures"] == {"value": 4, "source": str(world / "home" / "config" / "ralph" / "config.toml")}
    assert shown["idle_timeout"] == {"value": "10m", "source": "default"}
    assert shown["max_tokens"] == {"value": None, "source": "default"}
    assert "SECRET" not in done.stdout


def test_it_works_outside_a_repository(tmp_path: Path, ralph: Ralph) -> None:
    done = ralph("config", cwd=tmp_path)
    assert done.exit_code == 0
    assert "model" in done.stdout
    assert "sonnet" in done.stdout


def test_set_writes_the_users_configuration_and_says_where(world: Path, ralph: Ralph) -> None:
    done = ralph("config", "set", "agents.claude.extra_args", "--betas 'a b'")
    path = world / "home" / "config" / "ralph" / "config.toml"
    assert (done.exit_code, str(path) in done.stdout) == (0, True)
    assert tomllib.loads(path.read_text()) == {"agents": {"claude": {"extra_args": ["--betas", "a b"]}}}


def test_set_says_when_something_else_counts_more(ralph: Ralph) -> None:
    done = ralph("config", "set", "model", "haiku", env={"RALPH_MODEL": "opus"})
    assert "environment overrides this with opus" in done.stderr


def test_set_project_writes_the_repository(repo: Path, ralph: Ralph) -> None:
    done = ralph("config", "set", "--project", "model", "haiku")
    assert done.exit_code == 0
    assert (repo / ".ralph" / "config.toml").read_text() == 'model = "haiku"\n'


def test_a_bad_key_or_value_is_refused_and_writes_nothing(world: Path, ralph: Ralph) -> None:
    for args, cause in (
        (("modle", "x"), "unknown key modle (did you mean model?)"),
        (("duration", "soon"), "duration: 'soon' is not a duration"),
        (("--project", "agents.claude.path", "/x"), "it runs code or concerns secrets"),
    ):
        done = ralph("config", "set", *args)
        assert done.exit_code == 2
        assert cause in done.stderr
    assert not (world / "home" / "config").exists()


def test_a_broken_file_is_mended_by_the_command_that_the_error_names(world: Path, ralph: Ralph) -> None:
    path = world / "home" / "config" / "ralph" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("notify = 7\n")

    refused = ralph("config")
    assert refused.exit_code == 2
    assert f"{path}: notify: must be a string or a list of strings, not 7" in refused.stderr
    assert "hint: fix each value; to change one in your configuration: ralph config set KEY VALUE" in refused.stderr

    assert ralph("config", "set", "notify", "none").exit_code == 0
    assert ralph("config").exit_code == 0
    named = ralph("config", env={"RALPH_MAX": "abc", "RALPH_REQUIRE_CHECK": "perhaps"})
    assert named.exit_code == 2
    assert "  RALPH_MAX: 'abc' is not a whole number above zero\n" in named.stderr
    assert "  RALPH_REQUIRE_CHECK: must be true or false, not 'perhaps'\n" in named.stderr


def test_a_repository_does_not_decide_what_runs_code(repo: Path, ralph: Ralph) -> None:
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "config.toml").write_text('[agents.claude]\npath = "./evil"\nauth = "api-key"\n')

    done = ralph("config", "--json")

    assert json.loads(done.stdout)["agents.claude.path"] == {"value": "", "source": "default"}
    assert json.loads(done.stdout)["agents.claude.auth"] == {"value": "login", "source": "default"}
    assert "agents.claude.path ignored" in ralph("config").stderr


def test_no_password_is_shown(ralph: Ralph) -> None:
    url = "postgresql://me:geheim@host/queue"
    said = [
        ralph("config", "set", "db", url),
        ralph("config"),
        ralph("config", "--json"),
        ralph("config", "set", "db", "sqlite:////tmp/q", env={"RALPH_DB": url}),
    ]
    for done in said:
        assert done.exit_code == 0
        assert "postgresql://me:***@host/queue" in done.stdout + done.stderr
        assert "geheim" not in done.stdout + done.stderr
