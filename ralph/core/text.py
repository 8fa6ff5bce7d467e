"""Formatting of numbers, times, lists, quotes, fences and suggestions."""

import functools
import math
import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LEAST_DOLLARS, _MOST_DOLLARS, _MOST = 0.0001, 10**6, 10**12
"""A limit below or above is a typing mistake."""

_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def parse_duration(text: str) -> float:
    """Read `90s`, `30m`, `4h`, `1h30m`, `2d`; return seconds."""
    stripped = text.strip().lower()
    parts = _PART.findall(stripped)
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise ValueError(f"{text!r} is not a duration such as 90s, 30m, 4h or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is not a duration above zero")
    return seconds


def parse_money(text: str) -> float:
    """Read an amount in US dollars, with or without the sign."""
    try:
        amount = float(text.strip().removeprefix("$"))
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount) or amount <= 0:
        raise ValueError(f"{text!r} is not an amount of US dollars above zero")
    if not _LEAST_DOLLARS <= amount < _MOST_DOLLARS:
        raise ValueError(f"{text!r} is not an amount of US dollars between {_LEAST_DOLLARS} and {_MOST_DOLLARS:,}")
    return amount


def parse_count(text: str) -> int:
    """Read a whole number above zero; `_` may group digits."""
    try:
        number = int(text.strip())
    except ValueError:
        number = 0
    if number <= 0:
        raise ValueError(f"{text!r} is not a whole number above zero")
    if number > _MOST:
        raise ValueError(f"{text!r} is more than {_MOST:,}")
    return number


def format_duration(seconds: float) -> str:
    """Write seconds as `0.4s`, `12s`, `3m05s`, `1h02m`, `2d03h`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def lasting(seconds: float) -> str:
    """Write a running time in whole seconds, so that it doesn't flicker."""
    whole = max(0, int(seconds))
    return f"{whole}s" if whole < 10 else format_duration(whole)


def ago(seconds: float) -> str:
    """Write how long ago something was, in one unit."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= size:
            return f"{whole // size}{unit} ago"
    return f"{whole}s ago"


def format_money(amount: float) -> str:
    """Write dollars with cents, and small amounts with the digits that matter."""
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.4f}"


def format_size(size: int) -> str:
    """Write bytes as `512 B`, `29 KB`, `4.8 MB`, `1.2 GB`."""
    amount, unit = float(size), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}" if amount < 9.95 and unit not in ("B", "KB") else f"{amount:.0f} {unit}"


def timestamp(seconds: float) -> str:
    """Write an instant as ISO 8601 in UTC, to the millisecond."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # an agent may name an instant that no calendar has
        return f"{seconds:.0f} s after 1970"


def local_time(seconds: float, now: float) -> str:
    """Write an instant as a clock here shows it, with its zone; and with the day, if that is not today."""
    try:
        then, today = datetime.fromtimestamp(seconds).astimezone(), datetime.fromtimestamp(now).astimezone()
    except (ValueError, OverflowError, OSError):
        return timestamp(seconds)
    day = "" if then.date() == today.date() else "%Y-%m-%d "
    return then.strftime(f"{day}%H:%M:%S %Z")


def time_of_day(seconds: float) -> str:
    """Write the time of an instant as the clocks here show it, without day and zone."""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "--:--:--"


def local_minute(seconds: float) -> str:
    """Write an instant as a table shows it: day and minute, as the clocks here show them."""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return timestamp(seconds)


@functools.lru_cache(maxsize=100)  # what is read together has one stamp
def instant(stamp: str) -> float | None:
    """Read what `timestamp` writes, in seconds since 1970; None of what is no instant of any calendar, or any zone."""
    try:
        read = datetime.fromisoformat(stamp)
        return None if read.tzinfo is None else read.timestamp()
    except (ValueError, OverflowError):
        return None


def format_count(number: int) -> str:
    """Write a large number in three digits or so: `950`, `12.3k`, `1.20M`."""
    if number < 10_000:
        return f"{number:,}"
    for unit, size in (("k", 10**3), ("M", 10**6), ("G", 10**9)):
        if number < 999.5 * size:
            scaled = number / size
            return f"{scaled:.{0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2}f}{unit}"
    return f"{number / 10**12:.3g}T"


def format_clock(seconds: float) -> str:
    """Write the remaining time as `0:07`, `12:05`, `3:59:58`."""
    whole = max(0, math.ceil(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def few(names: Sequence[str], most: int) -> str:
    """Return the first names and the number of others: `a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def short_names(repos: Iterable[str]) -> dict[str, str]:
    """Repositories by the last part of their addresses, or by as many as tell them apart."""
    parts = {repo: _address_parts(repo) for repo in dict.fromkeys(repos)}
    short = dict.fromkeys(parts, 1)
    while True:
        names = {repo: "/".join(parts[repo][-count:]) or repo for repo, count in short.items()}
        taken = Counter(names.values())
        alike = [repo for repo, name in names.items() if taken[name] > 1 and short[repo] < len(parts[repo])]
        if not alike:
            return names
        short |= {repo: short[repo] + 1 for repo in alike}


def _address_parts(repo: str) -> list[str]:
    """Return the parts of an address, without user and password."""
    address = repo.rpartition("@")[2].rstrip("/").removesuffix("/.git").removesuffix(".git").replace(":", "/")
    return [part for part in address.split("/") if part]


def exit_words(exit_code: int) -> str:
    """How a process ended, by its exit code as subprocess has it: `exit 3`, `killed by signal 9`."""
    return f"exit {exit_code}" if exit_code >= 0 else f"killed by signal {-exit_code}"


@dataclass(slots=True)
class TextTail:
    """The last of a text that comes in pieces, about `most` characters of it. To join them each time would be slow."""

    most: int
    _pieces: deque[str] = field(default_factory=deque[str])
    _length: int = 0

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
        while self._length - len(self._pieces[0]) > self.most:
            self._length -= len(self._pieces.popleft())

    @property
    def text(self) -> str:
        """All pieces that are kept, each on lines of its own; from the start of a line where something is cut off."""
        said = "\n".join(self._pieces).strip()
        if len(said) <= self.most:
            return said
        tail = said[-self.most :]
        return "…\n" + (tail.partition("\n")[2] or tail)


def plural(number: int, noun: str) -> str:
    """`1 line`, `1,204 lines`: of nouns that take an s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_SENTENCE_END = re.compile(r"[.!?][\"')\]*_`]*(?=\s+[^a-z\s])")
_MARKUP = re.compile(r"(?:[>*+-]+|\d+[.)])\s+")
_UNPRINTABLE = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\(B|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069]"
)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text in Markdown, on one line and without its full stop."""
    lines = [line.strip() for line in _UNPRINTABLE.sub("", text).strip().splitlines()]
    prose = [line for line in lines if not line.startswith(("#", "```"))]
    if not any(prose):
        prose = [line.lstrip("# ") for line in lines]
    begun: list[str] = []
    for line in prose:
        if begun and (not line or _MARKUP.match(line)):
            break
        if line:
            bullet = None if begun else _MARKUP.match(line)
            begun.append(line[bullet.end() :] if bullet else line)
    joined = " ".join(" ".join(begun).split())
    end = _SENTENCE_END.search(joined)
    sentence = joined[: end.end()] if end else joined
    return sentence.removesuffix(".") if not sentence.endswith("..") else sentence


def shortened(text: str, most: int) -> str:
    """Cut a line to at most so many characters, between words where there is room for some."""
    if len(text) <= most:
        return text
    cut = text[: max(0, most - 1)]
    whole = cut.rpartition(" ")[0]
    return f"{whole if 2 * len(whole) > most else cut}…".strip()


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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint, ready to follow a message: the known word nearest to this one, if any is near."""
    import difflib  # only for who mistyped

    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
