# Every target sets up what it needs from python3, pip and make alone, and says so.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
SAY := @printf '== %s\n'

.PHONY: demo test check bench bench-demo bench-policies clean

$(STAMP): pyproject.toml src/headway/version.py
	$(SAY) "making .venv with $$($(PYTHON) --version) (a minute or two, once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --upgrade pip 2>&1 | grep -v '^WARNING: Location' || true
	@$(BIN)/python -m pip install --quiet --group dev --editable '.[bfcl]' 2>&1 | grep -v '^WARNING: Location' || true
	@$(BIN)/python -c 'import headway, pytest, mypy'
	@touch $(STAMP)

demo: $(STAMP)
	$(SAY) "two engines, a batch of real BFCL tasks, as harnesses do it and as Headway does it"
	@$(BIN)/python benchmarks/demo.py

test: $(STAMP)
	$(SAY) "unit tests (no engine)"
	@$(BIN)/python -m pytest -q -m "not engine and not live" --cov=headway --cov-branch --cov-report=
	$(SAY) "tests on real engines and real benchmarks; engines start now and stop afterwards"
	@$(BIN)/python -m pytest -q -m "engine or live" --timeout=600 --cov=headway --cov-branch --cov-append --cov-report=
	$(SAY) "branch coverage"
	@$(BIN)/python tests/coverage_floor.py

check: $(STAMP)
	$(SAY) "format, lint, types, imports"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: $(STAMP)
	$(SAY) "facts per second of the core, beside simpy in the same run"
	@$(BIN)/python benchmarks/core.py
	$(SAY) "the simulator, beside simpy in the same run"
	@$(BIN)/python benchmarks/simulator.py
	$(SAY) "what Headway costs where nothing is scarce, on two real engines"
	@$(BIN)/python benchmarks/overhead.py

bench-demo: $(STAMP)
	$(SAY) "48 chains, 4 slots, 5 interleaved pairs on two real engines (about 15 minutes)"
	@$(BIN)/python benchmarks/demo.py --chains 48 --slots 4 --pairs 5

bench-policies: $(STAMP)
	$(SAY) "every policy on every simulated setting, then the settings moved by a fifth (about half an hour)"
	@$(BIN)/python benchmarks/policies.py --keep .venv/policies.jsonl
	@$(BIN)/python benchmarks/policies.py --keep .venv/policies.jsonl --moved

clean:
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
