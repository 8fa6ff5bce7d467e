"""The conversation of one session: each user message starts a turn of model replies and tool calls, until it ends."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from ralph.claude_cli.compaction import FULL, Compactor, Room
from ralph.claude_cli.history import SessionFile
from ralph.claude_cli.hooks import Hooks, HookVerdict, reminders
from ralph.claude_cli.instructions import Skill, expanded
from ralph.claude_cli.models.base import (
    FellBack,
    MessageEnd,
    ModelError,
    ModelReply,
    ModelRequest,
    ModelSaid,
    QuotaTold,
    Retrying,
    Started,
    Thinking,
    display_name,
)
from ralph.claude_cli.models.fallback import CalledOff, ModelChain, listen
from ralph.claude_cli.stdio import Stdin, UserMessage
from ralph.claude_cli.stream import (
    Stream,
    TurnEnd,
    answered,
    failed,
    finished,
    held_by_hook,
    interrupted,
    out_of_money,
    out_of_turns,
    turned_away,
    unanswered,
)
from ralph.claude_cli.toolbox import NUDGE, BudgetSpent, Done, Leaving, StructuredOutput, Toolbox, calls_of
from ralph.claude_cli.usage import SessionUsage
from ralph.core import ndjson
from ralph.core.usage import Tokens

Content = Sequence[Mapping[str, object]]

_EMPTY = "[Your previous response had no visible output. Please continue and produce a user-visible response.]"
_CUT_OFF = (
    "Output token limit hit. Resume directly — no apology, no recap of what you were doing. Pick up mid-thought if "
    "that is where the cut happened. Break remaining work into smaller pieces."
)
_MEANWHILE = "The user sent a new message while you were working:\n{text}\n\nAddress it as you continue this turn."
_MOST_RESUMPTIONS = 3
STOP_HOOKS_BLOCK = 8
"""Times that Stop hooks may keep a turn from ending, unless CLAUDE_CODE_STOP_HOOK_BLOCK_CAP says otherwise."""
_HELD_BACK = (
    "A hook blocked the turn from ending {times} consecutive times — overriding and ending turn. For "
    "Stop/SubagentStop hooks, check stop_hook_active in the input and return success while it's true. Set "
    "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP to raise this limit."
)
_WITHHELD = (
    "Your response above was stopped by a safety classifier — this is not a tool or API error. The rest of it was "
    "withheld, and tool calls in it that had not finished did not run. Do not produce that content again, even "
    "reworded."
)


class Dialogue:
    """A list of messages, begun by what the model should know beforehand; each is stored as it is said."""

    def __init__(self, record: SessionFile, preamble: Sequence[str] = ()) -> None:
        self._messages: list[tuple[str, list[Mapping[str, object]]]] = []
        self._preamble: list[Mapping[str, object]] = [{"type": "text", "text": text} for text in preamble]
        self._told: list[Mapping[str, object]] = []
        """What the model already got of the preamble."""
        self.record = record
        for role, content in record.past.messages:
            self._add(role, self._opened(role, content))

    def begun_alike(self) -> "Dialogue":
        """An empty one, begun by the same, and stored nowhere."""
        unstored = SessionFile(None, self.record.session_id, self.record.cwd)
        return Dialogue(unstored, [ndjson.text(block.get("text")) for block in (*self._told, *self._preamble)])

    def begin_again(self, summary: Mapping[str, object], kept: Content) -> None:
        """Put a summary in the place of all but what is kept."""
        self._messages = []
        messages: list[tuple[str, Content]] = [("user", [summary])]
        for message in kept:
            content = [ndjson.mapping(block) for block in ndjson.sequence(message["content"])]
            messages.append((ndjson.text(message["role"]), content))
        self._add("user", self._told)
        for role, content in messages:
            self._add(role, content)
        self.record.compacted(messages)

    def hear_user(self, content: Content) -> None:
        """Add what the user or a tool said."""
        self._add("user", self._opened("user", content))
        self.record.add("user", content)

    def take_up(self, messages: Sequence[tuple[str, Content]]) -> None:
        """Go on with the conversation of another stage."""
        for role, content in messages:
            if role == "assistant" and not self._messages:
                self.hear_user([_text("[Another agent began the conversation that follows.]")])
            self.hear_user(content) if role == "user" else self.hear_model(content)

    def prepare(self, texts: Sequence[str]) -> None:
        """Add to what goes ahead of the next message of the user."""
        self._preamble += [{"type": "text", "text": text} for text in texts]

    def hear_model(self, content: Content) -> None:
        """Add what the model said; a message without content never was one."""
        if content:
            self._add("assistant", content)
            self.record.add("assistant", content)

    def messages(self) -> list[Mapping[str, object]]:
        """All of it, for a request."""
        return [{"role": role, "content": list(content)} for role, content in self._messages]

    def _opened(self, role: str, content: Content) -> Content:
        """The content with what goes ahead of the user's first words."""
        if role != "user":
            return content
        opened = [*self._preamble, *content]
        self._told, self._preamble = [*self._told, *self._preamble], []
        return opened

    def _add(self, role: str, content: Content) -> None:
        # After an interrupt the user speaks twice in a row; to the API that is one message.
        if self._messages and self._messages[-1][0] == role:
            self._messages[-1][1].extend(content)
        else:
            self._messages.append((role, list(content)))


@dataclass(slots=True)
class Turn:
    """What one turn gathers."""

    verdict: StructuredOutput | None
    done: Done = field(default_factory=Done)
    asked: int = 0
    resumed: int = 0
    stop_reason: str | None = None
    latest: Tokens = field(default_factory=Tokens)
    """What the last request used."""

    compacted: bool = False
    """The conversation was shortened since the last reply."""

    in_tools: bool = False
    held_back: int = 0
    """Times that Stop hooks kept it from ending."""

    began: float = field(default_factory=time.monotonic)
    first_word: float | None = None
    listened: float = 0.0


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session: who is asked, what may be done, and what was said so far."""

    model: ModelChain
    toolbox: Toolbox
    dialogue: Dialogue
    account: SessionUsage
    inbox: Stdin
    system: Sequence[str]
    advise: Callable[[str], None]
    schema: Mapping[str, object] | None = None
    tries: int = 5
    most_asked: int | None = None
    most_dollars: float | None = None
    most_held_back: int = STOP_HOOKS_BLOCK
    room: Room = field(default_factory=Room)

    @property
    def stream(self) -> Stream:
        return self.toolbox.stream

    @property
    def hooks(self) -> Hooks:
        return self.toolbox.hooks

    def answer(self, message: UserMessage) -> TurnEnd:
        """Hold one turn, from its init to its result."""
        turn = Turn(StructuredOutput(self.schema, self.tries) if self.schema is not None else None)
        self.account.begin_turn()
        self.model.begin_turn()
        self.dialogue.prepare(self.toolbox.connect())
        self.stream.begin_turn()
        self.stream.replay(message)
        try:
            ended = self._let_in(message) or self._converse(turn)
        except CalledOff:
            ended = self._break_off(turn)
        except ModelError as error:
            self.stream.failure(error)
            if error.advice:
                self.advise(error.advice)
            ended = failed(error)
        figures = self.account.figures()
        self.dialogue.record.add_costs(figures)
        self.stream.result(ended, figures, _times(turn, ended), permission_denials=turn.done.denials)
        return ended

    def work(self, content: Content, turn: Turn) -> TurnEnd:
        """Hold one turn of a subagent: without init and result."""
        self.dialogue.hear_user(content)
        return self._converse(turn)

    def greet(self, source: str) -> None:
        """Run the hooks of a session's start; `source` is claude's word for how it started."""
        verdict = self.hooks.run("SessionStart", source, source=source)
        self.dialogue.prepare(reminders(verdict.contexts))

    def part(self) -> None:
        """Run the hooks of a session's end."""
        self.hooks.run("SessionEnd", reason="other")

    def _let_in(self, message: UserMessage) -> TurnEnd | None:
        """Add the message to the dialogue, if the hooks let it through."""
        verdict = self.hooks.run("UserPromptSubmit", prompt=message.text)
        self._notify(verdict)
        if verdict.blocks:
            block = verdict.blocks[0]
            said = f"UserPromptSubmit operation blocked by hook:\n{block.said}\n\nOriginal prompt: {message.text}"
            reason = {"reason": block.reason} if block.reason else {}
            return self._turn_away(said, {"kind": "blocked_by_hook", "prompt_kept": False, **reason})
        content = _expanded(message, self.toolbox.desk.skills)
        self.dialogue.hear_user([*content, *map(_text, reminders(verdict.contexts))])
        if verdict.stopped is not None:
            said = f"Operation stopped by hook: {verdict.stopped}" if verdict.stopped else "Operation stopped by hook"
            return self._turn_away(said, {"kind": "stopped_by_hook", "prompt_kept": True, "reason": verdict.stopped})
        return None

    def _turn_away(self, said: str, outcome: Mapping[str, object]) -> TurnEnd:
        fields: dict[str, object] = {"prevent_continuation": True, "prompt_submit_outcome": outcome}
        self.stream.system("informational", content=said, level="warning", **fields)
        return turned_away(said)

    def _notify(self, verdict: HookVerdict) -> None:
        for notice in verdict.notices:
            self.stream.system("informational", content=notice, level="notice")

    def _end(self, turn: Turn, ended: TurnEnd, words: str | None) -> TurnEnd | None:
        """Let the turn end as it is about to, or as Stop hooks want it; None: they want it to go on."""
        last = {} if words is None else {"last_assistant_message": words}
        verdict = self.hooks.run("Stop", stop_hook_active=turn.held_back > 0, **last)
        self._notify(verdict)
        if words is None:  # the structured output stands (2.1.325)
            return ended
        if verdict.stopped is not None:
            return held_by_hook("stop_hook_prevented", words, ended.stop_reason)
        if not verdict.blocks:
            return ended
        turn.held_back += 1
        feedback = [_text(f"Stop hook feedback:\n{block.said}") for block in verdict.blocks]
        self.stream.user(feedback, isSynthetic=True)
        self.dialogue.hear_user(feedback)
        if turn.held_back > self.most_held_back:
            said = _HELD_BACK.format(times=turn.held_back)
            self.stream.system("informational", content=said, level="warning")
            key = "stop-hook-block-cap"
            self.stream.system("notification", key=key, text=said, priority="high", color="warning")
            return held_by_hook("completed", "", ended.stop_reason)
        if turn.held_back == 1:
            said = "Stop hook error occurred · ctrl+o to see"
            self.stream.system("notification", key="stop-hook-error", text=said, priority="immediate")
        return None

    def _converse(self, turn: Turn) -> TurnEnd:
        """Ask the model and do what it calls for, until it has nothing left to call or a limit is reached."""
        while not self._is_out_of_money:
            reply = self._ask(turn)
            if self._is_out_of_money:
                break  # before any of its tools runs (2.1.325)
            if calls := calls_of(reply.blocks):
                turn.in_tools = True
                try:
                    self.toolbox.run(calls, turn.verdict, turn.done)
                except BudgetSpent:
                    break
                finally:
                    self._hand_over(turn)
                turn.in_tools = False
                if turn.verdict and turn.verdict.accepted:
                    ended = answered(turn.verdict.accepted[-1], reply.stop_reason)
                    return self._end(turn, ended, None) or ended
                if turn.verdict and turn.verdict.is_given_up:
                    return unanswered(turn.verdict.tries, turn.verdict.fault)
                if turn.done.is_stopped:
                    return held_by_hook("hook_stopped", "", reply.stop_reason)
            elif reminder := _reminder(reply, turn):
                self._remind(reminder, reply)
            elif ended := self._end(turn, finished(words := _last_words(reply), reply.stop_reason), words):
                return ended
            if turn.asked == self.most_asked:
                return out_of_turns(turn.asked, reply.stop_reason)
            for message in self.inbox.waiting():
                self.stream.replay(message)
                self.dialogue.hear_user([_text(_MEANWHILE.format(text=message.text))])
        return out_of_money(self.most_dollars or 0.0, turn.stop_reason)

    def _ask(self, turn: Turn) -> ModelReply:
        """Hear one message out, printing it block by block."""
        if self.room.is_short(messages := self.dialogue.messages(), self.model.traits):
            self._make_room(turn)
        elif self.room.is_full(messages, self.model.traits):
            raise FULL
        reply, start = ModelReply(), time.monotonic()
        turn.asked += 1
        self.stream.asking()
        try:
            self._hear_out(reply, turn)
        except (CalledOff, ModelError) as error:
            self.toolbox.desk.debug.tell("api", "no answer", **_kind(error))
            if reply.message_id:  # the API charges for what has begun; Claude Code forgets it (2.1.325)
                self.account.charge(self.model.current, reply.tokens, aside=self.stream.parent is not None)
            if not isinstance(error, ModelError) or error.terminal_reason != "prompt_too_long":
                raise
            if turn.compacted or not self._make_room(turn):
                raise
            turn.asked -= 1
            return self._ask(turn)
        turn.listened += time.monotonic() - start
        turn.stop_reason = reply.stop_reason
        turn.compacted = False
        self.room.count(reply.tokens)
        turn.latest = reply.tokens
        self.account.charge(self.model.current, reply.tokens, aside=self.stream.parent is not None)
        self.dialogue.hear_model(reply.blocks)
        return reply

    def _make_room(self, turn: Turn) -> bool:
        turn.compacted = True
        compactor = Compactor(self.room, self.model, self.stream, self.toolbox.desk.stop, self.account, self.system)
        return compactor.make_room(self.dialogue, self.toolbox.offers(turn.verdict))

    def _hear_out(self, reply: ModelReply, turn: Turn) -> None:
        model = self.model.name
        request = ModelRequest(self.system, self.dialogue.messages(), self.toolbox.offers(turn.verdict))
        tell = self.toolbox.desk.debug.tell
        tell("api", "request", model=model, messages=len(request.messages), tools=len(request.tools))
        for utterance in listen(self.model, request, self.toolbox.desk.stop):
            match utterance:
                case Started():
                    reply.message_id, model, reply.tokens = utterance.message_id, utterance.model, utterance.tokens
                    turn.first_word = turn.first_word or time.monotonic()
                    self.stream.message_started(reply.message_id, model, reply.tokens)
                case Thinking():
                    self.stream.thinking(utterance.characters)
                case ModelSaid():
                    reply.blocks.append(utterance.block)
                    self.stream.assistant(reply.message_id, model, utterance.block, reply.tokens)
                case MessageEnd():
                    reply.stop_reason, reply.tokens = utterance.stop_reason, utterance.tokens
                    self.stream.message_ended(reply.message_id, reply.stop_reason, reply.tokens)
                    tell("api", "answer", model=model, stop_reason=reply.stop_reason, **asdict(reply.tokens))
                case Retrying():
                    self.stream.retrying(utterance)
                    tell("api", "retry", **asdict(utterance))
                case QuotaTold():
                    self.stream.quota(utterance.info)
                case FellBack():
                    self.stream.fell_back(utterance)

    def _hand_over(self, turn: Turn) -> None:
        """Tell the model what its calls came to: every call must have its result, also when the turn breaks off."""
        done = turn.done
        self.dialogue.hear_user([*done.results, *map(_text, [*done.follow_ups, *done.contexts])])
        done.results, done.follow_ups, done.contexts = [], [], []

    def _remind(self, reminder: str, reply: ModelReply) -> None:
        about: dict[str, object] = {}
        if reminder is _WITHHELD:
            name = display_name(self.model.name)
            said = f"{name}'s safeguards stopped the response above · continuing once with that noted"
            self.stream.system("informational", content=said, level="notice")
            about = {"refused_message_id": reply.message_id}
        self.stream.user([_text(reminder)], isSynthetic=True, **about)
        self.dialogue.hear_user([_text(reminder)])

    def _break_off(self, turn: Turn) -> TurnEnd:
        if self.toolbox.leaving.is_set():
            raise Leaving
        self.toolbox.desk.stop.clear()  # before anybody hears of it: the next one is meant for the next turn
        said = _text(f"[Request interrupted by user{' for tool use' if turn.in_tools else ''}]")
        self.stream.user([said])
        self.dialogue.hear_user([said])
        return interrupted(in_tools=turn.in_tools)

    @property
    def _is_out_of_money(self) -> bool:
        spent = self.account.dollars
        if self.most_dollars is None or spent is None:
            return False
        return spent - self.account.before >= self.most_dollars


def _kind(error: CalledOff | ModelError) -> dict[str, object]:
    return {"error": error.error, "status": error.status} if isinstance(error, ModelError) else {"error": "called off"}


def _reminder(reply: ModelReply, turn: Turn) -> str:
    """What to say to a model that stopped where it should not; nothing when it may."""
    if reply.stop_reason == "refusal" and not turn.resumed:
        turn.resumed += 1
        return _WITHHELD
    if turn.verdict and not turn.verdict.nudged:
        turn.verdict.nudged = True
        return NUDGE
    if reply.stop_reason == "max_tokens" and turn.resumed < _MOST_RESUMPTIONS:
        turn.resumed += 1
        return _CUT_OFF
    if not reply.blocks and not turn.resumed:
        turn.resumed += 1
        return _EMPTY
    return ""


def _expanded(message: UserMessage, skills: Mapping[str, Skill]) -> Content:
    """The message with the command or skill that it starts with in its place."""
    if [block.get("type") for block in message.content] != ["text"]:
        return message.content
    return list(map(_text, expanded(message.text, skills)))


def _last_words(reply: ModelReply) -> str:
    texts = [ndjson.text(block.get("text")) for block in reply.blocks if block.get("type") == "text"]
    return texts[-1] if texts else ""


def _text(text: str) -> Mapping[str, object]:
    return {"type": "text", "text": text}


def _times(turn: Turn, ended: TurnEnd) -> dict[str, int]:
    """How long it took, in milliseconds; only a success tells when the first word came."""
    times = {"duration_ms": time.monotonic() - turn.began, "duration_api_ms": turn.listened}
    if turn.first_word is not None and not ended.is_error:
        first = turn.first_word - turn.began
        names = ("ttft_ms", "ttft_stream_ms", "time_to_request_ms", "first_content_frame_ms")
        times |= dict.fromkeys(names, first)
    return {name: int(seconds * 1000) for name, seconds in times.items()}
