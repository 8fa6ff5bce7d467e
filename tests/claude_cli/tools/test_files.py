"""Read, Write and Edit on real files. The wordings were measured on Claude Code 2.1.325."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ralph.claude_cli.desk import Desk
from tests.claude_cli.conftest import Use

CURRENT = " (file state is current in your context — no need to Read it back)"


def test_read_numbers_the_lines_and_counts_the_one_after_the_last_newline(use: Use, here: Path) -> None:
    (here / "a.txt").write_text("one\ntwo\n")
    read = use("Read", file_path=str(here / "a.txt"))
    assert (read.content, read.is_error) == ("1\tone\n2\ttwo\n3\t", False)
    assert read.detail == {
        "type": "text",
        "file": {
            "filePath": str(here / "a.txt"),
            "content": "one\ntwo\n",
            "numLines": 3,
            "startLine": 1,
            "totalLines": 3,
        },
    }


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        ({"offset": 2, "limit": 1}, "2\ttwo"),
        ({"offset": "2"}, "2\ttwo\n3\tthree"),
        ({"limit": 2}, "1\tone\n2\ttwo"),
        ({"offset": 0}, "0\tone\n1\ttwo\n2\tthree"),
        (
            {"offset": 20},
            "<system-reminder>Warning: the file exists but is shorter than the provided offset (20). "
            "The file has 3 lines.</system-reminder>",
        ),
    ],
)
def test_read_shows_a_part(use: Use, here: Path, arguments: dict[str, object], content: str) -> None:
    (here / "a.txt").write_text("one\ntwo\nthree")
    assert use("Read", file_path="a.txt", **arguments).content == content


def test_read_of_an_empty_file_says_so(use: Use, here: Path) -> None:
    (here / "a.txt").touch()
    said = "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"
    assert use("Read", file_path="a.txt").content == said


def test_read_of_a_missing_file_names_the_directory_and_a_near_name(use: Use, here: Path) -> None:
    (here / "a.txt").touch()
    said = f"File does not exist. Note: your current working directory is {here}."
    nope = use("Read", file_path="nope.txt")
    assert (nope.content, nope.is_error, nope.detail) == (said, True, f"Error: {said}")
    assert use("Read", file_path="a.tx").content == f"{said} Did you mean a.txt?"


def test_read_refuses_what_is_no_text_file(use: Use, here: Path) -> None:
    os.mkfifo(here / "pipe")
    (here / "x.zip").write_bytes(b"PK\0")
    assert use("Read", file_path=str(here)).content == f"EISDIR: illegal operation on a directory, read '{here}'"
    assert "this path names a device" in use("Read", file_path="pipe").content
    assert "a binary .zip file" in use("Read", file_path="x.zip").content


def test_read_of_a_large_file_wants_a_part_or_a_yes(use: Use, here: Path) -> None:
    (here / "a.txt").write_text("abcdefghijklmnopqrstuvwxyz\n" * 12000)
    said = use("Read", file_path="a.txt").content
    assert said.startswith("File content (316.4KB) exceeds maximum allowed size (256KB). Use offset and limit")
    assert use("Read", file_path="a.txt", limit=3).content.count("\n") == 2
    assert use("Read", file_path="a.txt", allow_large=True).content.endswith("\n12001\t")


def test_read_shows_an_image(use: Use, here: Path) -> None:
    (here / "a.png").write_bytes(b"\x89PNG")
    read = use("Read", file_path="a.png")
    source = {"type": "base64", "data": "iVBORw==", "media_type": "image/png"}
    assert read.blocks == [{"type": "image", "source": source}]
    assert read.detail == {"type": "image", "file": {"base64": "iVBORw==", "type": "image/png", "originalSize": 4}}


def test_encodings_are_read_and_kept(use: Use, here: Path) -> None:
    (here / "bom.txt").write_bytes(b"\xef\xbb\xbfhi\r\nyou\r\n")
    (here / "wide.txt").write_bytes(b"\xff\xfe" + "hi\n".encode("utf-16-le"))
    assert use("Read", file_path="bom.txt").content == "1\thi\n2\tyou\n3\t"
    assert use("Read", file_path="wide.txt").content == "1\thi\n2\t"
    use("Edit", file_path="bom.txt", old_string="hi\nyou", new_string="ho\nyou")
    use("Edit", file_path="wide.txt", old_string="hi", new_string="ho")
    assert (here / "bom.txt").read_bytes() == b"\xef\xbb\xbfho\r\nyou\r\n"
    assert (here / "wide.txt").read_bytes() == b"\xff\xfe" + "ho\n".encode("utf-16-le")
    use("Write", file_path="bom.txt", content="new\n")
    assert (here / "bom.txt").read_bytes() == b"\xef\xbb\xbfnew\n"


def test_what_cannot_be_decoded_is_shown_and_never_written_back(use: Use, here: Path) -> None:
    (here / "latin.txt").write_bytes(b"caf\xe9\n")
    (here / "nul.txt").write_bytes(b"a\0b\n")
    assert use("Read", file_path="latin.txt").content.startswith("1\tcaf\ufffd\n2\t\n\n[This file is not valid UTF-8: ")
    assert "\n\n[This file has NUL bytes in its first 8 KB: " in use("Read", file_path="nul.txt").content
    assert use("Edit", file_path="latin.txt", old_string="ca", new_string="CA").is_error
    assert use("Write", file_path="nul.txt", content="x").is_error
    assert (here / "latin.txt").read_bytes() == b"caf\xe9\n"
    assert (here / "nul.txt").read_bytes() == b"a\0b\n"


def test_write_makes_a_file_and_its_folders(use: Use, here: Path) -> None:
    path = str(here / "deep" / "er" / "n.txt")
    wrote = use("Write", file_path=path, content="x")
    assert wrote.content == f"File created successfully at: {path}{CURRENT}"
    assert wrote.detail == {
        "type": "create",
        "filePath": path,
        "content": "x",
        "structuredPatch": [],
        "originalFile": None,
        "userModified": False,
    }
    assert Path(path).read_text() == "x"
    assert Path(path).stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_write_replaces_what_was_read_and_keeps_its_mode(use: Use, here: Path) -> None:
    path = here / "run.sh"
    path.write_text("one\ntwo\nthree\n")
    path.chmod(0o775)
    use("Read", file_path="run.sh")
    wrote = use("Write", file_path="run.sh", content="x")
    assert wrote.content == f"The file run.sh has been updated successfully.{CURRENT}"
    assert isinstance(wrote.detail, dict)
    assert wrote.detail["type"] == "update"
    assert wrote.detail["structuredPatch"] == [
        {
            "oldStart": 1,
            "oldLines": 3,
            "newStart": 1,
            "newLines": 1,
            "lines": ["-one", "-two", "-three", "+x", "\\ No newline at end of file"],
        }
    ]
    assert path.stat().st_mode & 0o777 == 0o775
    assert sorted(here.iterdir()) == [path]


def test_what_was_not_read_is_not_changed(use: Use, here: Path) -> None:
    (here / "a.txt").write_text("one\n")
    said = "File has not been read yet. Read it first before writing to it."
    for refused in (
        use("Write", file_path="a.txt", content="x"),
        use("Edit", file_path="a.txt", old_string="one", new_string="x"),
    ):
        assert (refused.content, refused.is_error) == (f"<tool_use_error>{said}</tool_use_error>", True)
        assert refused.detail == f"Error: {said}"
    assert (here / "a.txt").read_text() == "one\n"


def test_what_changed_since_it_was_read_is_not_overwritten(use: Use, here: Path) -> None:
    (here / "a.txt").write_text("one\n")
    use("Read", file_path="a.txt")
    (here / "a.txt").write_text("two\n")
    said = "File has been modified since read, either by the user or by a linter. Read it again before"
    assert said in use("Write", file_path="a.txt", content="x").content
    assert said in use("Edit", file_path="a.txt", old_string="one", new_string="x").content
    # The text that is wanted stands there all the same.
    assert not use("Edit", file_path="a.txt", old_string="two", new_string="2").is_error
    assert (here / "a.txt").read_text() == "2\n"


def test_a_touched_file_has_not_changed(use: Use, here: Path) -> None:
    (here / "a.txt").write_text("one\n")
    use("Read", file_path="a.txt")
    os.utime(here / "a.txt", (1, 1))
    assert not use("Write", file_path="a.txt", content="x").is_error


def test_write_refuses_a_directory(use: Use, here: Path) -> None:
    assert f"{here} is a directory, not a file." in use("Write", file_path=str(here), content="x").content


def test_write_into_a_file_as_if_it_were_a_folder(use: Use, here: Path) -> None:
    (here / "b.txt").touch()
    said = f"ENOTDIR: not a directory, {{}} '{here}/b.txt/x'"
    assert said.format("stat") in use("Write", file_path="b.txt/x", content="x").content
    assert said.format("stat") in use("Edit", file_path="b.txt/x", old_string="x", new_string="y").content
    assert use("Read", file_path="b.txt/x").content == said.format("open")


def test_a_patch_shows_leading_tabs_as_spaces(use: Use, here: Path) -> None:
    (here / "a.py").write_text("\t\tone\n\ttwo\ttabs\n")
    use("Read", file_path="a.py")
    edit = use("Edit", file_path="a.py", old_string="two", new_string="2")
    assert isinstance(edit.detail, dict)
    assert edit.detail["structuredPatch"][0]["lines"] == ["     one", "-  two\ttabs", "+  2\ttabs"]


def test_edit_replaces_the_only_match(use: Use, here: Path) -> None:
    path = str(here / "m.txt")
    Path(path).write_text("".join(f"l{n}\n" for n in range(40)))
    use("Read", file_path=path)
    edit = use("Edit", file_path=path, old_string="l5\n", new_string="L5\nL5b\n")
    assert edit.content == f"The file {path} has been updated successfully.{CURRENT}"
    assert isinstance(edit.detail, dict)
    assert list(edit.detail) == [
        "filePath",
        "oldString",
        "newString",
        "originalFile",
        "structuredPatch",
        "userModified",
        "replaceAll",
    ]
    lines = [" l2", " l3", " l4", "-l5", "+L5", "+L5b", " l6", " l7", " l8"]
    assert edit.detail["structuredPatch"] == [
        {"oldStart": 3, "oldLines": 7, "newStart": 3, "newLines": 8, "lines": lines}
    ]


def test_edit_wants_one_match(use: Use, here: Path) -> None:
    (here / "a.txt").write_text("aa\nbb\naa\n")
    use("Read", file_path="a.txt")
    many = use("Edit", file_path="a.txt", old_string="aa", new_string="cc").content
    assert many.startswith("<tool_use_error>Found 2 matches of the string to replace, but replace_all is false. ")
    assert many.endswith("the instance.\nString: aa</tool_use_error>")
    none = use("Edit", file_path="a.txt", old_string="zz", new_string="cc").content
    assert none == "<tool_use_error>String to replace not found in file.\nString: zz</tool_use_error>"
    same = use("Edit", file_path="a.txt", old_string="aa", new_string="aa").content
    assert "No changes to make: old_string and new_string are exactly the same." in same
    every = use("Edit", file_path="a.txt", old_string="aa", new_string="cc", replace_all=True)
    assert every.content == f"The file a.txt has been updated. All occurrences were successfully replaced.{CURRENT}"
    assert (here / "a.txt").read_text() == "cc\nbb\ncc\n"


def test_edit_of_a_part_that_was_read_says_that_the_rest_is_unknown(use: Use, here: Path) -> None:
    (here / "a.txt").write_text("one\ntwo\n")
    use("Read", file_path="a.txt", limit=1)
    edit = use("Edit", file_path="a.txt", old_string="one", new_string="1")
    assert edit.content == "The file a.txt has been updated successfully."
    assert isinstance(edit.detail, dict)
    assert edit.detail["contentNotInModelContext"] is True


def test_edit_with_nothing_to_replace_makes_a_file(use: Use, here: Path) -> None:
    assert not use("Edit", file_path="new/n.txt", old_string="", new_string="made\n").is_error
    assert (here / "new" / "n.txt").read_text() == "made\n"
    again = use("Edit", file_path="new/n.txt", old_string="", new_string="again\n").content
    assert "Cannot create new file - file already exists." in again
    assert "File does not exist." in use("Edit", file_path="q.txt", old_string="a", new_string="b").content


def test_edit_takes_a_line_away_with_its_end_and_a_models_trailing_spaces(use: Use, here: Path) -> None:
    (here / "a.py").write_text("one\ntwo\nthree\n")
    (here / "a.md").write_text("one\n")
    use("Read", file_path="a.py")
    use("Read", file_path="a.md")
    use("Edit", file_path="a.py", old_string="two", new_string="")
    use("Edit", file_path="a.py", old_string="three", new_string="3  \nx\t")
    use("Edit", file_path="a.md", old_string="one", new_string="1  ")
    assert (here / "a.py").read_text() == "one\n3\nx\n"
    assert (here / "a.md").read_text() == "1  \n"


def test_edit_sees_through_curly_quotes_and_keeps_them(use: Use, here: Path) -> None:
    (here / "a.txt").write_text("say “hi”, it’s me\n")  # noqa: RUF001 - curly on purpose
    use("Read", file_path="a.txt")
    use("Edit", file_path="a.txt", old_string='say "hi", it\'s', new_string='say "yo", it\'s')
    assert (here / "a.txt").read_text() == "say “yo”, it’s me\n"  # noqa: RUF001 - curly on purpose


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit"])
@pytest.mark.parametrize("path", ["/etc/hostname", "../outside.txt", "link.txt", "folder/new.txt"])
def test_nothing_outside_is_touched_links_followed(use: Use, here: Path, tool: str, path: str) -> None:
    outside = here.parent / "outside.txt"
    outside.write_text("secret\n")
    (here / "link.txt").symlink_to(outside)
    (here / "folder").symlink_to(here.parent)
    refused = use(tool, file_path=path, content="x", old_string="secret", new_string="x")
    verb = "read from" if tool == "Read" else "write to"
    at = os.path.normpath(here / path)
    assert refused.content.startswith(f"Claude requested permissions to {verb} {at}, but you haven't granted it yet.")
    assert ("resolves through a symlink" in refused.content) == (path in ("link.txt", "folder/new.txt"))
    assert outside.read_text() == "secret\n"
    assert not (here.parent / "new.txt").exists()


def test_a_link_that_stays_inside_is_written_through(use: Use, here: Path) -> None:
    (here / "a.txt").write_text("one\n")
    (here / "link.txt").symlink_to(here / "a.txt")
    use("Read", file_path="link.txt")
    use("Write", file_path="link.txt", content="two\n")
    assert (here / "link.txt").is_symlink()
    assert (here / "a.txt").read_text() == "two\n"


@pytest.mark.spec("4.1.6-f")
def test_an_added_folder_may_be_written_and_scratch_only_read(here: Path, desk: Desk, use: Use) -> None:
    added, scratch = here.parent / "added", here.parent / "scratch"
    added.mkdir()
    scratch.mkdir()
    (scratch / "kept.txt").write_text("kept")
    assert use("Write", file_path=str(added / "n.txt"), content="x").is_error
    desk.roots = Desk(here, environment={}, scratch=scratch, add_dirs=[added]).roots
    assert not use("Write", file_path=str(added / "n.txt"), content="x").is_error
    assert use("Read", file_path=str(scratch / "kept.txt")).content == "1\tkept"
    assert use("Write", file_path=str(scratch / "kept.txt"), content="x").is_error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
