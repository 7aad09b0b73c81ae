# Everything from a fresh clone. Needs python3 >= 3.11 with venv, git and make; uses uv when it is there.
PYTHON ?= python3
BIN := .venv/bin
MADE := .venv/.made

.PHONY: help demo test lint format bench soak fuzz schemas wheel venv clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

demo: $(MADE) ## a deadlock among five real agents, found and resolved
	@$(BIN)/unknot demo

test: $(MADE) ## all tests, on every Python from 3.11 to 3.13 that is present
	$(BIN)/pytest -n 2 --dist worksteal
	@.ci/other-pythons

lint: $(MADE) ## style, types, borders, dependencies
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry schemas clients/python gateway

format: $(MADE) ## write the code as `make lint` wants it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(MADE) ## the figures, side by side in one run
	$(BIN)/python -m tests.benchmarks

soak: $(MADE) ## the tests that are long, and the random ones with many more examples
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -n 2 -m soak --timeout 3600

fuzz: $(MADE) ## 1 000 000 hostile messages through the gateway in memory, 100 000 through a real server
	$(BIN)/python -m tests.hostile.fuzz --messages 1000000
	$(BIN)/python -m tests.hostile.fuzz --nats --messages 100000

schemas: $(MADE) ## write the wire's JSON Schema, AsyncAPI document and TypeScript types to schemas
	$(BIN)/python -m unknot_schemas.export schemas

wheel: $(MADE) ## build the wheel into dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

venv: $(MADE) ## the environment that all of these use

$(MADE): pyproject.toml constraints.txt .ci/venv
	@.ci/venv .venv $(PYTHON)

clean: ## remove what was built, and the environments of other Pythons and frameworks
	rm -rf dist build .venv-3.* .venv-adopt .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
