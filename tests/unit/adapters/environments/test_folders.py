import os
import subprocess
import sys

from headway.adapters.environments import folders


def test_start_time_tells_processes_apart():
    assert folders.start_time(os.getpid()) == folders.start_time(os.getpid())
    assert folders.start_time(os.getpid()) is not None
    assert folders.start_time(2**22 + 1) is None  # beyond the highest pid there is


def test_sweep_removes_what_dead_owners_left_and_nothing_else(base):
    mine = folders.claim(base)
    _, namespace, pid, started, tail = mine.name.split("-")
    dead = base / f"headway-{namespace}-{pid}-{int(started) + 1}-{tail}"
    elsewhere = base / f"headway-1-{pid}-{int(started) + 1}-{tail}"
    for folder in (dead, elsewhere, base / "headway-something", base / "other"):
        (folder / "inner").mkdir(parents=True)
    (base / f"headway-{namespace}-{pid}-{int(started) + 2}-link").symlink_to(base / "other")
    assert folders.sweep(base) == [dead]
    assert not dead.exists()
    for folder in (mine, elsewhere, base / "headway-something", base / "other"):
        assert folder.exists()
        folders.remove(folder)
    (base / f"headway-{namespace}-{pid}-{int(started) + 2}-link").unlink()


_CLAIM = """
import os, pathlib, sys
from headway.adapters.environments import folders
print(folders.claim(pathlib.Path(sys.argv[1])), flush=True)
os.kill(os.getpid(), 9)
"""


def test_folders_of_a_process_that_was_killed_are_swept(base):
    left = subprocess.run([sys.executable, "-c", _CLAIM, str(base)], capture_output=True, text=True, check=False)
    assert left.returncode == -9
    assert [str(path) for path in folders.sweep(base)] == [left.stdout.strip()]


def test_remove_opens_what_is_closed(base, monkeypatch):
    tree = base / "tree"
    (tree / "closed" / "inner").mkdir(parents=True)
    (tree / "closed" / "link").symlink_to("/etc")
    (tree / "closed").chmod(0)
    real, calls = folders.shutil.rmtree, []

    def refuse_once(path):  # root may delete anything, so the refusal is played
        calls.append(path)
        if len(calls) == 1:
            raise PermissionError(13, "Permission denied", str(path))
        real(path)

    monkeypatch.setattr(folders.shutil, "rmtree", refuse_once)
    folders.remove(tree)
    assert not tree.exists()
    monkeypatch.undo()
    folders.remove(tree)  # gone already: fine
