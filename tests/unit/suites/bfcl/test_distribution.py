import subprocess
import sys

import pytest

from headway.errors import BoundaryError, ConfigError
from headway.suites.bfcl import distribution as module
from headway.suites.bfcl.distribution import activate, cache_folder, install, installed


def test_it_is_fetched_once_without_its_dependencies(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not installed()
    folder = install()
    assert folder == cache_folder() == tmp_path / "headway" / f"bfcl-{module.VERSION}"
    assert installed()
    names = {path.name for path in folder.iterdir()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"bfcl_eval", "mpmath"}
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "nothing half-made stays"
    monkeypatch.setattr(module, "_fetch", None)  # a second call fetches nothing
    assert install() == folder


def test_the_suite_imports_no_heavy_package():
    program = (
        "import sys; from headway.suites.bfcl import *; from headway.suites.bfcl.score import judge\n"
        "task = load_tasks(ids=['multi_turn_base_0'])[0]\n"
        "assert judge(task, tuple(tuple((c,) for c in t.official) for t in task.turns)).valid\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'numpy', 'openai', 'bfcl_eval'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "['bfcl_eval']\n", done.stderr


def test_a_fetch_that_fails_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(BoundaryError, match=r"can't fetch bfcl-eval 2026.3.23: ERROR: .*bfcl-eval") as caught:
        install()
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "headway").iterdir()) == []


def test_a_wrong_hash_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "_PINS", ("mpmath==1.3.0 --hash=sha256:" + "0" * 64,))
    with pytest.raises(BoundaryError, match="can't fetch"):
        install()


def test_without_pip_uv_does_it_and_without_both_it_says_so(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/bin/{name}")
    assert module._client()[:3] == ["/bin/uv", "pip", "install"]
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    with pytest.raises(ConfigError, match="neither pip nor uv"):
        module._client()


def test_two_installers_at_once_agree(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def slower(command):
        for place in (command[command.index("--target") + 1], cache_folder()):
            (module.Path(place) / "bfcl_eval").mkdir(parents=True)
            (module.Path(place) / "bfcl_eval" / "__init__.py").touch()

    monkeypatch.setattr(module, "_fetch", slower)
    assert install() == cache_folder()


def test_a_cache_that_can_not_be_written_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "_fetch", lambda _: None)  # a client that says yes and does nothing
    with pytest.raises(BoundaryError, match="can't write"):
        install()


def test_a_damaged_cache_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (cache_folder() / "bfcl_eval").mkdir(parents=True)
    monkeypatch.setattr(module, "_fetch", lambda command: module.Path(command[command.index("--target") + 1]).mkdir())
    with pytest.raises(BoundaryError, match=r"can't write .*: Directory not empty; delete it and try again"):
        activate()


def test_the_pinned_version_is_what_is_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bfcl_eval").mkdir()
    (tmp_path / "bfcl_eval" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "bfcl_eval", raising=False)
    folder = activate()
    assert sys.modules["bfcl_eval"].__file__ == str(folder / "bfcl_eval" / "__init__.py")
    activate()
    assert sys.path.count(str(folder)) == 1
