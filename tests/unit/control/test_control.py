"""The control socket: private, one line each way, and never the reason why a batch fails."""

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from headway.adapters.control import Order, listening, send, socket_path
from headway.errors import ConfigError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hw-") as runtime:  # short: a socket's path must be
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield tmp_path / "run.headway"


class Obedient:
    def __init__(self) -> None:
        self.orders: list[Order] = []

    async def __call__(self, order: Order) -> None:
        self.orders.append(order)
        if order.argument == "impossible":
            raise ConfigError("that can't be done")


async def test_orders_are_carried_out_or_refused(journal: Path) -> None:
    obey = Obedient()
    async with listening(journal, obey):
        await send(journal, Order("pause"))
        with pytest.raises(ConfigError, match="that can't be done"):
            await send(journal, Order("cancel", "impossible"))
    assert obey.orders == [Order("pause"), Order("cancel", "impossible")]
    assert not socket_path(journal).exists()


async def test_nobody_listens(journal: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        await send(journal, Order("pause"))
    assert str(caught.value) == f"{journal}: no batch is running on this journal"


async def test_a_socket_that_a_dead_process_left_is_replaced(journal: Path) -> None:
    socket_path(journal).parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path(journal)))
    obey = Obedient()
    async with listening(journal, obey):
        await send(journal, Order("resume"))
    assert obey.orders == [Order("resume")]


@pytest.mark.parametrize("noise", [b"", b"half a li", b"nonsense\n", b'{"verb":"explode"}\n', b"x" * 70_000])
async def test_noise_disturbs_nobody(journal: Path, noise: bytes) -> None:
    obey = Obedient()
    async with listening(journal, obey):
        async with await anyio.connect_unix(socket_path(journal)) as stream:
            if noise:
                await stream.send(noise)
            if noise.endswith(b"\n"):
                assert b'"error":"' in await stream.receive()
        await send(journal, Order("pause"))
    assert obey.orders == [Order("pause")]


@pytest.mark.parametrize("reply", [b"", b"nonsense\n"])
async def test_a_batch_that_ends_before_it_answers(journal: Path, reply: bytes) -> None:
    socket_path(journal).parent.mkdir(mode=0o700, exist_ok=True)
    listener = await anyio.create_unix_listener(socket_path(journal))

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            if reply:
                await stream.send(reply)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        with pytest.raises(ConfigError, match="the batch ended before it answered"):
            await send(journal, Order("pause"))
        tasks.cancel_scope.cancel()


async def test_the_socket_is_the_users_own(journal: Path) -> None:
    async with listening(journal, Obedient()):
        path = socket_path(journal)
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("trouble", ["open to all", "a file", "no such folder"])
async def test_where_no_socket_can_be_the_batch_runs_all_the_same(
    journal: Path, trouble: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = socket_path(journal).parent
    runtime = folder.parent / trouble.replace(" ", "-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    folder = socket_path(journal).parent
    if trouble != "no such folder":
        runtime.mkdir(exist_ok=True)
        folder.touch(0o600) if trouble == "a file" else folder.mkdir(mode=0o755, exist_ok=True)
    async with listening(journal, Obedient()):
        pass
    [record] = caplog.records
    assert record.getMessage().startswith(f"{journal} can't be steered from outside: ")
