from ralph.config.envrc import let_through
from tests.support.rows import rows


@rows(
    "name",
    [
        "GIT_DIR", "GIT_CONFIG_COUNT", "LD_PRELOAD", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "NODE_OPTIONS",
        "LD_X\nY", "RALPH_DIR", "RALPH_MODEL", "ENV", "BASH_FUNC_git%%", "PERL5OPT", "RUBYOPT", "GCONV_PATH",
    ],
)  # fmt: skip
@rows("value", ["x", None])
def test_what_changes_other_programs_is_dropped_and_told(name: str, value: str | None) -> None:
    variables = let_through({name: value, "A": "1"})
    assert (variables.over({name: "mine"}), variables.dropped) == ({name: "mine", "A": "1"}, (name,))


@rows(
    "name",
    [
        "GITHUB_TOKEN", "LDFLAGS", "MY_PYTHON", "NODE_OPTIONS_X", "BASH_ENV_FILE", "PATH", "PERL5LIB", "APP_ENV",
        "ENVX",
    ],
)  # fmt: skip
def test_what_only_looks_like_it_is_not(name: str) -> None:
    assert let_through({name: "x"}).over({}) == {name: "x"}


def test_direnv_s_own_are_dropped_without_a_word() -> None:
    variables = let_through({"DIRENV_DIFF": "x", "DIRENV_DIR": "y"})
    assert (variables.over({}), variables.dropped) == ({}, ())


def test_variables_are_set_changed_and_taken_away() -> None:
    variables = let_through({"NEW": "1", "CHANGED": "2", "GONE": None})
    assert variables.over({"CHANGED": "1", "GONE": "1", "KEPT": "1"}) == {"CHANGED": "2", "KEPT": "1", "NEW": "1"}


def test_what_was_no_text_is_left_out_and_told() -> None:
    variables = let_through({"A": "a\ufffdb", "B": "ü", "GIT_X": "\ufffd"})
    assert (variables.over({"A": "mine"}), variables.garbled) == ({"A": "mine", "B": "ü"}, ("A",))
