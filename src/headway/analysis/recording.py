"""A simulated batch with a journal, so that everything which reads journals can read it."""

import os

import anyio

from headway.analysis.play import Played, play
from headway.analysis.simulate import Arm, Source, drawn
from headway.journal import Header, open_new
from headway.policies.presets import preset, with_seed
from headway.version import __version__


def record(source: Source, policy: str | Arm, path: str | os.PathLike[str], *, seed: int = 0) -> Played:
    """Play one batch and write its journal. Raises: ``ConfigError``, ``JournalError``."""
    if isinstance(policy, str):
        policies, limit = preset(policy)
    else:
        policies, limit = policy.policies, policy.limit
    batch = drawn(source, seed)
    header = Header(
        settings={"policy": policies.name, "seed": seed, "engines": batch.setting.engines},
        policy=policies.name,
        source={"kind": "simulated", "setting": batch.setting.name, "from": batch.setting.source},
        versions={"headway": __version__},
    )

    async def write() -> Played:
        journal = open_new(path, header)
        try:
            return play(batch, with_seed(policies, seed), limit=limit, record=journal.append)
        finally:
            await journal.close()

    return anyio.run(write)
