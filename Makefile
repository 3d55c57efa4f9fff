# make demo   three embedded clusters that find each other and lend; ONCE=1 ends by itself
# make test   everything, on real clusters too, whose programs it builds if they are not there, and
#             as root in network namespaces;
#             VERSIONS=all (or e.g. VERSIONS="1.34 1.36") repeats those on other Kubernetes minors
# make test-release  the tests of what is released, which `make test` has where that has changed
# make test-network  likewise those of joined networks on a real kernel
# make test-kubernetes  likewise those of embedded clusters, client and definitions on real API servers
# make test-clusterset  likewise those of the Services of the set
# make test-handshake  likewise those of how daemons meet, and of their keys
# make test-stateful  likewise those of what is shown in each fault
# make test-pods  likewise those of pods at a peer on real kubelets
# make test-placement  likewise those of where pods are placed
# make test-top  likewise those of `liqod top` in a terminal and a browser
# make test-plugins  likewise those of plugins, as packages and in daemons
# make test-install  likewise those of installations
# make test-load  likewise those of what many objects and hostile peers cost
# make fast   what needs neither root nor a real cluster; ARGS=--hypothesis-profile=random draws other
#             values for the tests of properties
# make soak   random scripts of failures on embedded clusters; SOAK=600 (seconds), ARGS="--seed 7"
# make lint   ruff, mypy, the walls between the rooms, and how much of the pages is in long sentences
# make bench  what offloading and peering cost, in ten minutes; ARGS=--embedded needs no real
#             clusters; `python -m benchmarks.NAME --help`: offload, peers, meeting, rest, reflection
# make wheels  both distributions into dist/, as sdist and wheel: the same bytes from the same commit
# make deb    liqod as a Debian package into dist/; RELEASE=trixie ARCH=arm64 for another than this one
# make image  liqod as container images into dist/; ARCH=arm64 for another machine than this one,
#             PLUGINS="a.whl b.whl" to have these in them
# make release  all of these with the chart, the pages and the site, for places without internet, into dist/;
#             DIRTY=1 has what was not committed, too
# make chart  writes deploy/helm/liqod anew from the manifests of `liqod install`
# make site   the pages as HTML with a search, which needs no server and no internet, into dist/site
# make screenshots  draws the pictures of the documentation anew
# make clean  removes the environment and what tools left; built programs stay in the cache folder

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Every worker and every program that a test starts would compile the modules anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test test-release test-network test-kubernetes test-clusterset test-handshake \
	test-stateful test-pods test-placement test-top test-plugins test-install test-load fast soak lint format \
	bench wheels deb image release chart site screenshots clean programs

# The first Python that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
RUN := $(VENV)/bin/python
# Arguments for pytest and the benchmarks, e.g. ARGS="-k peering -x"
ARGS ?=
VERSIONS ?=
SOAK ?= 600
# Those of Debian's that `make deb` and `make image` build for, where it is not for this machine.
RELEASE ?=
ARCH ?=
# Wheels that `make image` adds.
PLUGINS ?=
DIRTY ?=

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

demo: $(VENV)/.liqod
	@$(RUN) -m liqod demo $(if $(ONCE),--once)

test: $(VENV)/.liqod-dev
	@$(RUN) -m tests.testbed.suite --versions "$(VERSIONS)" -- $(ARGS)

test-release test-network test-kubernetes test-clusterset test-handshake test-stateful test-pods test-placement test-top test-plugins test-install test-load: test-%: $(VENV)/.liqod-dev
	@$(RUN) -m tests.testbed.suite --tier $* -- $(ARGS)

fast: $(VENV)/.liqod-dev
	@$(RUN) -m tests.testbed.suite --fast -- $(ARGS)

soak: $(VENV)/.liqod-dev
	@$(RUN) -m tests.stateful.hunt --seconds $(SOAK) $(ARGS)

programs: $(VENV)/.liqod-dev
	@$(RUN) -m tests.testbed.programs $(VERSIONS)

bench: $(VENV)/.liqod-dev
	@$(RUN) -m benchmarks $(ARGS)

wheels: $(VENV)/.liqod-dev
	@$(RUN) -m deploy.wheels dist

deb: $(VENV)/.liqod-dev
	@$(RUN) -m deploy.deb dist "$(RELEASE)" "$(ARCH)"

image: $(VENV)/.liqod-dev
	@$(RUN) -m deploy.image dist "$(ARCH)" $(PLUGINS)

release: $(VENV)/.liqod-dev
	@$(RUN) -m deploy.release dist $(if $(DIRTY),--dirty)

chart: $(VENV)/.liqod-dev
	@$(RUN) -m deploy.chart

site: $(VENV)/.liqod-dev
	@$(RUN) -m deploy.site dist/site

screenshots: $(VENV)/.liqod-dev
	@$(RUN) -m tests.viewer.screenshots

# Every linter runs even where an earlier one complains, so that one run shows all there is.
lint: $(VENV)/.liqod-dev
	@failed=; \
	for check in "ruff check ." "ruff format --check ." "mypy" "lint-imports --no-logo"; do \
		echo "lint: $$check"; \
		$(VENV)/bin/$$check || failed="$$failed\n  $$check"; \
	done; \
	echo "lint: long prose (python -m tests.testbed.prose PAGE names it)"; \
	$(RUN) -m tests.testbed.prose --sum; \
	if [ -n "$$failed" ]; then printf "lint: these complained:$$failed\n"; exit 1; fi

format: $(VENV)/.liqod-dev
	@$(VENV)/bin/ruff check --fix . ; $(VENV)/bin/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info simulator/build simulator/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment: made once, installed into again when the requirements change.
$(VENV)/.liqod: pyproject.toml | $(VENV)/bin/pip
	@echo "liqod: installing into $(VENV)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.liqod-dev: pyproject.toml | $(VENV)/bin/pip
	@echo "liqod: installing into $(VENV), with what the tests need"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.liqod

$(VENV)/bin/pip:
	@if [ -z "$(PYTHON)" ]; then \
		echo "liqod needs Python 3.11 or newer; name one with PYTHON=/path/to/python3" >&2; exit 1; fi
	@if ! $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null; then \
		echo "$(PYTHON) cannot make environments; on Debian: apt-get install python3-venv" >&2; \
		exit 1; fi
	@echo "liqod: making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)
