"""claude's command line, read by the rules of commander."""

import pytest

from ralph.claude_cli.flags import FLAGS, BadUsage, Use, parse


def test_a_variadic_flag_takes_words_until_the_next_flag() -> None:
    given = parse(["--tools", "Read", "Write,Edit", "-p", "hi"])
    assert given.values["tools"] == ["Read", "Write,Edit"]
    assert given.words == ["hi"]


def test_a_value_after_an_equals_sign_is_one_word() -> None:
    given = parse(["--tools=Read", "hi", "--model=a=b"])
    assert (given.values["tools"], given.last("model"), given.words) == (["Read"], "a=b", ["hi"])


def test_an_empty_value_is_a_value() -> None:
    assert parse(["--tools", "", "-p"]).values["tools"] == [""]


@pytest.mark.spec("4.1.2-b")
def test_both_spellings_are_one_flag_and_add_up() -> None:
    given = parse(["--allowedTools", "Read", "--allowed-tools", "Bash(git *)"])
    assert given.values["allowed-tools"] == ["Read", "Bash(git *)"]


def test_after_two_dashes_everything_is_a_word() -> None:
    assert parse(["-p", "--tools", "Read", "--", "--model", "x"]).words == ["--model", "x"]


def test_a_value_may_look_like_a_flag_where_one_is_needed_but_not_where_it_is_not() -> None:
    assert parse(["--system-prompt", "-v"]).last("system-prompt") == "-v"
    given = parse(["--debug", "--verbose", "--debug", "api"])
    assert (given.values["debug"], "verbose" in given) == (["api"], True)


def test_short_flags_come_in_clusters() -> None:
    assert "version" in parse(["-pv"])
    assert parse(["-pdapi", "hi"]).values["debug"] == ["api"]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--nonesuch"], "error: unknown option '--nonesuch'"),
        (["--modle", "x"], "error: unknown option '--modle'\n(Did you mean --model?)"),
        (["--verbose=x"], "error: unknown option '--verbose=x'\n(Did you mean --verbose?)"),
        (["--model"], "error: option '--model <model>' argument missing"),
        (
            ["--output-format", "xml"],
            "error: option '--output-format <format>' argument 'xml' is invalid. Allowed choices are text, json, "
            "stream-json.",
        ),
    ],
)
def test_what_claude_does_not_know_is_refused_in_its_words(argv: list[str], complaint: str) -> None:
    with pytest.raises(BadUsage) as refused:
        parse(argv)
    assert str(refused.value) == complaint


def test_every_flag_has_one_name_of_its_own() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len(set(names))
    assert parse(["--file", "a", "b", "--no-chrome"]).of(Use.IGNORED)[0].key == "file"
