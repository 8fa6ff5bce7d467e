"""What goals are asked for: sources, what counts more, and everything that is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ralph.core.errors import UsageError
from ralph.queue.goals import MergeMode, Submission
from ralph.queue.manifest import Batch, Wishes, read_batch, read_manifest
from tests.support.git_repos import make_repo

NOTHING = Wishes()


def goal(place: Path, front_matter: str = "") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    head = f"---\n{front_matter}\n---\n" if front_matter else ""
    place.write_text(f"{head}# {place.stem.title()}\n\n## Objective\nDo it.\n")
    return place


def manifest(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def ask(*sources: Path, said: Wishes = NOTHING, here: Path, known: tuple[str, ...] = ()) -> Batch:
    return read_batch(sources, said, env=dict(os.environ), here=here, known=known)


def asked(*sources: Path, said: Wishes = NOTHING, here: Path, known: tuple[str, ...] = ()) -> list[Submission]:
    return list(ask(*sources, said=said, here=here, known=known).submissions)


def refusal(*sources: Path, said: Wishes = NOTHING, here: Path) -> str:
    with pytest.raises(UsageError) as refused:
        ask(*sources, said=said, here=here)
    return refused.value.message


def test_a_goal_file_is_for_the_repository_one_stands_in(repo: Path, tmp_path: Path) -> None:
    (repo / "sub").mkdir()
    file = goal(tmp_path / "goals" / "Add login.md", "title: Let people in\nbranch: login\nmodel: opus")

    (only,) = asked(file, here=repo / "sub")

    assert only == Submission(
        "add-login", "Let people in", file.read_text(), str(file), str(repo), (), 0, "login", None, {}, agent=""
    )


def test_a_directory_is_its_goals_without_the_readme(repo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "goals"
    for name in ("b.md", "a.md", "deeper/c.md", ".hidden.md"):
        goal(folder / name)
    (folder / "README.md").write_text("# What these are\n")
    (folder / "notes.txt").write_text("no goal\n")

    batch = ask(folder, here=repo)

    assert [submission.name for submission in batch.submissions] == ["a", "b"]
    assert batch.notes == (f"skipped {folder / 'README.md'}: it has no `## Objective` section",)


def test_a_readme_that_is_a_goal_is_one(repo: Path, tmp_path: Path) -> None:
    goal(tmp_path / "goals" / "README.md")
    assert [submission.name for submission in asked(tmp_path / "goals", here=repo)] == ["readme"]


def test_every_goal_that_cannot_be_read_is_named_at_once(repo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "goals"
    goal(folder / "a.md", "modle: opus")
    goal(folder / "b.md", "max_cost: much")
    goal(folder / "c.md")
    (folder / "d.md").write_text("# No goal\n")

    said = refusal(folder, tmp_path / "e.md", here=repo)

    assert "a.md: front matter: unknown key `modle` (did you mean model?)" in said
    assert "b.md: max_cost: 'much' is not an amount of US dollars above zero" in said
    assert "d.md: no `## Objective` section" in said
    assert "e.md: no such file" in said
    assert "c.md" not in said


@pytest.mark.parametrize("files", [{}, {"README.md": "# Nothing\n"}, {"a.txt": "x"}])
def test_a_directory_without_a_goal(files: dict[str, str], repo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "goals"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    assert refusal(folder, here=repo) == f"no goals in {folder}"


def test_a_directory_with_a_manifest_is_not_guessed_at(repo: Path, tmp_path: Path) -> None:
    goal(tmp_path / "goals" / "a.md")
    manifest(tmp_path / "goals" / "batch.toml", '[[goal]]\nfile = "a.md"\n')
    assert "has both a batch.toml and goals" in refusal(tmp_path / "goals", here=repo)


def test_a_manifest_says_what_its_goals_do_not(repo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    goal(folder / "goals" / "a.md")
    goal(folder / "goals" / "b.md", "model: opus\npriority: 3\nmerge: pr\nafter: [a]")
    file = manifest(
        folder / "batch.toml",
        f"""
        [defaults]
        repo = "{repo}"
        model = "haiku"
        max_cost = 2.5
        priority = 1
        merge = "branch"

        [[goal]]
        file = "goals/a.md"

        [[goal]]
        file = "goals/b.md"
        max_cost = 4
        merge = "none"
        """,
    )

    first, second = asked(file, here=tmp_path)

    assert (first.repo, first.priority, first.merge) == (str(repo), 1, MergeMode.BRANCH)
    assert first.settings == {"model": "haiku", "max_cost": "2.5"}
    assert (second.repo, second.priority, second.merge) == (str(repo), 3, MergeMode.NONE)
    assert second.settings == {"max_cost": "4"}  # its own model stays what its text says
    assert second.after == ("a",)


def test_a_manifest_crosses_goals_with_repositories(tmp_path: Path) -> None:
    repos = [make_repo(tmp_path / name, {"README.md": "x"}) for name in ("one", "two", "three")]
    for name in ("a", "b"):
        goal(tmp_path / f"{name}.md")
    file = manifest(
        tmp_path / "batch.toml",
        """
        [defaults]
        repos = ["one", "two"]
        [[goal]]
        file = "a.md"
        [[goal]]
        file = "b.md"
        after = ["a.md"]
        repos = ["two", "./three", "two"]
        """,
    )

    batch = asked(file, here=Path("/"))

    assert [(submission.name, submission.repo) for submission in batch] == [
        ("a", str(repos[0])),
        ("a", str(repos[1])),
        ("b", str(repos[1])),
        ("b", str(repos[2])),
    ]
    assert {submission.after for submission in batch if submission.name == "b"} == {("a",)}


def test_which_repository_counts(tmp_path: Path) -> None:
    for name in ("entry", "flag", "own", "defaults", "standing"):
        make_repo(tmp_path / name, {"README.md": "x"})
    place = tmp_path / "goals"
    goal(place / "silent.md")
    goal(place / "spoken.md", "repo: ../own")
    entries = '[[goal]]\nfile = "silent.md"\n[[goal]]\nfile = "spoken.md"\n'
    standing = tmp_path / "standing"

    def chosen(text: str, said: Wishes = NOTHING) -> list[str]:
        found = asked(manifest(place / "batch.toml", text), said=said, here=standing)
        return [Path(submission.repo).name for submission in found]

    flag = Wishes(repos=("../flag",))
    assert chosen(entries) == ["standing", "own"]
    assert chosen('[defaults]\nrepo = "../defaults"\n' + entries) == ["defaults", "own"]
    assert chosen('[defaults]\nrepo = "../defaults"\n' + entries, flag) == ["flag", "flag"]
    assert chosen(entries + 'repo = "../entry"\n', flag) == ["flag", "entry"]


def test_an_address_stays_as_it_is(tmp_path: Path) -> None:
    file = goal(tmp_path / "a.md")
    for address in ("https://example.org/o/r.git", "git@example.org:o/r", "ssh://example.org/o/r"):
        (only,) = asked(file, said=Wishes(repos=(address,)), here=tmp_path)
        assert only.repo == address


def test_the_command_line_counts_most_and_what_comes_first_adds_up(repo: Path, tmp_path: Path) -> None:
    goal(tmp_path / "a.md", "model: opus\npriority: 3\nmerge: pr\nafter: [one]")
    file = manifest(
        tmp_path / "batch.toml",
        '[[goal]]\nfile = "a.md"\nafter = ["two", "one"]\nmodel = "haiku"\npriority = 4\nmerge = "none"\n',
    )
    said = Wishes(after=("three",), priority=-1, merge=MergeMode.DIRECT, settings={"model": "sonnet"})

    (only,) = asked(file, said=said, here=repo, known=("one", "two", "three"))

    assert (only.settings, only.priority, only.merge) == ({"model": "sonnet"}, -1, MergeMode.DIRECT)
    assert only.after == ("three", "two", "one")


def test_all_faults_of_a_manifest_come_in_one_message(repo: Path, tmp_path: Path) -> None:
    file = manifest(
        tmp_path / "batch.toml",
        """
        [default]
        [defaults]
        repo = "x"
        repos = ["y"]
        agent = "clod"
        after = ["a"]
        [[goal]]
        fil = "a.md"
        [[goal]]
        file = "b.md"
        max_cost = "lots"
        max_iterations = true
        duration = "soon"
        reasoning = "hi"
        priority = "high"
        merge = "squash"
        after = "a"
        repos = []
        """,
    )
    said = refusal(file, here=repo)
    for fault in (
        "unknown table `default` (did you mean defaults?)",
        "[defaults]: use either `repo` or `repos`, not both",
        "[defaults]: agent: 'clod' is not one of",
        "[defaults]: unknown key `after`",
        "goal 1: `file` is missing",
        "goal 1: unknown key `fil` (did you mean file?)",
        "goal 2 (b.md): max_cost: 'lots' is not an amount of US dollars above zero",
        "goal 2 (b.md): max_iterations: must be a number or a string, not true",
        "goal 2 (b.md): duration: 'soon' is not a duration",
        "goal 2 (b.md): reasoning: 'hi' is not one of none, low, med, high",
        "goal 2 (b.md): priority: 'high' is not a whole number",
        "goal 2 (b.md): merge: 'squash' is not one of direct, pr, branch, none",
        "goal 2 (b.md): after: 'a' is not a list of strings",
        "goal 2 (b.md): repos: [] is not a list of strings",
    ):
        assert fault in said


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[[goal]\n", "invalid TOML"),
        ("", "no goals: write a"),
        ("goal = 3\n", "`goal` must be a list of tables"),
        ('defaults = "x"\n[[goal]]\nfile = "a.md"\n', "`defaults` must be a table"),
        ("[[goal]]\nfile = 3\n", "goal 1: file: 3 is not a string"),
    ],
)
def test_what_is_no_manifest(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_manifest(manifest(tmp_path / "batch.toml", text))
    assert fault in refused.value.message


def test_a_manifest_that_is_not_there(repo: Path, tmp_path: Path) -> None:
    assert "batch.toml: no such file" in refusal(tmp_path / "batch.toml", here=repo)


def test_names_that_cannot_be(repo: Path, tmp_path: Path) -> None:
    one, other = goal(tmp_path / "one" / "a.md"), goal(tmp_path / "other" / "A.md")
    assert refusal(one, other, here=repo).startswith(f"{one} and {other} have the same name, a, in the same repository")
    assert refusal(one, one, here=repo) == f"{one} is named twice"
    itself = goal(tmp_path / "b.md", "after: [b]")
    assert "b.md: the goal waits for itself" in refusal(itself, here=repo)
    lost = goal(tmp_path / "c.md", "after: [set-upp]")
    ready = goal(tmp_path / "set-up.md")
    assert "after set-upp: no such goal, here or in the queue (did you mean set-up?)" in refusal(lost, ready, here=repo)


def test_one_goal_in_two_repositories_is_two(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_repo(tmp_path / name, {"README.md": "x"})
    first = goal(tmp_path / "x" / "a.md", "repo: ../one")
    second = goal(tmp_path / "y" / "a.md", "repo: ../two")
    assert len(asked(first, second, here=tmp_path)) == 2


def test_a_repository_that_cannot_be(tmp_path: Path) -> None:
    file = goal(tmp_path / "goals" / "a.md")
    (tmp_path / "empty").mkdir()
    assert "a.md: no repository is set" in refusal(file, here=tmp_path)
    assert f"{tmp_path / 'nowhere'}: it is not a directory" in refusal(
        file, said=Wishes(repos=("nowhere",)), here=tmp_path
    )
    assert "empty: not a git repository" in refusal(file, said=Wishes(repos=("empty",)), here=tmp_path)


def test_a_bad_value_on_the_command_line_is_said_once(repo: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        goal(tmp_path / "goals" / f"{name}.md")
    said = refusal(tmp_path / "goals", said=Wishes(settings={"duration": "soon"}), here=repo)
    assert said.count("--duration: 'soon' is not a duration") == 1


def test_a_branch_that_cannot_be(repo: Path, tmp_path: Path) -> None:
    assert "'a b' is not a valid branch name" in refusal(goal(tmp_path / "a.md", "branch: a b"), here=repo)


def test_goals_that_wait_for_each_other(tmp_path: Path) -> None:
    repos = [str(make_repo(tmp_path / name, {"README.md": "x"})) for name in ("one", "two")]
    goal(tmp_path / "a.md", "after: [c]")
    goal(tmp_path / "b.md", "after: [a]")
    goal(tmp_path / "c.md", "after: [b]")
    files = [tmp_path / f"{name}.md" for name in "abc"]
    said = refusal(*files, said=Wishes(repos=(repos[0],)), here=tmp_path)
    assert said == "these goals wait for each other: a after c after b after a"
