"""What the user asks of a run: heard in order, kept until it is done, acknowledged by number."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ralph.core.guidance import Act, Guidance, Instruction, Receipt, Steering, StoppedBy
from ralph.core.run import Run
from ralph.state.inbox import Inbox


def steering(*acts: Act) -> Steering:
    words = [[Instruction(number, act) for number, act in enumerate(acts, 1)], []]
    made = Steering(lambda: words.pop(0))
    made.listen()
    return made


def test_a_pause_lasts_until_it_is_taken_back() -> None:
    assert steering(Act.PAUSE).paused
    assert not steering(Act.PAUSE, Act.RESUME).paused


def test_a_word_to_wake_ends_the_wait_it_was_meant_for_and_no_other() -> None:
    made = steering(Act.WAKE)
    assert made.roused
    made.begin_wait()
    made.listen()
    assert not made.roused


def test_a_word_to_stop_ends_every_wait() -> None:
    made = steering(Act.STOP)
    made.begin_wait()
    assert made.roused
    assert made.stopping


def test_a_stop_can_be_taken_back_and_it_is_known_whose_it_was() -> None:
    made = steering(Act.STOP, Act.CARRY_ON)
    assert not made.stopping
    assert not made.roused
    assert steering(Act.STOP).stopped_by is StoppedBy.COMMAND
    by_key = Steering(lambda: [Instruction(1, Act.STOP, by_key=True)])
    by_key.listen()
    assert by_key.stopped_by is StoppedBy.KEY


def test_what_is_told_is_handed_over_once() -> None:
    made = steering(Act.TELL, Act.PAUSE, Act.TELL)
    assert [word.number for word in made.take_told()] == [1, 3]
    assert made.take_told() == []


@pytest.mark.parametrize(
    "summary",
    ["guidance 3: done so", "As Guidance 3 asks, I …", "GUIDANCE #3 was heeded", "see guidance no. 3", "guidance  3."],
)
def test_a_summary_that_names_a_guidance_acknowledges_it(summary: str) -> None:
    assert Guidance(3, "x", told=1).receipt_in(summary, done=False) is Receipt.ACKNOWLEDGED


@pytest.mark.parametrize("summary", ["guidance 31: x", "guidance", "I did 3 things", "misguidance 3", "guidance 2: x"])
def test_a_summary_that_does_not_leaves_it_open(summary: str) -> None:
    assert Guidance(3, "x", told=1).receipt_in(summary, done=False) is Receipt.MISSING


def test_a_guidance_is_not_told_for_ever() -> None:
    assert Guidance(1, "x", told=2).receipt_in("no", done=False) is Receipt.MISSING
    assert Guidance(1, "x", told=3).receipt_in("no", done=False) is Receipt.DROPPED


def test_a_claim_acknowledges_only_what_it_names() -> None:
    assert Guidance(1, "x", told=1).receipt_in("Guidance 1: I did.", done=True) is Receipt.ACKNOWLEDGED
    assert Guidance(1, "x", told=1).receipt_in("DONE", done=True) is Receipt.DROPPED


# The inbox


def test_words_are_numbered_and_read_once(tmp_path: Path) -> None:
    box = Inbox(tmp_path)
    posted = [Inbox(tmp_path).post(Act.TELL, text, "now") for text in ("a", "zwei\nZeilen \ud800")]
    assert [(word.number, word.message) for word in posted] == [(1, 1), (2, 2)]
    assert [(word.number, word.act) for word in box.read()] == [(1, Act.TELL), (2, Act.TELL)]
    assert box.read() == []
    assert Inbox(tmp_path).post(Act.STOP, "", "now").number == 3
    assert box.read() == [Instruction(3, Act.STOP)]


def test_keys_and_commands_are_heard_by_every_reader_in_the_order_they_asked(tmp_path: Path) -> None:
    box = Inbox(tmp_path)
    other = box.for_another_reader()
    by_key = [box.post(act, "", "now", by_key=True) for act in (Act.STOP, Act.CARRY_ON)]
    Inbox(tmp_path).post(Act.STOP, "", "now")
    words = [Instruction(1, Act.STOP, by_key=True), Instruction(2, Act.CARRY_ON, by_key=True), Instruction(3, Act.STOP)]
    assert [word.number for word in by_key] == [1, 2]
    assert box.read() == other.read() == words


def test_messages_are_numbered_apart_from_other_requests(tmp_path: Path) -> None:
    acts = [Act.PAUSE, Act.TELL, Act.RESUME, Act.STOP, Act.TELL, Act.TELL]
    posted = [Inbox(tmp_path).post(act, "x", "now").message for act in acts]
    assert posted == [0, 1, 0, 0, 2, 3]
    assert [word.message for word in Inbox(tmp_path).read()] == posted
    assert [(word.number, word.message) for word in Inbox(tmp_path, heard=4).read()] == [(5, 2), (6, 3)]
    box = Inbox(tmp_path)
    box.read()
    Inbox(tmp_path).post(Act.TELL, "late", "now")
    assert [(word.number, word.message) for word in box.read()] == [(7, 4)]


def test_two_open_messages_never_share_a_number() -> None:
    """A run that an earlier ralph has begun counts all requests."""
    run = replace(Run("r", "speed", "main", None), guidance=(Guidance(4, "earlier"),))
    run = run.guided(Instruction(5, Act.TELL, "now", message=2)).guided(Instruction(6, Act.TELL, "later", message=3))
    assert [item.number for item in run.guidance] == [4, 5, 6]


def test_reading_goes_on_where_the_last_start_had_read_to(tmp_path: Path) -> None:
    for text in ("a", "b", "c"):
        Inbox(tmp_path).post(Act.TELL, text, "now")
    assert [word.text for word in Inbox(tmp_path, heard=2).read()] == ["c"]


def test_no_mailbox_is_an_empty_one(tmp_path: Path) -> None:
    assert Inbox(tmp_path / "nowhere").read() == []


def test_garbled_lines_are_passed_over(tmp_path: Path) -> None:
    Inbox(tmp_path).post(Act.TELL, "a", "now")
    with (tmp_path / "steering.jsonl").open("ab") as file:
        file.write(b'\xff{\n{"act": "dance"}\n[]\n{"act": "wa')
    box = Inbox(tmp_path)
    assert [word.text for word in box.read()] == ["a"]
    assert Inbox(tmp_path).post(Act.WAKE, "", "now").number == 6  # the torn line is closed, and is a line
    assert box.read() == [Instruction(6, Act.WAKE)]


def test_of_two_commands_at_once_each_gets_its_own_number(tmp_path: Path) -> None:
    numbers: list[int] = []

    def post() -> None:
        for _ in range(20):
            numbers.append(Inbox(tmp_path).post(Act.TELL, "x", "now").number)

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 81))
    assert [word.number for word in Inbox(tmp_path).read()] == list(range(1, 81))
