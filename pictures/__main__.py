"""`make pictures`: records `make demo` and a batch of twelve goals, and writes both to docs/pictures."""

import socket
import sys
import tempfile
from pathlib import Path

from pictures import dozen
from pictures.recording import Frame, Press, record
from pictures.svg import film
from tests.support.messages_api import MessagesApi

_ROOT = Path(__file__).parent.parent
_PICTURES = _ROOT / "docs" / "pictures"
_BIN = Path(sys.executable).parent
_COLUMNS = 100


def demo(place: Path) -> list[Frame]:
    """`make demo`, as it is."""
    hidden = {str(_ROOT): "/home/you/ralph"}
    command = [_ROOT / "examples" / "demo" / "play", _BIN / "ralph"]
    return record(command, cwd=place, env=_env(place), columns=_COLUMNS, rows=30, hidden=hidden)


def batch(place: Path) -> list[Frame]:
    """Twelve goals: one is opened, one is stuck until somebody has told it what it cannot know."""
    manifest = dozen.lay_out(place)
    said = "keep the old column, stock_old is a copy"
    presses = [
        Press("jj", "g4 ", 5.0),
        Press("\r", "g4 ", 0.5),
        Press("\x1b", "Esc back", 6.0),
        Press("/", "needs you", 2.5),
        Press("stock\r", "filter:", 0.3),
        Press("t", "stock", 1.0),
        *(Press(letter, "stock", 0.05) for letter in said),
        Press("\r", said, 0.8),
        Press("r", "stock", 1.2),
        Press("\x1b", "stock", 1.5),
    ]
    host = socket.gethostname()
    hidden = {f"{host}:": "desk".ljust(len(host), "0")[: len(host)] + ":"}  # as long: what follows keeps its place
    with MessagesApi(dozen.Model()) as api:
        env = {**_env(place), "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "dummy"}
        command = [_BIN / "ralph-runs", "run", manifest, "--agent", "ralph-claude", "--merge", "direct", *_LIMITS]
        return record(command, cwd=place, env=env, columns=_COLUMNS, rows=30, presses=presses, hidden=hidden)


def _env(place: Path) -> dict[str, str]:
    """A world of its own: no setting, no key and no state of whoever makes the pictures."""
    return {
        "PATH": f"{_BIN}:/usr/local/bin:/usr/bin:/bin", "HOME": str(place), "RALPH_DIR": str(place / "state"),
        "TMPDIR": str(place), "LANG": "C.UTF-8", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    }  # fmt: skip


_LIMITS = ("--max", "4", "--max-cost", "5")

_FILMS = (
    ("demo", "make demo (slowed down five times: a script plays the model)", demo, 5.0),
    ("batch", "ralph-runs run batch.toml --max 4 (twice as fast)", batch, 0.5),
)


def main() -> None:
    _PICTURES.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[1:]
    for name, title, play, slower in _FILMS:
        if chosen and name not in chosen:
            continue
        with tempfile.TemporaryDirectory(prefix="ralph-") as place:
            frames = play(Path(place).resolve())
        (_PICTURES / f"{name}.svg").write_text(film(frames, _COLUMNS, 30, title, slower=slower))
        print(f"docs/pictures/{name}.svg: {len(frames)} frames, {frames[-1].at:.0f} s")


main()
