"""What an action of a sandbox holds: the right to run commands in its trajectory's private folder."""

from collections.abc import Mapping
from pathlib import Path

import anyio
import msgspec

from headway.adapters.environments.isolation import Isolation, Room
from headway.adapters.environments.limits import Command, Completed, Limits, words
from headway.adapters.environments.process import Launch, run_to_end
from headway.errors import SandboxError


class Rules(msgspec.Struct, frozen=True):
    """How commands run in a sandbox: what fences them in, what they may use and find."""

    isolation: Isolation
    limits: Limits
    network: bool = False
    env: Mapping[str, str] = {}


class Place:
    """Runs commands until its action is over."""

    def __init__(self, room: Room, rules: Rules) -> None:
        self._room, self._rules = room, rules
        self._running: dict[anyio.CancelScope, anyio.Event] = {}
        self._over = False

    @property
    def folder(self) -> Path:
        """The trajectory's private folder: where commands run, and where its files stay between actions."""
        return self._room.work

    async def run(
        self,
        command: Command,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit on the command, not on this call
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Completed:
        """Run a command and wait for the death of its last process.

        Args:
            command: a shell line, or a program and its arguments.
            timeout: seconds of wall-clock time, if fewer than the sandbox's limit.
            env: variables beside the bare ones (PATH, HOME, TMPDIR, LANG); ours are not inherited.
            stdin: what it can read on its standard input.

        Raises: ``SandboxError`` when it can't start, or its action is over before it is.
        """
        rules, room = self._rules, self._room
        launch = Launch(
            argv=rules.isolation.argv(room, words(command), rules.limits, network=rules.network),
            cwd=str(room.work),
            env={**rules.isolation.environment(room), **rules.env, **(env or {})},
            user=rules.isolation.user(room),
            seconds=rules.limits.seconds if timeout is None else min(timeout, rules.limits.seconds),
            output=rules.limits.output,
            stdin=stdin,
        )
        if self._over:
            raise SandboxError("the action is over: run commands inside its `async with` block")
        with anyio.CancelScope() as scope:
            gone = self._running[scope] = anyio.Event()
            try:
                return await run_to_end(launch, rules.isolation)
            finally:
                del self._running[scope]
                gone.set()
        raise SandboxError("the action ended before its command did")

    async def end(self) -> None:
        """Stop what runs here and refuse what comes; return when no process is left. Idempotent."""
        self._over = True
        running = list(self._running.items())
        for scope, _ in running:
            scope.cancel()
        for _, gone in running:
            await gone.wait()
