"""What git's complaints about a remote mean: wait for it, or have the user look."""

from __future__ import annotations

import pytest

from ralph.queue.repos.remote import Unreachable, Upstream, beside

_SSH = "\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\n"
UPSTREAM = Upstream("https://me:sesame@example.org/owner/repo")


@pytest.mark.parametrize(
    ("complaints", "said"),
    [
        ("fatal: unable to access 'https://x/': Could not resolve host: x", "Could not resolve host"),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 503", "error: 503"),
        (f"ssh: connect to host x port 22: Connection timed out{_SSH}", "port 22: Connection timed out"),
        ("fatal: the remote end hung up unexpectedly", "hung up"),
        ("fatal: unable to connect to x:\nx[0: 127.0.0.1]: errno=Connection refused", "unable to connect"),
        ("git did not answer in 3600 s", "did not answer"),
    ],
)
def test_what_may_pass_is_waited_for(complaints: str, said: str) -> None:
    fault = UPSTREAM.fault("fetch from", complaints)
    assert isinstance(fault, Unreachable)
    assert said in fault.message


@pytest.mark.parametrize(
    ("complaints", "said"),
    [
        ("fatal: Authentication failed for 'https://me:sesame@example.org/owner/repo/'", "Authentication failed"),
        ("fatal: could not read Username for 'https://x': terminal prompts disabled", "terminal prompts disabled"),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 403", "error: 403"),
        (f"git@x: Permission denied (publickey).{_SSH}", "Permission denied (publickey)"),
        (f"Host key verification failed.{_SSH}", "Host key verification failed"),
        ("error: bad config", "bad config"),
        ("", "git said nothing"),
    ],
)
def test_what_will_not_pass_is_the_users(complaints: str, said: str) -> None:
    fault = UPSTREAM.fault("fetch from", complaints)
    assert not isinstance(fault, Unreachable)
    assert said in fault.message
    assert fault.message.startswith("cannot fetch from https://example.org/owner/repo: ")
    assert "sesame" not in fault.message + fault.hint


@pytest.mark.parametrize(
    ("address", "relative", "found"),
    [
        ("https://example.org/owner/app.git", "../lib.git", "https://example.org/owner/lib.git"),
        ("https://example.org/owner/app/", "../../other/lib/", "https://example.org/other/lib"),
        ("git@example.org:owner/app", "../lib", "git@example.org:owner/lib"),
        ("git@example.org:app", "../lib", "git@example.org:lib"),
        ("/srv/git/app", "./lib", "/srv/git/app/lib"),
        ("/srv/git/app", "./../lib", "/srv/git/lib"),
    ],
)
def test_a_relative_address_leads_where_git_would_go(address: str, relative: str, found: str) -> None:
    assert beside(address, relative) == found
