"""The doctor says what is wrong with an engine and what to do about it."""

import msgspec
import pytest

from headway.adapters.engines import doctor
from headway.errors import ConfigError

pytestmark = pytest.mark.anyio

NAMES = ["api", "chat", "completion", "cache", "priority", "geometry", "metrics", "cancellation"]
VLLM_IDLE = "vllm:num_requests_running 0"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def check(findings, name):
    return next(c for c in findings.checks if c.name == name)


@pytest.fixture
def examine(play, story, monkeypatch):
    """Play an engine that works and counts, with routes replaced, and look it over."""

    monkeypatch.setattr(doctor, "_LOOK_AFTER", 0.02)

    async def run(kind, routes=None, *, deaf=False, quick=None):
        played = await play(kind, routes)
        tale = story(quick or played.routes[CHAT], deaf=deaf)
        if CHAT not in (routes or {}):
            played.routes[CHAT] = tale.chat
        if kind == "vllm" and "/metrics" not in (routes or {}):
            played.routes["/metrics"] = tale.metrics
        return await doctor.examine(played.url)

    return run


async def test_a_fit_engine(examine):
    findings = await examine("vllm")
    assert [c.name for c in findings.checks] == NAMES
    assert {c.verdict for c in findings.checks} == {"ok"}
    assert findings.verdict == "ok"
    assert (findings.kind, findings.model) == ("vllm", "tiny")
    assert "1024 of 1200" in check(findings, "cache").line
    assert not any(c.hint for c in findings.checks)


async def test_findings_become_json(examine):
    findings = await examine("vllm")
    assert msgspec.json.decode(msgspec.json.encode(findings), type=doctor.Findings) == findings


async def test_nobody_there():
    findings = await doctor.examine("http://127.0.0.1:1")
    assert [(c.name, c.verdict) for c in findings.checks] == [("api", "fail")]
    assert (findings.verdict, findings.kind, findings.model) == ("fail", None, None)


async def test_wrong_arguments_are_yours():
    with pytest.raises(ConfigError):
        await doctor.examine("nonsense")


async def test_a_plain_server_gets_warnings(examine):
    findings = await examine("openai", {TEXT: None})
    assert findings.verdict == "warn"
    named = {c.name: c.verdict for c in findings.checks}
    assert named == {n: "ok" if n in ("api", "chat") else "warn" for n in NAMES}
    assert "--concurrency" in check(findings, "geometry").hint


async def test_no_chat_is_a_failure(examine):
    findings = await examine("vllm", {CHAT: (404, {}, "")})
    assert check(findings, "chat").verdict == "fail"


@pytest.mark.parametrize(
    ("kind", "flag"), [("vllm", "--enable-prompt-tokens-details"), ("sglang", "--enable-cache-report")]
)
async def test_unreported_cached_tokens_name_the_flag(examine, kind, flag):
    quick = {"choices": [{}], "usage": {"prompt_tokens": 1200}}
    silent = {"/metrics": None, "/health": ""}
    found = check(await examine(kind, silent if kind == "sglang" else None, quick=quick), "cache")
    assert found.verdict == "warn"
    assert flag in found.hint


async def test_a_cache_that_does_not_hit(examine):
    usage = {"prompt_tokens": 1200, "prompt_tokens_details": {"cached_tokens": 0}}
    found = check(await examine("vllm", quick={"choices": [{}], "usage": usage}), "cache")
    assert (found.verdict, found.line[:9]) == ("warn", "0 of 1200")
    assert "--enable-prefix-caching" in found.hint


async def test_a_refused_priority(examine):
    async def picky(request):
        body = await request.json()
        return (400, {}, "") if body["priority"] else {"choices": [{}], "usage": {"prompt_tokens": 1200}}

    found = check(await examine("vllm", {CHAT: picky}), "priority")
    assert found.verdict == "fail"


async def test_sglang_without_priority_scheduling(examine):
    found = check(await examine("sglang", {"/server_info": {}, "/metrics": None, "/health": ""}), "priority")
    assert (found.verdict, found.hint) == ("warn", "start it with --enable-priority-scheduling")


async def test_a_block_longer_than_any_context(examine):
    listing = {"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 128}]}
    found = check(await examine("vllm", {"/v1/models": listing}), "geometry")
    assert found.verdict == "warn"
    assert "prefix caching does nothing" in found.hint


async def test_no_metrics(examine):
    findings = await examine("vllm", {"/metrics": None})
    assert [check(findings, n).verdict for n in ("geometry", "metrics", "cancellation")] == ["warn"] * 3


async def test_a_long_answer_that_is_refused(examine):
    async def short(request):
        long = (await request.json())["max_tokens"] > 100
        return (400, {}, "") if long else {"choices": [{}], "usage": {"prompt_tokens": 1200}}

    found = check(await examine("vllm", {CHAT: short, "/metrics": VLLM_IDLE}), "cancellation")
    assert (found.verdict, found.line[:17]) == ("warn", "can't be checked:")
    assert "answered 400" in found.line


async def test_a_deaf_engine_works_on(examine, monkeypatch):
    monkeypatch.setattr(doctor, "_FREE_WITHIN", 0.5)
    found = check(await examine("vllm", deaf=True), "cancellation")
    assert found.verdict == "warn"
    assert "still at work" in found.line


@pytest.mark.parametrize("fails_at", [TEXT, CHAT])
async def test_an_engine_that_dies_ends_the_examination(examine, fails_at):
    findings = await examine("vllm", {fails_at: (502, {}, "")})
    assert (findings.checks[-1].name, findings.verdict) == ("engine", "fail")
    assert findings.checks[0].verdict == "ok"


async def test_an_overload_while_asking_for_priority_ends_it_too(examine):
    async def tired(request):
        body = await request.json()
        return (429, {}, "") if body["priority"] else {"choices": [{}], "usage": {"prompt_tokens": 1200}}

    assert (await examine("vllm", {CHAT: tired})).checks[-1].name == "engine"
