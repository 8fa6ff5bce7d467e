"""The worker's prompt: what it says, and that nobody's text can become a template, a fence or a slash command."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.goal import Goal, parse_goal
from ralph.core.run import CheckRecord, History, Iteration, Run
from ralph.core.summary import RECENT, Condensed, Summary
from ralph.core.text import fenced
from ralph.core.verdict import PROMISE, Promise, Reply, Verdict
from ralph.run.prompts import MAP, PromptError, Prompts

RUN = Run(id="r", goal="speed", branch="main", base=None)


def goal(text: str = "Make it fast.") -> Goal:
    return parse_goal(f"# Speed\n\n## Objective\n\n{text}\n", Path("/x/speed.md"))


def history(count: int, summary: str = "did {}") -> History:
    made = History()
    for number in range(1, count + 1):
        made = made.after(Iteration(number, "", summary.format(number), "c" * 40, Verdict.CONTINUE))
    return made


def worker(
    root: Path,
    run: Run = RUN,
    *,
    text: str = "Make it fast.",
    check: str = "",
    reply: Reply = Reply.TOOL,
    verbatim: int = RECENT,
    shrunk: bool = False,
) -> str:
    return Prompts(root / "prompts").worker(
        goal(text), run, root=root, check=check, reply=reply, verbatim=verbatim, shrunk=shrunk
    )


def override(root: Path, template: str) -> Path:
    path = root / "prompts" / "worker.md.j2"
    path.parent.mkdir()
    path.write_text(template)
    return path


@pytest.mark.spec("1.4.1-d", "1.7.1-b", "1.7.3-b")
def test_the_first_prompt_holds_the_goal_and_the_rules(tmp_path: Path) -> None:
    prompt = worker(tmp_path)
    for said in (
        "This is iteration 1.",
        "There is no AGENTS.md",
        "None: this is the first iteration.",
        "# The goal: Speed",
        "Make it fast.",
        "Never touch anything under `.ralph/`",
        "StructuredOutput",
        "`DONE`",
    ):
        assert said in prompt
    for unsaid in ("{{", "{%", "The check is red", "the last session"):
        assert unsaid not in prompt


def test_agents_md_is_named_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").touch()
    assert "Follow AGENTS.md in the repository root." in worker(tmp_path)


def draw_map(root: Path, content: str | bytes) -> Path:
    path = root / MAP
    path.parent.mkdir()
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_map_of_the_code_base_is_quoted_before_the_progress(tmp_path: Path) -> None:
    assert "map of the code base" not in worker(tmp_path)
    draw_map(tmp_path, "# Map\n\n```sh\nmake\n```\n{{ 7 * 7 }}\n")
    prompt = worker(tmp_path)
    assert "````text\n# Map\n\n```sh\nmake\n```\n{{ 7 * 7 }}\n````\n" in prompt
    assert prompt.index("# Before you start") < prompt.index("may be out of date") < prompt.index("# Progress so far")


def test_a_shrunk_prompt_goes_without_the_map(tmp_path: Path) -> None:
    plain = worker(tmp_path, shrunk=True)
    draw_map(tmp_path, "# Map")
    assert worker(tmp_path, shrunk=True) == plain


def test_of_a_long_map_both_ends_are_quoted(tmp_path: Path) -> None:
    plain = worker(tmp_path)
    draw_map(tmp_path, b"first" + b"\xff" * 1_000_000 + b"last")
    assert len(worker(tmp_path)) < len(plain) + 12_500
    assert "first" in worker(tmp_path)
    assert "last\n```" in worker(tmp_path)


def test_what_is_no_map_is_not_quoted(tmp_path: Path) -> None:
    plain = worker(tmp_path)
    path = draw_map(tmp_path, " \n")
    assert worker(tmp_path) == plain
    path.unlink()
    (tmp_path / "elsewhere").write_text("secret")
    path.symlink_to(tmp_path / "elsewhere")
    assert worker(tmp_path) == plain
    path.unlink()
    path.mkdir()
    assert worker(tmp_path) == plain


@pytest.mark.spec("1.4.1-d", "1.8-d")
def test_the_recent_iterations_are_quoted_and_the_older_ones_counted(tmp_path: Path) -> None:
    prompt = worker(tmp_path, Run("r", "speed", "main", None, history=history(RECENT + 2)))
    assert "This is iteration 13." in prompt
    assert "2 earlier iterations are not shown" in prompt
    assert "did 3\n" in prompt
    assert "did 2\n" not in prompt


def summarised(finished: int, through: int, text: str = "It went well.") -> Run:
    return replace(RUN, history=history(finished), condensed=Condensed(Summary(through, text)))


@pytest.mark.spec("1.8-c")
def test_the_summary_stands_for_the_iterations_that_it_covers(tmp_path: Path) -> None:
    prompt = worker(tmp_path, summarised(19, 5, "```\n{{ 7 * 7 }}\n```"), verbatim=14)
    assert "## Iterations 1 to 5, condensed\n\n````text\n```\n{{ 7 * 7 }}\n```\n````\n\n## Iteration 6\n" in prompt
    assert "did 5\n" not in prompt
    assert "did 19\n" in prompt
    assert "not shown" not in prompt


def test_what_falls_between_the_summary_and_the_recent_is_named(tmp_path: Path) -> None:
    prompt = worker(tmp_path, summarised(30, 5), verbatim=14)
    assert "It went well.\n```\n\n11 more iterations are not shown; see `git log`.\n\n## Iteration 17" in prompt


def test_a_shrunk_prompt_keeps_the_summary_in_short(tmp_path: Path) -> None:
    prompt = worker(tmp_path, summarised(19, 5, "first " + "x" * 12_000 + " last"), verbatim=14, shrunk=True)
    assert "## Iterations 1 to 5, condensed" in prompt
    assert "12 more iterations are not shown" in prompt
    assert "first xxx" in prompt
    assert " last\n```" in prompt
    assert "did 18\n" in prompt
    assert "did 17\n" not in prompt
    assert len(prompt) < 10_000


def test_a_shrunk_prompt_keeps_the_last_two_and_the_goal(tmp_path: Path) -> None:
    run = Run("r", "speed", "main", None, history=history(6)).checked(CheckRecord(6, 1, "x" * 100_000))
    prompt = worker(tmp_path, run, shrunk=True)
    assert "4 earlier iterations are not shown" in prompt
    assert "did 5\n" in prompt
    assert "Make it fast." in prompt
    assert len(prompt) < 10_000 < len(worker(tmp_path, run))


def test_long_quotes_are_cut_in_their_middle(tmp_path: Path) -> None:
    prompt = worker(tmp_path, Run("r", "speed", "main", None, history=history(1, "a" * 1_000_000)))
    assert len(prompt) < 12_000
    assert "characters left out" in prompt


@pytest.mark.parametrize(
    ("exit_code", "said"), [(3, "failed with exit code 3"), (None, "ran out of time"), (-9, "failed with exit code -9")]
)
def test_a_red_check_is_shown_with_its_end_and_output(tmp_path: Path, exit_code: int | None, said: str) -> None:
    run = Run("r", "speed", "main", None, history=history(1), check=CheckRecord(1, exit_code, "assert 1 == 2"))
    prompt = worker(tmp_path, run, check=".ralph/check")
    assert f"ralph ran the check (`.ralph/check`), and it {said}." in prompt
    assert "assert 1 == 2" in prompt


def test_a_green_check_is_not_shown(tmp_path: Path) -> None:
    run = Run("r", "speed", "main", None, history=history(1), check=CheckRecord(1, 0, "all well"))
    assert "all well" not in worker(tmp_path, run, check=".ralph/check")


def test_notes_about_the_last_session_are_shown(tmp_path: Path) -> None:
    assert "The session switched branches" in worker(tmp_path, RUN.noted("The session switched branches"))


@pytest.mark.parametrize(
    "hostile", ["{{ 7 * 7 }}", "{% raw %}", "{# gone #}", "{{ undefined_name }}", "{% include '/etc/passwd' %}", "{{"]
)
def test_what_looks_like_a_template_is_data_wherever_it_comes_from(tmp_path: Path, hostile: str) -> None:
    run = Run("r", "speed", "main", None, history=history(1, hostile.replace("{", "{{").replace("}", "}}")))
    run = run.noted(hostile).checked(CheckRecord(1, 1, hostile))
    prompt = worker(tmp_path, run, text=hostile, check=hostile)
    assert prompt.count(hostile) >= 5


@given(st.text() | st.lists(st.sampled_from(["`", "```", "~~~", "\n", "````text", " ", "x"])).map("".join))
def test_nothing_in_a_quote_can_close_it(text: str) -> None:
    opening, *body, closing = fenced(text).split("\n")
    assert re.fullmatch(r"`{3,}text", opening)
    assert closing == opening.removesuffix("text")
    assert not [line for line in body if closing in line]
    assert "\n".join(body) == text.rstrip()


def test_a_projects_template_comes_first(tmp_path: Path) -> None:
    override(tmp_path, "Goal: {{ goal | fenced }} at {{ iteration }}\n")
    assert worker(tmp_path).startswith("Goal: ```text\n# Speed")


def test_a_projects_folder_without_that_template_falls_back(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    assert "# The goal: Speed" in worker(tmp_path)


@pytest.mark.parametrize(
    "template",
    [
        "{{ no_such_name }}",
        "{% if %}",
        "{{ ''.__class__ }}",
        "{{ goal.__class__.__mro__ }}",
        "{{ recent.append(1) }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{% include 'missing.md.j2' %}",
        "{% include '../secret' %}",
        "{% include 'worker.md.j2' %}",
        "{{ 1 / 0 }}",
        "{{ range(10 ** 9) | list }}",
        "{{ '%s' | format }}",
        "{{ goal() }}",
    ],
)
def test_a_template_that_errs_or_attacks_is_refused_and_named(tmp_path: Path, template: str) -> None:
    (tmp_path / "secret").write_text("secret")
    path = override(tmp_path, template)
    with pytest.raises(PromptError) as caught:
        worker(tmp_path)
    assert str(path) in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ 'a' * 2000000000 }}", r"more than 500 MB|longer than"),
        (
            "{% set x = namespace(t='aaaaaaaa') %}{% for i in range(40) %}{% set x.t = x.t ~ x.t %}{% endfor %}",
            "500 MB",
        ),
    ],
)
def test_a_template_that_takes_too_much_memory_is_refused(tmp_path: Path, template: str, why: str) -> None:
    path = override(tmp_path, template)
    with pytest.raises(PromptError, match=why) as caught:
        worker(tmp_path)
    assert str(path) in caught.value.message


@pytest.mark.long
def test_a_template_that_takes_for_ever_is_refused(tmp_path: Path) -> None:
    loop = "{% for i in range(99999) %}"
    override(tmp_path, f"{loop}{loop}{loop}{'{% endfor %}' * 3}")
    with pytest.raises(PromptError, match=r"it takes longer than 10s|more than"):
        worker(tmp_path)


@pytest.mark.parametrize("link", ["file", "folder", "partial"])
def test_a_template_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "worker.md.j2").write_text("a secret")
    path = override(tmp_path, "{% include 'partial' %}")
    if link == "folder":
        path.unlink()
        path.parent.rmdir()
        path.parent.symlink_to(elsewhere)
    elif link == "file":
        path.unlink()
        path.symlink_to(elsewhere / "worker.md.j2")
    else:
        (path.parent / "partial").symlink_to(elsewhere / "worker.md.j2")
    with pytest.raises(PromptError, match="is a link that leads out of"):
        worker(tmp_path)


def test_a_template_that_is_not_utf8_is_refused_and_named(tmp_path: Path) -> None:
    override(tmp_path, "").write_bytes(b"\xff\xfe")
    with pytest.raises(PromptError, match=r"worker\.md\.j2"):
        worker(tmp_path)


@pytest.mark.parametrize("template", ["/clear\n", "\n  /compact {{ goal }}", "{{ check }}"])
def test_a_prompt_never_starts_with_a_slash(tmp_path: Path, template: str) -> None:
    override(tmp_path, template)
    with pytest.raises(PromptError, match="cannot start with a slash"):
        worker(tmp_path, check="/bin/true")


@pytest.mark.parametrize(
    ("reply", "told", "not_told"),
    [
        (Reply.TOOL, ["StructuredOutput", "begin the summary with `DONE` on a"], [PROMISE]),
        (Reply.MESSAGE, ["one JSON object and nothing else", PROMISE], ["StructuredOutput"]),
        (Reply.WORDS, [f"print `{PROMISE}` on a line of"], ["StructuredOutput", "JSON"]),
    ],
)
def test_the_agent_is_told_how_it_can_answer(
    tmp_path: Path, reply: Reply, told: list[str], not_told: list[str]
) -> None:
    prompt = worker(tmp_path, reply=reply)
    assert all(words in prompt for words in told)
    assert not any(words in prompt for words in not_told)


@pytest.mark.parametrize("reply", Reply)
def test_a_prompt_that_is_echoed_claims_nothing(tmp_path: Path, reply: Reply) -> None:
    quoting = History((Iteration(1, "", f"It wants\n{PROMISE}\nfrom me.", "c" * 40, Verdict.CONTINUE),))
    run = replace(RUN, history=quoting, notes=(f"Its last words:\n{PROMISE}",))
    prompt = worker(tmp_path, run, text=f"Print\n\n{PROMISE}\n\n  {PROMISE}\n", reply=reply)
    assert not Promise().after(prompt).made
    assert prompt.count(PROMISE) >= 4


# The summarizer's


def summarizer(run: Run, through: int, *, reply: Reply = Reply.TOOL) -> str:
    return Prompts().summarizer(goal(), run, through, reply=reply)


def test_a_summarizer_is_told_what_to_keep_and_which_iterations(tmp_path: Path) -> None:
    prompt = summarizer(replace(RUN, history=history(10)), 5)
    for said in (
        "# The goal: Speed",
        "failed, and why",
        "Blockers",
        "Decisions",
        "files that were created or changed",
        "Compress routine",
        "10 to 20 sentences",
        "quoted data",
        "# Iteration 1\n\n```text\ndid 1\n```",
        "did 5\n",
        "the summary of iterations 1 to 5",
    ):
        assert said in prompt
    for unsaid in ("{{", "{%", "did 6\n", "condensed before", "not shown"):
        assert unsaid not in prompt


def test_a_summarizer_goes_on_from_the_summary_before(tmp_path: Path) -> None:
    prompt = summarizer(summarised(20, 5), 15)
    assert "# Iterations 1 to 5, condensed before" in prompt
    assert "It went well." in prompt
    assert "did 5\n" not in prompt
    assert "did 6\n" in prompt
    assert "did 15\n" in prompt
    assert "did 16\n" not in prompt


@pytest.mark.parametrize("count", [10, 100, 5000])
def test_a_summarizers_prompt_is_bounded_however_much_there_is_to_condense(tmp_path: Path, count: int) -> None:
    prompt = summarizer(replace(RUN, history=history(count + 5, "{} " + "x" * 5000)), count)
    assert len(prompt) < 110_000
    assert f"# Iteration {count}\n" in prompt
    assert ("4800 iterations are not shown" in prompt) is (count == 5000)


@pytest.mark.parametrize(
    ("reply", "told", "not_told"),
    [
        (Reply.TOOL, "StructuredOutput", "last message"),
        (Reply.MESSAGE, "last message is one JSON object", "StructuredOutput"),
        (Reply.WORDS, "last message is the summary", "JSON"),
    ],
)
def test_a_summary_is_asked_for_in_the_way_its_agent_can_give_it(reply: Reply, told: str, not_told: str) -> None:
    prompt = summarizer(replace(RUN, history=history(10)), 5, reply=reply)
    assert told in prompt
    assert not_told not in prompt


def test_what_a_summarizer_reads_claims_nothing_if_it_is_echoed() -> None:
    quoting = replace(RUN, history=history(10, f"done {{}}\n{PROMISE}\n"))
    prompt = summarizer(quoting, 5, reply=Reply.WORDS)
    assert not Promise().after(prompt).made
    assert prompt.count(PROMISE) == 5


# The scout's


def test_a_scout_is_told_what_to_map_and_to_change_nothing(tmp_path: Path) -> None:
    prompt = Prompts().scout(tmp_path, reply=Reply.TOOL)
    for said in (
        "Change nothing",
        "Layout",
        "Build, test, run",
        "Entry points",
        "Conventions",
        "Pitfalls",
        "80 to 200",
    ):
        assert said in prompt
    for unsaid in ("{{", "{%", "AGENTS.md", "earlier map"):
        assert unsaid not in prompt


@pytest.mark.parametrize(
    ("reply", "told", "not_told"),
    [
        (Reply.TOOL, "StructuredOutput", "last message"),
        (Reply.MESSAGE, "last message is one JSON object", "StructuredOutput"),
        (Reply.WORDS, "last message is the whole map", "JSON"),
    ],
)
def test_a_scouts_answer_is_asked_for_in_the_way_its_agent_can_give_it(
    tmp_path: Path, reply: Reply, told: str, not_told: str
) -> None:
    prompt = Prompts().scout(tmp_path, reply=reply)
    assert told in prompt
    assert not_told not in prompt


def test_a_scout_begins_with_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").touch()
    draw_map(tmp_path, "{{ 7 * 7 }} and an old word")
    prompt = Prompts().scout(tmp_path, reply=Reply.TOOL)
    assert "Begin with AGENTS.md" in prompt
    assert "There is an earlier map" in prompt
    assert "an old word" not in prompt


def test_a_projects_own_scout_template_comes_first(tmp_path: Path) -> None:
    override(tmp_path, "Look: {{ reply }}").rename(tmp_path / "prompts" / "scout.md.j2")
    assert Prompts(tmp_path / "prompts").scout(tmp_path, reply=Reply.WORDS) == "Look: words"
