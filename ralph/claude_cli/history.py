"""Sessions on disk: a file of JSON lines for each, in a folder for each working directory, as claude stores them.

A session of Claude Code's can be read as far as its lines are messages; a torn or strange line is skipped.
"""

import itertools
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ralph.claude_cli.flags import BadUsage
from ralph.claude_cli.settings import config_folder
from ralph.claude_cli.stream import VERSION
from ralph.core.ndjson import Malformed, decode, encode_line, mapping, sequence, text

Content = Sequence[Mapping[str, object]]

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LONGEST_NAME = 200
_USAGE = (
    "Error: --resume requires a valid session ID or session title when used with --print. Usage: claude -p --resume "
    "<session-id|title>"
)
_UNANSWERED = "[The call was interrupted: there is no result.]"


class NoSuchSession(Exception):
    """The session that should be resumed is not stored for this folder."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"No conversation found with session ID: {session_id}")
        self.session_id = session_id


@dataclass(frozen=True, slots=True)
class Past:
    """What was said before: by an earlier process of this session, or by the session it is a fork of."""

    messages: Sequence[tuple[str, Content]] = ()
    costs: Mapping[str, object] = field(default_factory=dict[str, object])
    title: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which session the flags ask for."""

    session_id: str
    """Empty: a new one."""

    resume: str | None
    """The id or title after --resume; None: there is no such flag."""

    continues: bool
    forks: bool
    persists: bool
    title: str


@dataclass(slots=True)
class SessionFile:
    """The file of one session, to which every message is added when it is said."""

    path: Path | None
    """None: nothing is stored."""

    session_id: str
    cwd: Path
    past: Past = Past()
    is_resumed: bool = False
    title: str = ""
    fault: OSError | None = None
    _last: str | None = None
    _begun: bool = False

    def add(self, role: str, content: Content) -> None:
        """Store one message."""
        if not content:
            return
        line_id = str(uuid.uuid4())
        self._write(
            {
                "parentUuid": self._last,
                "isSidechain": False,
                "type": role,
                "message": {"role": role, "content": [dict(block) for block in content]},
                "uuid": line_id,
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "userType": "external",
                "entrypoint": "sdk-cli",
                "cwd": str(self.cwd),
                "sessionId": self.session_id,
                "version": VERSION,
            }
        )
        self._last = line_id

    def add_costs(self, figures: Mapping[str, object]) -> None:
        """Store what the session has cost so far."""
        costs = {"totalCostUSD": figures.get("total_cost_usd"), "modelUsage": figures.get("modelUsage")}
        self._write({"type": "cost-state", "sessionId": self.session_id, **costs})

    def compacted(self, messages: Iterable[tuple[str, Content]]) -> None:
        """Store that all before is replaced by these messages."""
        self._write({"type": "system", "subtype": "compact_boundary", "sessionId": self.session_id})
        for role, content in messages:
            self.add(role, content)

    def _write(self, line: Mapping[str, object]) -> None:
        if self.path is None or self.fault is not None:
            return
        lines = [line]
        if not self._begun:
            self._begun = True
            if self.title:
                lines.insert(0, {"type": "custom-title", "customTitle": self.title, "sessionId": self.session_id})
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self.path.open("ab") as file:
                file.write(b"".join(map(encode_line, lines)))
        except OSError as error:
            self.fault = error


def open_record(wish: Wish, environment: Mapping[str, str], cwd: Path) -> SessionFile:
    """Return the record of the session that is asked for; raise BadUsage or NoSuchSession."""
    folder = _folder(environment, cwd)
    before = _wanted(wish, folder)
    past = _load(before) if before is not None else Past()
    goes_on = before is not None and not wish.forks
    session_id = before.stem if before is not None and goes_on else wish.session_id or str(uuid.uuid4())
    path = folder / f"{session_id}.jsonl"
    if not goes_on and path.exists():
        raise BadUsage(f"Error: Session ID {session_id} is already in use.")
    record = SessionFile(path if wish.persists else None, session_id, cwd, past, before is not None, wish.title)
    if before is not None and wish.forks:
        for role, content in past.messages:
            record.add(role, content)
    return record


def answered(messages: Iterable[tuple[str, Content]]) -> list[tuple[str, Content]]:
    """Give every call its result: the API refuses a conversation in which one is missing, or is about no call."""
    kept: list[tuple[str, Content]] = []
    open_calls: list[str] = []
    for role, content in _joined(messages):
        blocks = [
            block for block in content if block.get("type") != "tool_result" or block.get("tool_use_id") in open_calls
        ]
        if role == "user":
            results = {text(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"}
            blocks = [*_stand_ins(call for call in open_calls if call not in results), *blocks]
            open_calls = []
        elif open_calls:
            kept.append(("user", _stand_ins(open_calls)))
        if role == "assistant":
            open_calls = [text(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        if blocks:
            kept.append((role, blocks))
    if open_calls:
        kept.append(("user", _stand_ins(open_calls)))
    return kept


def _joined(messages: Iterable[tuple[str, Content]]) -> Iterator[tuple[str, Content]]:
    """One message for all that one side says in a row: a stream has an event for each block."""
    for role, said in itertools.groupby(messages, key=lambda message: message[0]):
        yield role, [block for _, content in said for block in content]


def spoken(record: Mapping[str, object]) -> tuple[str, Content] | None:
    """The message of a line of a session file or of a stream; None: it is no message of the conversation."""
    kind = record.get("type")
    if kind not in ("user", "assistant") or record.get("parent_tool_use_id") or record.get("isSidechain") is True:
        return None
    message = mapping(record.get("message"))
    if message.get("model") == "<synthetic>":
        return None
    content = message.get("content")
    said: Content = [{"type": "text", "text": content}] if isinstance(content, str) else _blocks(content)
    return (str(kind), said) if said else None


def _blocks(content: object) -> Content:
    known = ("text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result")
    return [mapping(block) for block in sequence(content) if mapping(block).get("type") in known]


def _stand_ins(calls: Iterable[str]) -> list[Mapping[str, object]]:
    return [{"type": "tool_result", "tool_use_id": call, "content": _UNANSWERED, "is_error": True} for call in calls]


def _folder(environment: Mapping[str, str], cwd: Path) -> Path:
    name = re.sub(r"[^A-Za-z0-9]", "-", str(cwd))
    if len(name) > _LONGEST_NAME:
        import hashlib

        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(str(cwd).encode('utf-8', 'replace')).hexdigest()[:12]}"
    return config_folder(environment) / "projects" / name


def _wanted(wish: Wish, folder: Path) -> Path | None:
    """The file of the session to go on with; None: there is none, and a new one begins."""
    if (wish.resume is not None or wish.continues) and wish.session_id and not wish.forks:
        raise BadUsage(
            "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified."
        )
    if wish.continues:
        return next(iter(_newest_first(folder)), None)
    if wish.resume is None:
        return None
    if not wish.resume:
        raise BadUsage(_USAGE)
    if _ID.fullmatch(wish.resume):
        path = folder / f"{wish.resume.lower()}.jsonl"
        if not path.is_file():
            raise NoSuchSession(wish.resume)
        return path
    for path in _newest_first(folder):
        if _load(path).title == wish.resume:
            return path
    said = f'Provided value "{wish.resume}" is not a UUID and does not match any session title.'
    raise BadUsage(f"{_USAGE}. {said}")


def _newest_first(folder: Path) -> list[Path]:
    found: list[tuple[int, Path]] = []
    for path in folder.glob("*.jsonl"):
        try:
            found.append((path.stat().st_mtime_ns, path))
        except OSError:
            continue
    return [path for _, path in sorted(found, reverse=True)]


def _load(path: Path) -> Past:
    messages: list[tuple[str, Content]] = []
    costs: Mapping[str, object] = {}
    title = ""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadUsage(f"Error: Cannot read the session {path}: {error.strerror}") from error
    for line in lines:
        record = _record(line)
        match record.get("type"):
            case "custom-title":
                title = text(record.get("customTitle"))
            case "cost-state":
                costs = mapping(record.get("modelUsage"))
            case "system" if record.get("subtype") == "compact_boundary":
                messages = []
            case _:
                if (message := spoken(record)) is not None:
                    messages.append(message)
    return Past(answered(messages), costs, title)


def _record(line: bytes) -> Mapping[str, object]:
    try:
        return mapping(decode(line.decode("utf-8", "replace"))) if line.strip() else {}
    except Malformed:
        return {}
