# Each target does the set-up that it needs, into .venv/; nothing is installed outside the project.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
LAKE ?= ./lake

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench docs clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.venv/ready: pyproject.toml pipelines/jars.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip setuptools wheel
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m tracelake.pipelines.jars
	touch $@

build/ns/ready: .venv/ready
	mkdir -p build/ns/tracelake
	for each in tracelake/*; do ln -sfn "../../../$$each" "build/ns/tracelake/$$(basename $$each)"; done
	for each in recorder schemas pipelines reports; do ln -sfn "../../../$$each" "build/ns/tracelake/$$each"; done
	touch $@

setup: .venv/ready build/ns/ready ## Environment, jars and links for the type checker

demo: .venv/ready ## Simulate a small fleet, run everything, say where the pages are
	$(BIN)/tracelake demo --lake $(LAKE)

test: setup ## All tests
	$(BIN)/python -m pytest

check: setup ## Formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mypy
	rm -rf build/lib build/site && $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target build/site .
	cd build/site && ../../$(BIN)/lint-imports ../../.importlinter --no-logo

bench: setup ## Measure speed and memory; results go to bench/results/
	$(BIN)/python -m bench

docs: setup ## Write the generated pages of docs/
	$(BIN)/python -m tracelake.schemas.render.dictionary > docs/dictionary.md

clean: ## Remove what the targets made
	rm -rf .venv build dist
