"""A goal file: its name, its front matter, its sections; and every way in which it can be wrong."""

from pathlib import Path

import pytest

from ralph.core.errors import UsageError
from ralph.core.goal import Goal, goal_name, parse_goal
from tests.support.rows import rows

OBJECTIVE = "## Objective\n\nMake it fast.\n"


def read(text: str, name: str = "goal.md") -> Goal:
    return parse_goal(text, Path("/somewhere") / name)


def complaint(text: str, name: str = "goal.md") -> str:
    with pytest.raises(UsageError) as caught:
        read(text, name)
    return caught.value.message


@rows(
    ("stem", "name"),
    [
        ("goal", "goal"),
        ("Add Login", "add-login"),
        ("fix__the--bug!", "fix-the-bug"),
        ("-lead and trail-", "lead-and-trail"),
        ("café", "caf"),
        ("v1.2", "v1-2"),
        ("../../etc", "etc"),
        ("a" * 70, "a" * 64),
        ("a" * 63 + "-b", "a" * 63),
        ("目标", ""),
    ],
)
def test_a_name_is_a_slug_of_at_most_64(stem: str, name: str) -> None:
    assert goal_name(stem) == name


def test_a_file_name_without_letter_or_digit_is_refused() -> None:
    assert "needs at least one letter a-z" in complaint(OBJECTIVE, "目标.md")


def test_a_goal_without_front_matter_is_its_text() -> None:
    goal = read(f"# Speed\n\n{OBJECTIVE}\n## Acceptance\n\n- quick\n")
    assert (goal.name, goal.title, goal.front_matter) == ("goal", "Speed", {})
    assert goal.text == f"# Speed\n\n{OBJECTIVE}\n## Acceptance\n\n- quick\n"


def test_front_matter_is_taken_out_of_the_text() -> None:
    goal = read(f"---\nmodel: opus\npriority: 3\nafter: [one, two]\n---\n{OBJECTIVE}")
    assert goal.front_matter == {"model": "opus", "priority": 3, "after": ["one", "two"]}
    assert goal.text == OBJECTIVE


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff---\nmodel: opus\n---\n{OBJECTIVE}",
        f"---\nmodel: opus\n---\n{OBJECTIVE}".replace("\n", "\r\n"),
        f"--- \nmodel: opus\n---\t\n{OBJECTIVE}",
    ],
    ids=["byte order mark", "CRLF", "trailing blanks"],
)
def test_front_matter_is_found_whatever_wrote_the_file(text: str) -> None:
    goal = read(text)
    assert goal.front_matter == {"model": "opus"}
    assert goal.text.split() == OBJECTIVE.split()


@pytest.mark.parametrize("text", [f"---\n---\n{OBJECTIVE}", f"---\n# nothing yet\n---\n{OBJECTIVE}"])
def test_empty_front_matter_is_none(text: str) -> None:
    assert read(text).front_matter == {}


def test_a_rule_further_down_is_no_front_matter() -> None:
    goal = read(f"{OBJECTIVE}\n---\n\nmore\n\n---\n")
    assert goal.text == f"{OBJECTIVE}\n---\n\nmore\n\n---\n"


@rows(
    ("front_matter", "said"),
    [
        ("modell: opus", "unknown key `modell` (did you mean model?)"),
        ("zzz: 1", "unknown key `zzz`"),
        ("1: one", "unknown key `1`"),
        ("agent: codex\nmodel: x\nagent: claude", "`agent` is given twice"),
        ("- a\n- b", "the front matter has no `key: value` lines"),
        ("just words", "the front matter has no `key: value` lines"),
        ("a: [", ", line 3, column 1: cannot read the front matter: a bracket, brace or key is not closed"),
        ("title: a: b", ", line 2, column 9: cannot read the front matter: unexpected `:`"),
        ("title: 2026-02-30", "cannot read the front matter: invalid date"),
        ("title: !!python/object/apply:os.system ['true']", "cannot read the front matter: unknown tag"),
        ("title: [x]", "`title` must be text"),
        ("title: ' '", "`title` must be text"),
        ("repo: 5", "`repo` must be text"),
        ("branch: true", "`branch` must be text"),
        ("after: one", "`after` must be a list of goal names"),
        ("after: [1]", "`after` must be a list of goal names"),
        ("priority: true", "`priority` must be a whole number"),
        ("priority: 1.5", "`priority` must be a whole number"),
        ("merge: maybe", "`merge` must be direct, pr, branch or none"),
    ],
)
def test_a_fault_in_the_front_matter_names_file_and_key(front_matter: str, said: str) -> None:
    message = complaint(f"---\n{front_matter}\n---\n{OBJECTIVE}")
    assert message.startswith("/somewhere/goal.md")
    assert said in message


def test_all_faults_are_said_at_once() -> None:
    message = complaint(f"---\nmodle: x\nrepoo: y\npriority: high\nmerge: no\n---\n{OBJECTIVE}")
    assert [said in message for said in ("mean model?", "mean repo?", "`priority`", "`merge`")] == [True] * 4


@pytest.mark.parametrize("text", [f"---\nmodel: opus\n{OBJECTIVE}", f"---\nmodel: opus\n{OBJECTIVE}\n----\n\nmore\n"])
def test_front_matter_that_is_not_closed_is_refused(text: str) -> None:
    assert "no closing ---" in complaint(text)


@rows(
    "body",
    [
        "# Only a title\n\nwords\n",
        "# Objective\n\nwords\n",
        "### Objective\n\nwords\n",
        "##Objective\n\nwords\n",
        "## Objectives\n\nwords\n",
        "```\n## Objective\nwords\n```\n",
        "~~~~ md\n## Objective\n~~~\nwords\n~~~~\n",
        "```\n## Objective\n\nthe fence is never closed\n",
        "    ## Objective\n\n    words\n",
        "",
    ],
)
def test_without_an_objective_of_level_two_it_is_refused(body: str) -> None:
    assert "no `## Objective` section" in complaint(body)


@pytest.mark.parametrize("body", ["## Objective\n", "## Objective\n\n \n## Acceptance\n\n- x\n"])
def test_an_empty_objective_is_refused(body: str) -> None:
    assert "the `## Objective` section is empty" in complaint(body)


@pytest.mark.parametrize(
    "body",
    [
        "## objective\nwords\n",
        "## OBJECTIVE ##\nwords\n",
        "##\tObjective\nwords\n",
        "## Objective\n### part\nwords\n",
        "```\ncode\n```\n\n## Objective\nwords\n",
        "```x``` is how a span of code looks\n\n## Objective\nwords\n",
        "  ## Objective\nwords\n",
    ],
)
def test_an_objective_is_found(body: str) -> None:
    assert read(body).text.strip() == body.strip()


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (f"---\ntitle: From above\n---\n# From the text\n{OBJECTIVE}", "From above"),
        (f"# From the text #\n{OBJECTIVE}# Second\n", "From the text"),
        (f"```\n# in code\n```\n{OBJECTIVE}", "my-goal"),
        (OBJECTIVE, "my-goal"),
        (f"---\ntitle: |\n  two\n  lines\n---\n{OBJECTIVE}", "two lines"),
    ],
)
def test_the_title_is_the_front_matters_then_the_first_heading_then_the_name(text: str, title: str) -> None:
    assert read(text, "My goal.md").title == title


def test_goal_text_is_kept_as_it_is() -> None:
    text = OBJECTIVE + "\n{{ 7 * 7 }} $(id) `rm -rf /` <b>&amp;</b> \u2028 \t end\n"
    assert read(text).text == text
