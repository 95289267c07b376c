# Everything that is needed is Python 3.11 or newer and make.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo test test-slow check format bench clean

demo: $(INSTALLED)  ## install, then run the quickstart study: a table, a page, the next command
	$(BIN)/tfexp ablate ablation=quickstart

test: $(INSTALLED)  ## install, then the fast tests
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(INSTALLED)  ## everything, also what trains for minutes
	$(BIN)/python -m pytest

check: $(INSTALLED)  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)  ## training step beside public peers, as ratios; tokenizers and loaders
	$(BIN)/pip install --quiet -c constraints.txt -e ".[bench]"
	$(BIN)/python benchmarks/train_step.py
	$(BIN)/python benchmarks/data.py

clean:
	rm -rf .venv outputs dist build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch first and alone: an unpinned torch would bring gigabytes of GPU libraries.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(INSTALLED)
