"""Texts quoted: both ends of a long one, which say most about a failure, and a fence that nothing in it can close."""

import re

_HEAD = 3000
_TAIL = 5000


class Excerpt:
    """Takes in bytes without end and keeps the first and the last of them."""

    def __init__(self, head: int = _HEAD, tail: int = _TAIL) -> None:
        self._most_head, self._most_tail = head, tail
        self._head = b""
        self._tail = b""
        self._left_out = 0

    def feed(self, data: bytes) -> None:
        room = self._most_head - len(self._head)
        self._head += data[:room]
        tail = self._tail + data[room:]
        self._left_out += max(0, len(tail) - self._most_tail)
        self._tail = tail[max(0, len(tail) - self._most_tail) :]

    def text(self) -> str:
        """The text, with a line in its middle that tells how much is left out."""
        gap = f"\n[... {self._left_out} bytes left out ...]\n".encode() if self._left_out else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")


def both_ends(text: str, most: int) -> str:
    """Cut a text to about `most` characters, keeping both ends."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[len(text) - half :]}"


def fenced(text: str) -> str:
    """Quote a text so that nothing in it can close the quote."""
    fence = "```"
    if fence in text:
        fence = "`" * (1 + max(len(run) for run in re.findall(r"`+", text)))
    return f"{fence}text\n{text.rstrip()}\n{fence}"
