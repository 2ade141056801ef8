# Two commands do everything on a fresh machine: `make build` and `make test`. The rest is for those who work on the code.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKSPACE ?= workspaces/first
ESCOT ?= ../shared/data/escot
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: setup build test lint bench evidence evidence-slow clean

# A marker file a step: done again only when pyproject.toml has changed.
$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.base
	$(BIN)/pip install --quiet --editable '.[dev,train,argilla,label-studio]' torch==2.13.0
	touch $@

## build: a venv, the base install, and a small release from the bundled seeds with the embedded model
build: $(VENV)/.base
	$(BIN)/ser build -w $(WORKSPACE)

## setup: what work on the code needs (venv, base and dev install, git hooks)
setup: $(VENV)/.dev
	-$(BIN)/pre-commit install

## test: everything that the tests need, and the tests
test: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist loadgroup --durations 25

## lint: ruff, pyright, the floors of the house
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

## bench: the figures of docs/benchmarks.md, made anew; ESCOT=folder with ESCoT's files
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.build_speed
	$(BIN)/python -m benchmarks.measures_speed
	$(BIN)/python -m benchmarks.annotation_load
	$(BIN)/python -m benchmarks.annotation_load --starts 12
	$(BIN)/python -m benchmarks.perm_speed
	$(BIN)/python -m benchmarks.scoring_speed
	$(BIN)/python -m benchmarks.rm_training_speed --data $(ESCOT)
	$(BIN)/python -m benchmarks.grpo_speed

## evidence: does a judge learn? A generated set, three seeds; docs/evidence.md keeps a run
evidence: $(VENV)/.dev
	$(BIN)/python -m benchmarks.evidence_rm

## evidence-slow: the same on ESCoT's real steps with SmolLM2 (hours on a CPU); ESCOT=folder or file
evidence-slow: $(VENV)/.dev
	$(BIN)/python -m benchmarks.evidence_rm --data $(ESCOT)

clean:
	rm -rf $(VENV) workspaces
