"""The environment of local commands: a private folder per trajectory, a fence around every command.

It executes and cleans up. How many run at once, how many instances live and how fast they are made is decided
elsewhere; every call here may come twice.
"""

import itertools
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from headway.adapters.environments import folders
from headway.adapters.environments.isolation import Bubblewrap, Isolation, Rlimits, Room, find_bubblewrap
from headway.adapters.environments.limits import Command, Limits
from headway.adapters.environments.place import Place, Rules
from headway.core.commands import GrantAction
from headway.core.units import EnvironmentId, TrajectoryId
from headway.errors import ConfigError, SandboxError

Fence = Literal["auto", "bubblewrap", "rlimits"]
Setup = Command | Callable[[Place, TrajectoryId], Awaitable[None]]

_log = logging.getLogger(__name__)
_USERS = (50_000, 10_000)  # when we are root, instances run as the user ids 50000 to 59999 in turn
_numbers = itertools.count()


class Sandbox:
    """Local processes as an environment. A place has ``await place.run(command)``; see ``Place``.

    Args:
        name: what actions ask for.
        limits: what one command may use.
        network: whether commands may use the network.
        fence: ``auto`` takes bubblewrap where it works, else rlimits with one warning; the others insist.
        setup: a command or an async function that prepares a new instance; part of its creation.
        env: variables for every command, beside the bare ones.
        readable: paths below a hidden place (home folders, ``/run``, ...) that commands may read.
        base: where private folders are made; the system's folder for temporary files when None.
    """

    def __init__(
        self,
        name: str,
        *,
        limits: Limits | None = None,
        network: bool = False,
        fence: Fence = "auto",
        setup: Setup | None = None,
        env: Mapping[str, str] | None = None,
        readable: Sequence[Path] = (),
        base: Path | None = None,
    ) -> None:
        self._id = EnvironmentId(name)
        self._limits, self._network, self._env = limits or Limits(), network, dict(env or {})
        self._fence, self._setup = fence, setup
        self._base = (base or Path(tempfile.gettempdir())).resolve()
        self._readable = tuple(path.resolve() for path in readable)
        self._owned: Path | None = None
        self._rules: Rules | None = None
        self._rooms: dict[TrajectoryId, Room] = {}
        self._creator: dict[TrajectoryId, GrantAction] = {}
        self._places: dict[GrantAction, Place] = {}
        self._locks: dict[TrajectoryId, anyio.Lock] = {}
        self._opening = anyio.Lock()

    @property
    def id(self) -> EnvironmentId:
        """The name that actions ask for."""
        return self._id

    async def check(self) -> None:
        """Find out whether commands can run here, before a batch begins. Raises: as ``enter``."""
        await self._open()

    async def enter(self, grant: GrantAction) -> Place:
        """Hand out the trajectory's place; an instance is made when there is none or ``create`` asks anew.

        Raises: ``SandboxError`` when an instance can't be made, ``ConfigError`` when this fence does not work here.
        """
        rules = await self._open()
        async with self._locks.setdefault(grant.trajectory, anyio.Lock()):
            if grant.create and self._creator.get(grant.trajectory) != grant:
                await self._destroy(grant.trajectory)
            if grant.trajectory not in self._rooms:
                self._rooms[grant.trajectory] = await self._create(grant.trajectory, rules)
                self._creator[grant.trajectory] = grant
            if grant not in self._places:
                self._places[grant] = Place(self._rooms[grant.trajectory], rules)
            return self._places[grant]

    async def leave(self, grant: GrantAction) -> None:
        """Stop what the action left running. Idempotent."""
        place = self._places.pop(grant, None)
        if place is not None:
            with anyio.CancelScope(shield=True):
                await place.end()

    async def release(self, trajectory: TrajectoryId) -> None:
        """Destroy the trajectory's instance: its processes and its folder. Idempotent."""
        with anyio.CancelScope(shield=True):
            async with self._locks.setdefault(trajectory, anyio.Lock()):
                await self._destroy(trajectory)
            self._locks.pop(trajectory, None)

    async def close(self) -> None:
        """Destroy every instance and the folder that held them."""
        with anyio.CancelScope(shield=True):
            for trajectory in list(self._rooms):
                await self.release(trajectory)
            async with self._opening:
                if self._owned is not None:
                    await anyio.to_thread.run_sync(folders.remove, self._owned)
                self._owned = self._rules = None

    async def _open(self) -> Rules:
        """First use: sweep what killed owners left, claim a folder, find out which fence works here."""
        async with self._opening:
            if self._rules is None:
                await anyio.to_thread.run_sync(folders.sweep, self._base)
                self._owned = self._owned or await anyio.to_thread.run_sync(folders.claim, self._base)
                isolation = await self._choose()
                self._rules = Rules(isolation, self._limits, self._network, self._env)
            return self._rules

    async def _choose(self) -> Isolation:
        if self._fence == "rlimits":
            return Rlimits()
        program = find_bubblewrap()
        reason = "bwrap is not installed"
        if program is not None:
            bubblewrap = Bubblewrap(program, self._base, self._readable)
            reason = await self._try(bubblewrap)
            if not reason:
                return bubblewrap
        if self._fence == "bubblewrap":
            raise ConfigError(
                f"bubblewrap does not work here: {reason}",
                where=f"environment {self._id}",
                hint="install the package bubblewrap, or choose the fence rlimits",
            )
        _log.warning("environment %s: no bubblewrap (%s): %s", self._id, reason, Rlimits.missing)
        return Rlimits()

    async def _try(self, isolation: Isolation) -> str:
        """Run ``true`` behind a fence. Returns what went wrong, empty when nothing."""
        room = await anyio.to_thread.run_sync(self._new_room)
        try:
            completed = await Place(room, Rules(isolation, self._limits)).run(["true"], timeout=30)
        except SandboxError as problem:
            return str(problem)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(folders.remove, room.folder)
        return "" if completed.exit_code == 0 else completed.stderr.strip() or f"exit code {completed.exit_code}"

    async def _create(self, trajectory: TrajectoryId, rules: Rules) -> Room:
        room = await anyio.to_thread.run_sync(self._new_room)
        try:
            await self._prepare(Place(room, rules), trajectory)
        except BaseException:  # cancelled or failed: a half-made instance is no instance
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(folders.remove, room.folder)
            raise
        return room

    async def _prepare(self, place: Place, trajectory: TrajectoryId) -> None:
        if self._setup is None:
            return
        if callable(self._setup):
            await self._setup(place, trajectory)
            return
        completed = await place.run(self._setup)
        if completed.exit_code != 0:
            end = "timed out" if completed.timed_out else f"exited with {completed.exit_code}"
            raise SandboxError(f"environment {self._id}: setup {end}: {completed.stderr.strip()[-500:]}")

    def _new_room(self) -> Room:
        assert self._owned is not None  # noqa: S101 - `_open` claimed it
        number = next(_numbers)
        user = _USERS[0] + number % _USERS[1] if os.geteuid() == 0 else None
        room = Room(self._owned / str(number), user)
        try:
            room.make()
        except OSError as problem:
            raise SandboxError(f"can't make {room.folder}: {problem.strerror}") from problem
        return room

    async def _destroy(self, trajectory: TrajectoryId) -> None:
        for grant in [grant for grant in self._places if grant.trajectory == trajectory]:
            await self._places.pop(grant).end()
        self._creator.pop(trajectory, None)
        room = self._rooms.pop(trajectory, None)
        if room is not None:
            await anyio.to_thread.run_sync(folders.remove, room.folder)
