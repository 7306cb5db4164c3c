import pytest
import trio.testing


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def virtual() -> tuple[str, dict[str, object]]:
    """A loop whose time jumps ahead whenever everybody waits."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}
