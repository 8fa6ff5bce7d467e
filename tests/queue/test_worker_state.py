"""Which accounts are held back, until when."""

from ralph.queue.worker_state import AccountGate


def test_an_account_waits_until_its_limit_resets_and_no_other_does() -> None:
    now = [100.0]
    gate = AccountGate(lambda: now[0])
    assert gate.wait_for("claude", 200.0)
    assert "claude" in gate.state()[0]
    assert "codex" not in gate.state()[0]
    now[0] = 200.0
    assert "claude" not in gate.state()[0]


def test_only_the_first_of_many_who_meet_a_limit_brings_news() -> None:
    gate = AccountGate(lambda: 100.0)
    assert [gate.wait_for("claude", until) for until in (200.0, 200.0, 205.0)] == [True, False, False]


def test_someone_who_is_away_is_told_once_of_an_account_until_it_goes_on() -> None:
    gate = AccountGate(lambda: 100.0)
    assert [gate.tell_once(account) for account in ("claude", "claude", "codex")] == [True, False, True]
    gate.goes_on("claude")
    assert [gate.tell_once(account) for account in ("claude", "codex")] == [True, False]


def test_a_later_reset_counts_and_an_earlier_one_does_not() -> None:
    now = [100.0]
    gate = AccountGate(lambda: now[0])
    gate.wait_for("claude", 205.0)
    gate.wait_for("claude", 150.0)
    now[0] = 204.0
    assert "claude" in gate.state()[0]


def test_a_blocked_account_is_free_when_the_user_has_that_goal_tried_again() -> None:
    gate = AccountGate(lambda: 0.0)
    gate.block("claude", 7)
    gate.unblock_for({1, 2})
    assert gate.blocked_by("claude") == 7
    gate.unblock_for({7})
    assert gate.blocked_by("claude") is None
