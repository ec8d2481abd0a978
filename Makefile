# Each target does the set-up that it needs, into .venv/; nothing is installed outside the project.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
LAKE ?= ./lake

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench docs wheels clean

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

# Real frameworks, for the examples and the tests of the recorder; `make test FRAMEWORKS=` goes without. The installs are
# editable, so that no test sees an older recorder than the tree's. PyTorch is Debian's (apt-get install python3-torch,
# 150 MB), which belongs to the system's Python: the package of the registry brings gigabytes of CUDA libraries.
TORCH_PYTHON ?= /usr/bin/python3
FRAMEWORKS ?= build/envs/torch/ready build/envs/tensorflow/ready
AIRFLOW ?= build/envs/airflow/ready
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

build/envs/torch/ready: pyproject.toml setup.py
	@if $(TORCH_PYTHON) -c 'from importlib.util import find_spec as f; exit(not (f("torch") and f("ensurepip")))'; then \
	  $(TORCH_PYTHON) -m venv --system-site-packages $(@D) && $(@D)/bin/python $(PIP_INSTALL) --editable . && touch $@; \
	else echo "$(TORCH_PYTHON) has no torch or no venv: tests with PyTorch are skipped (python3-torch, python3-venv)"; fi

build/envs/tensorflow/ready: pyproject.toml setup.py
	@$(PYTHON) -m venv $(@D)
	@if $(@D)/bin/python $(PIP_INSTALL) tensorflow-cpu==2.21.0 keras==3.15.1; then \
	  $(@D)/bin/python $(PIP_INSTALL) --editable . && touch $@; \
	else echo "TensorFlow cannot be installed here: tests with it are skipped"; fi

# Airflow, in an environment of its own (181 MB; a minute and a half), with an SMTP server for the tests of its notifier.
build/envs/airflow/ready: dags/requirements.txt
	@$(PYTHON) -m venv $(@D)
	@if $(@D)/bin/python $(PIP_INSTALL) -r dags/requirements.txt aiosmtpd==1.4.6; then touch $@; \
	else echo "Airflow cannot be installed here: tests of the DAGs are skipped"; fi

# A real S3 server for the tests, one Go program (2.5 minutes, once), and the jars of S3A (10 MB); without go those tests
# are skipped.
build/s3/versitygw:
	@if command -v go >/dev/null; then \
	  GOBIN="$(CURDIR)/build/s3" go install github.com/versity/versitygw/cmd/versitygw@v1.8.0; \
	else echo "no go: tests with a real S3 server are skipped"; fi

build/s3/jars: .venv/ready pipelines/jars.toml
	@mkdir -p $(@D)
	$(BIN)/python -m tracelake.pipelines.jars --s3 >/dev/null
	touch $@

S3 ?= build/s3/versitygw build/s3/jars

# Two at once, each with a Spark session of its own, file by file in the order of their names.
test: setup $(FRAMEWORKS) $(AIRFLOW) $(S3) ## All tests
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

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
	$(BIN)/python -m tracelake.recorder.reference > docs/recorder-reference.md

# Zig's C compiler links against glibc 2.17 from any machine; it is large, so only wheels need it.
build/zig/ready:
	$(PYTHON) -m venv build/zig
	build/zig/bin/pip install --quiet --disable-pip-version-check ziglang==0.15.2 'build>=1.2,<2' 'setuptools>=77'
	touch $@

wheels: build/zig/ready ## Wheels for x86-64 and ARM (manylinux2014), into dist/
	@for arch in x86_64 aarch64; do \
	  rm -rf build/lib build/bdist.*; \
	  TRACELAKE_SHIM_CC="build/zig/bin/python -m ziglang cc -Werror -target $$arch-linux-gnu.2.17" \
	  build/zig/bin/python -m build --wheel --no-isolation --outdir dist \
	    --config-setting=--build-option=--plat-name=manylinux2014_$$arch . >/dev/null || exit 1; \
	  test -f dist/tracelake-*-py3-none-manylinux2014_$$arch.whl || exit 1; \
	done

clean: ## Remove what the targets made
	rm -rf .venv build dist
