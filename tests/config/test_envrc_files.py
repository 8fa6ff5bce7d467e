import os
from pathlib import Path

import pytest

from ralph.config.envrc_files import MISSING, Envrc, look
from tests.support.rows import rows


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "above" / "repo").mkdir(parents=True)
    return tmp_path / "above" / "repo"


def stands(root: Path, text: str, **files: str) -> Envrc:
    for name, content in {".envrc": text, **files}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return look(root, root.parent / "home")


@rows(
    "line",
    [
        "source lib",
        ". ./lib",
        'source "lib"',
        "source_env lib",
        "source_env_if_exists lib",
        "source $PWD/lib",
        'source "${PWD}/lib"',
        "dotenv lib",
        "dotenv_if_exists lib",
        "[ -f lib ] && source lib",
        "if true; then source lib; fi",
        "if true; then\n  source lib\nfi",
        "f() { source lib; }",
        "(source lib)",
        "export A=1; . lib",
        "export A=x#y; . lib",
        "source \\\n  lib",
        "export A=$(cat lib)",
        'export A="$(cat lib)"',
        "export A=`cat lib`",
        'eval "$(./lib --flag)"',
        "bash lib",
        "./lib && true",
        "X=1 ./lib",
        "diff <(cat lib) other",
        "source <(cat lib)",
        "sou\0rce l\0ib",
        "command . lib",
        "source sub",
        "source_env sub",
        "source_env sub/.envrc",
    ],
)
def test_a_file_that_it_reads_is_covered(root: Path, line: str) -> None:
    before = stands(root, line, lib="one", sub__inner="x", **{"sub__.envrc": "source ../lib"})
    after = stands(root, line, lib="two")

    assert set(after.changed_since(before.files)) == {"lib"}
    assert after.digest != before.digest


@pytest.mark.parametrize(
    "line", ["export DB=lib", "# source lib", "DB=lib", "PATH_add lib", "export A=1 # source lib", "watch_file lib"]
)
def test_a_file_that_it_only_names_is_not(root: Path, line: str) -> None:
    assert list(stands(root, line, lib="one").files) == [".envrc"]
    assert stands(root, line).unfollowed == ()


def test_files_are_followed_to_the_last(root: Path) -> None:
    envrc = stands(root, "source_env a", a="source b/c", b__c=". d", d="source a")

    assert {name for name, content in envrc.files.items() if content != MISSING} == {".envrc", "a", "b/c", "d"}


def test_a_nested_file_is_found_from_its_own_folder(root: Path) -> None:
    envrc = stands(root, "source_env sub/a", sub__a="source_env b", sub__b="export A=1")

    assert {name for name, content in envrc.files.items() if content != MISSING} == {".envrc", "sub/a", "sub/b"}


def test_wherever_a_nested_file_may_be_read_from_counts(root: Path) -> None:
    before = stands(root, "source sub/a", sub__a="source b", sub__b="export A=1")
    after = stands(root, "source sub/a", b="export A=2")  # bash reads this one: `source` stays where it is

    assert after.changed_since(before.files) == ["b"]


def test_what_is_not_there_counts_so_that_its_coming_is_a_change(root: Path) -> None:
    before = stands(root, "source_env_if_exists .private\ndotenv\nuse flake\n")
    assert [name for name, digest in before.files.items() if digest == MISSING] == [
        ".private",
        ".env",
        "flake.nix",
        "flake.lock",
    ]

    after = stands(root, (root / ".envrc").read_text(), **{".private": "export A=1"})
    assert after.changed_since(before.files) == [".private"]


def test_files_above_and_at_home_are_covered(root: Path) -> None:
    (root.parent.parent / ".envrc").write_text("export A=1")
    envrc = stands(root, "source_up\nsource ~/mine\nsource $HOME/yours\n")

    above, top = str(root.parent / ".envrc"), str(root.parent.parent / ".envrc")
    assert (envrc.files[above], envrc.files[top] == MISSING) == (MISSING, False)
    assert str(root.parent / "home" / "mine") in envrc.files
    assert str(root.parent / "home" / "yours") in envrc.files


@rows(
    ("line", "said"),
    [
        ("source $LIB/x.sh", "line 1 of .envrc (source)"),
        ("source_env *.sh", "line 1 of .envrc (source_env)"),
        ("source_url https://example.org/x sha256-abc", "line 1 of .envrc (source_url)"),
        ("use flake", "line 1 of .envrc (use flake)"),
        ("source <(vault s3cr3t)", "line 1 of .envrc (source)"),
        ("cd sub", "line 1 of .envrc (cd)"),
        ("layout python", "line 1 of .envrc (layout python)"),
        ("export A=$(vault get s3cr3t)", "line 1 of .envrc (a command in a value)"),
        ("\nvault s3cr3t", "line 2 of .envrc (vault)"),
        ("export A=\\\n1\nvault", "line 3 of .envrc (vault)"),
        ("S3CR3T=1 vault", "line 1 of .envrc"),
    ],
)
def test_what_cannot_be_followed_is_named_without_its_arguments(root: Path, line: str, said: str) -> None:
    assert stands(root, line).unfollowed == (said,)


def test_what_goes_on_over_lines_is_named(root: Path) -> None:
    assert stands(root, 'export A="one\ntwo"\n').unfollowed == ("line 1 of .envrc", "line 2 of .envrc")
    assert stands(root, "cat <<END\nEND\n").unfollowed[0] == "line 1 of .envrc"


def test_nothing_a_pipe_and_a_directory_are_told_apart(root: Path) -> None:
    none = look(root, root)
    assert (none.exists, none.unreadable, none.files) == (False, {}, {".envrc": MISSING})

    (root / ".envrc").mkdir()
    assert (look(root, root).exists, list(look(root, root).unreadable)) == (True, [".envrc"])
    assert look(root, root).obstacle == ".envrc is a directory"

    (root / ".envrc").rmdir()
    (root / ".envrc").symlink_to(".envrc")
    assert (look(root, root).exists, look(root, root).obstacle) == (True, ".envrc is a link that leads nowhere")

    (root / ".envrc").unlink()
    os.mkfifo(root / "pipe")
    assert list(stands(root, "source pipe").unreadable) == ["pipe"]
    assert look(root, root).obstacle == "pipe is not a regular file"


def test_too_many_files_are_said_to_be(root: Path) -> None:
    chain = {f"f{number}": f"source f{number + 1}" for number in range(200)}
    assert stands(root, "source f0", **chain).unfollowed == ("whatever comes after the first 100 files",)


@rows(
    "text",
    ["''", '"', "trap ''", "\\", "source", "a ''\n(((", "source_up x y", "\x00 \udcff", "<<", f"eval {'a' * 300}"],
)
def test_whatever_it_holds_it_can_be_looked_at(root: Path, text: str) -> None:
    (root.parent / "x").touch()  # `source_up x` looks no further up than here
    (root / ".envrc").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert not look(root, root).unreadable


@rows(
    "line",
    [
        "strict_env source ./lib",
        "unstrict_env dotenv lib",
        "strict_env unstrict_env . lib",
        "builtin source lib",
        "source -- lib",
        "export $(<lib)",
        "export $(< lib)",
        "while read -r line; do export $line; done < lib",
        "echo two backslashes \\\\\nsource lib",
        "# a comment goes on \\\nsource lib",
        "echo a # a comment goes on \\\nsource lib",
        "echo 'a # b'; source lib # it's a comment",
        "true>&2;source lib",
        "echo '\nsource lib",
    ],
)
def test_a_file_is_found_however_it_is_read(root: Path, line: str) -> None:
    assert set(stands(root, line, lib="export A=1").files) == {".envrc", "lib"}


def test_what_a_file_reads_that_is_read_in_a_roundabout_way_is_covered(root: Path) -> None:
    envrc = stands(root, "strict_env source ./a; builtin . ./b", a="source ./c", b="source ./d")
    assert list(envrc.files) == [".envrc", "a", "c", "b", "d"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PATH_add bin\nenv_vars_required A", "line 2 of .envrc (env_vars_required by PATH)"),
        ("PATH_add bin\nsource_env lib", "line 2 of .envrc (source_env by PATH)"),
        ("PATH_add $X\nstrict_env", "line 2 of .envrc (strict_env by PATH)"),
        ("path_add PATH bin\nMANPATH_add man", "line 2 of .envrc (MANPATH_add by PATH)"),
        ("export PATH=$PWD/bin:$PATH\nenv_vars_required A", "line 2 of .envrc (env_vars_required by PATH)"),
        ("PATH_add bin\nsource lib", "line 2 of .envrc (source by PATH)"),
    ],
)
def test_what_may_run_a_program_of_the_repository_s_is_named(root: Path, text: str, said: str) -> None:
    assert stands(root, text, lib="").unfollowed == (said,)


@pytest.mark.parametrize("text", ["PATH_add /usr/x\nenv_vars_required A", "PATH_add ~/bin\nstrict_env", "has x"])
def test_what_runs_the_user_s_own_programs_is_harmless(root: Path, text: str) -> None:
    assert stands(root, text).unfollowed == ()


def test_a_bare_name_that_bash_finds_on_path_is_named(tmp_path: Path, root: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "lib").write_text("")
    stands(root, "source lib\nsource ./lib\nsource other\n", lib="")

    assert look(root, root, f"/usr/bin:{tmp_path}/bin").unfollowed == ("line 1 of .envrc (source by PATH)",)
    assert look(root, root, "/usr/bin").unfollowed == ()


def test_what_is_too_long_to_be_read_is_covered_and_named(root: Path) -> None:
    text = "echo " + "x" * 300_000 + "\nsource lib\n"
    before = stands(root, "source ./long", long=text)
    after = stands(root, "source ./long", long=f"{text} ")

    assert before.unfollowed == ("everything in long: it is too long to analyse",)
    assert after.changed_since(before.files) == ["long"]
    assert (stands(root, text).unfollowed, look(root, root).text) == (
        ("everything in .envrc: it is too long to analyse",),
        text.encode(),
    )


def test_files_that_are_only_named_are_bounded_too(root: Path) -> None:
    text = "".join(f"dotenv f{number}\n" for number in range(200))
    envrc = stands(root, text)
    assert (len(envrc.files), envrc.unfollowed) == (100, ("whatever comes after the first 100 files",))


def test_one_that_is_larger_than_any_is_not_read(root: Path) -> None:
    assert stands(root, "#" * (2**20 + 1)).obstacle == ".envrc is larger than 1 MiB"
    assert stands(root, "#" * 2**20, lib="#" * 2**21).obstacle == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("export LD_LIBRARY_PATH=$PWD/lib", "line 1 of .envrc (what LD_LIBRARY_PATH loads)"),
        ("path_add LD_LIBRARY_PATH lib", "line 1 of .envrc (what LD_LIBRARY_PATH loads)"),
        ("BASH_ENV=./x", "line 1 of .envrc (what BASH_ENV loads)"),
    ],
)
def test_what_programs_load_is_not_covered(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / ".envrc").write_text(f"{line}\n")
    assert look(tmp_path, tmp_path).unfollowed == (said,)
