"""A queue worker's bulletin: put together from what its threads leave, and written where whoever watches finds it."""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from ralph.batch.gate import Gate
from ralph.core.text import instant
from ralph.queue.budget import Purse
from ralph.queue.news import Bulletin, Sight
from ralph.queue.store import Store
from ralph.queue.worker_state import Controls, Live

_PACE = 1.0
"""Seconds between two that are written: each is a transaction."""
_SIGN_OF_LIFE = 5.0
"""Seconds after which one is written also if nothing is new in it: who watches tells by it that the worker lives."""


class Posting:
    """What one queue worker tells of itself."""

    def __init__(
        self,
        store: Store,
        controls: Controls,
        gate: Gate,
        slots: int,
        purse: Purse,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._controls, self._gate = store, controls, gate
        self._slots, self._purse, self._now = slots, purse, now
        self._since = now()
        self._posted: tuple[float, Bulletin | None] = (0.0, None)

    def bulletin(self) -> Bulletin:
        """How things stand; any thread may ask."""
        waits, refused = self._gate.state()
        spent = self._purse.spent
        return Bulletin(
            at=self._now(),
            host=socket.gethostname(),
            pid=os.getpid(),
            since=self._since,
            slots=self._slots,
            budget=self._purse.budget,
            spent_usd=spent.cost_usd,
            spent_tokens=spent.tokens,
            seconds=self._purse.seconds,
            sights={number: _sight(live) for number, live in list(self._controls.live.items())},
            merging=tuple(self._controls.merging.copy()),
            waits=waits,
            refused=refused,
            cautions=tuple(self._controls.cautions),
            unseen=tuple(sorted(self._controls.unseen)),
            stopping=self._controls.ending,
        )

    def post(self) -> None:
        """Write it down, if there is something new in it or it is old; not more often than anybody looks."""
        at, last = self._posted
        now = self.bulletin()
        wait = _SIGN_OF_LIFE if last is not None and now == replace(last, at=now.at, seconds=now.seconds) else _PACE
        if last is not None and at <= now.at < at + wait:  # a clock that was set back holds nothing up
            return
        self._store.post(now)
        self._posted = (now.at, now)


def _sight(live: Live) -> Sight:
    stands = live.standing
    doing, since = stands.activity
    return Sight(
        doing=doing,
        since=(instant(since) if since else None) or live.started,
        until=stands.until,
        iteration=stands.iteration or 0,
        context_pct=stands.meter.context_pct,
        cost_usd=live.cost_usd,
        costed=live.cost_usd > 0 or stands.meter.total.costed,
        tokens=live.tokens,
        started=live.started,
        before=live.seconds,
    )
