"""Two real engines for a session: those of ``HEADWAY_TEST_ENGINES`` (URLs, commas between), else tiny local ones."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from headway.adapters.engines import OpenAIEngine, connect
from headway.adapters.replicas import Replica, down, listed, up


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def engine_urls() -> Iterator[list[str]]:
    """URLs of at least one engine; replicas that this session started go down with it."""
    given = [url.strip() for url in os.environ.get("HEADWAY_TEST_ENGINES", "").split(",") if url.strip()]
    if given:
        yield given
        return
    before = {r.url for r in listed()}
    replicas = up(2, announce=print)
    yield [r.url for r in replicas]
    down([r for r in replicas if r.url not in before])


@pytest.fixture
async def engine(engine_urls: list[str]) -> AsyncIterator[OpenAIEngine]:
    """One joined engine."""
    engine = connect(engine_urls[0])
    await engine.join(0)
    yield engine
    await engine.close()


@pytest.fixture
def doomed() -> Iterator[Replica]:
    """A replica of its own, to be killed."""
    [replica] = up(1, extra_args=["--max-num-seqs", "4"], announce=print)
    yield replica
    down([replica])
