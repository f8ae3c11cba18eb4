# make audit     install what an audit needs into .venv, run the default audit, print where the report is
# make audit PROFILE=full     the same with profiles/full.yaml, in a folder of its own (runs/full)
# make utility   classifiers trained on rewritten texts, beside the loss: make audit PROFILE=utility. A target of its own:
#                it fine-tunes some hundred classifiers, and make audit takes some minutes without them
# make anonymize IDT and other anonymisers, and who infers an attribute all the same: make audit PROFILE=anonymize
# make training  private fine-tuning: its claims, what it costs, who can tell: make audit PROFILE=training
# make leaderboard   what every mechanism keeps at equal loss, in tiers within a class of claims: make audit PROFILE=leaderboard
# make test      a larger set-up, then the test suite
# make lint      ruff and mypy, which CI runs beside the tests
# make test-slow   what guards a release and takes long: kills by the dozen, full disks, the tutorial, paper-sized checks
# make flow      the audit as a Prefect flow
# make reaudit   what was updated, the audit again, against the accepted baseline (FRESH=1: fresh noise; docs/how-to/reaudits.md)
# make ui        Prefect's server, a worker and the deployments, to watch and start audits (PORT=4200);  make ui-stop
# make bench     the speed and memory tables, all that this machine can
# make docs      the pages as a site, .site/html/index.html; a broken link fails

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := $(CURDIR)/.venv/bin
FOLDER := $(if $(PROFILE),runs/$(PROFILE),.)
PORT ?= 4200
PYTEST ?= pytest
SHELL := /bin/bash
export PATH := $(BIN):$(PATH)
# Stages and tests are processes, each of which would compile anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE
export DO_NOT_TRACK := 1
export DVC_NO_ANALYTICS := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export PREFECT_HOME := $(CURDIR)/.prefect

.PHONY: audit utility anonymize training leaderboard test lint test-slow flow reaudit ui ui-stop bench docs setup setup-test install profile

audit: setup profile
	@cd $(FOLDER) && exec epsilometer pipeline repro

utility anonymize training leaderboard:
	@$(MAKE) --no-print-directory audit PROFILE=$@

# Of two cores a third worker uses what processes and servers under test leave idle.
test: setup-test
	OMP_NUM_THREADS=1 $(PYTEST) -q -n 3 --dist loadfile --no-loadscope-reorder

lint: setup-test
	ruff check .
	ruff format --check .
	mypy

test-slow: setup-test
	pytest -q -m slow

flow: setup-test profile
	@python -m flows.audit --folder $(FOLDER)

reaudit: setup-test profile
	@python -m flows.reaudit --folder $(FOLDER) $(if $(FRESH),--fresh)

ui: setup-test
	@echo "loading Prefect"
	@python -m flows.ui start --port $(PORT)

ui-stop:
	@python -m flows.ui stop

bench: setup-test
	@python -m benchmarks

docs: setup-test
	@python docs/build.py

# Two sizes: what an audit needs, and with it what tests, flows and docs need. By content, not by time, which clocks and
# unpackers set as they like; one at a time (.venv/.lock is that of uv).
READ := pyproject.toml constraints.txt requirements/audit.lock requirements/test.lock requirements/uv.lock
setup: SIZE := audit
setup-test: SIZE := test
setup setup-test:
	@mkdir -p .venv; touch .venv/.setting-up; chmod 600 .venv/.setting-up; exec 9<> .venv/.setting-up; \
	if command -v flock > /dev/null; then flock -n 9 || { sleep 1; flock -n 9; } || \
	{ echo "waiting for another set-up of this folder (process $$(cat .venv/.setting-up))"; flock 9; }; fi; \
	echo $$$$ > .venv/.setting-up; \
	cat $(READ) | cmp -s - .venv/.ready-$(SIZE) || $(MAKE) --no-print-directory install SIZE=$(SIZE)

install:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv .venv
	python requirements/install.py $(SIZE)
	@python -m epsilometer.project.site_cache
	@for size in audit $(SIZE); do cat $(READ) > .venv/.ready-$$size; done

# A profile runs beside the others: in a folder with stages, parameters, data and a lock of its own.
profile:
ifdef PROFILE
	@mkdir -p $(FOLDER)
	@python -m epsilometer.pipeline.profiles profiles/$(PROFILE).yaml $(FOLDER)/params.yaml
endif
