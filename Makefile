# Every task of this repository. `make` alone prints the list.
# Options: PYTHON=python3.12 (which Python makes .venv), ARGS="-k murmur2" (passed on to pytest and benchmarks),
# LOCK_FLAGS=--upgrade (passed on to the resolver).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SILENT:
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What goes into requirements.lock.
LOCK_EXTRAS := spark kafka avro kinesis geo zookeeper
# The build backend, and what it needs for an editable install: both are used from .venv, without isolation.
LOCK_BUILD := hatchling editables

ARGS ?=
LOCK_FLAGS ?=

##@ Start here

.PHONY: help
help: ## Print this list
	awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z-]*:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: venv
venv: $(STAMP) ## Set up .venv: the locked packages and keylane itself, editable

$(STAMP): requirements.lock pyproject.toml
	scripts/venv.sh $(VENV)
	echo "venv: installing requirements.lock"
	$(PIP_INSTALL) --require-hashes -r requirements.lock
	echo "venv: installing keylane, editable"
	$(PIP_INSTALL) --no-deps --no-build-isolation --check-build-dependencies -e .
	touch $@

.PHONY: run
run: $(STAMP) java ## Set up, then show keylane at work; ends with a page to look at
	scripts/run.sh

.PHONY: kafka
kafka: $(STAMP) java ## Start a real Kafka on loopback; `keylane dev kafka down` stops it
	$(BIN)/keylane dev kafka up

##@ Check

.PHONY: java
java: ## Find a Java for Spark, or install one by apt-get
	scripts/java.sh

.PHONY: browser
browser: ## Find chromium, or install it by apt-get: the tests look at pages in it
	scripts/browser.sh

.PHONY: node
node: ## Find Node.js with npm, or install them by apt-get: the tests start Kinesis servers in it
	scripts/node.sh

.PHONY: test
test: $(STAMP) java browser node ## Run the tests; with ARGS="..." one pytest with these arguments
	echo "test: pytest $(or $(ARGS),in parts side by side)"
	scripts/test.sh $(BIN)/python $(or $(ARGS),all)

.PHONY: test-fast
test-fast: $(STAMP) ## Run the tests that start no Java, no server and no browser, in less than a minute
	echo "test-fast: pytest --fast $(ARGS)"
	scripts/test.sh $(BIN)/python fast $(ARGS)

.PHONY: test-durations
test-durations: $(STAMP) java browser node ## Run the tests one after the other, and print the slowest 40
	echo "test-durations: pytest --durations=40 $(ARGS)"
	$(BIN)/python -m pytest --durations=40 --durations-min=0.5 $(ARGS)

.PHONY: test-faults
test-faults: $(STAMP) java browser node ## Run what `make test` leaves out: new random cases, second deaths, twins, clusters
	echo "test-faults: pytest tests/properties --hypothesis-profile=explore $(ARGS)"
	$(BIN)/python -m pytest tests/properties --hypothesis-profile=explore $(ARGS)
	echo "test-faults: pytest -m faults $(ARGS)"
	$(BIN)/python -m pytest -m faults $(ARGS)

.PHONY: first-hour
first-hour: $(STAMP) java ## Walk four problems of a new user on a terminal; prints commands, screens and seconds
	echo "first-hour: python scripts/first_hour.py"
	$(BIN)/python scripts/first_hour.py

.PHONY: lint
lint: $(STAMP) ## Check style, formatting and types; change nothing
	echo "lint: ruff check"
	$(BIN)/ruff check --quiet
	echo "lint: ruff format --check"
	$(BIN)/ruff format --check --quiet
	echo "lint: mypy"
	$(BIN)/mypy --no-error-summary

.PHONY: bench
bench: $(STAMP) java ## Run the benchmarks and print their figures
	echo "bench: python -m benchmarks $(ARGS)"
	$(BIN)/python -m benchmarks $(ARGS)

##@ Write

.PHONY: format
format: $(STAMP) ## Format the code and apply the safe fixes
	echo "format: ruff check --fix"
	$(BIN)/ruff check --fix-only --quiet
	echo "format: ruff format"
	$(BIN)/ruff format --quiet

# Not --quiet: that hides the warnings from --strict too, and nothing would ever fail.
.PHONY: docs
docs: $(STAMP) ## Build the documentation into site/; a broken link is an error
	echo "docs: mkdocs build --strict"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict > $(VENV)/docs.log 2>&1 || { cat $(VENV)/docs.log >&2; exit 1; }

.PHONY: picture
picture: $(STAMP) java browser ## Take the picture of the demo's page that the README shows
	echo "picture: keylane demo --to build/demo"
	$(BIN)/keylane demo --to build/demo > /dev/null
	scripts/picture.sh build/demo/index.html docs/images/demo.png

.PHONY: figures
figures: $(STAMP) ## Write the tables of figures in pages, from what the benchmarks kept
	echo "figures: python scripts/figures.py"
	$(BIN)/python scripts/figures.py

.PHONY: schemas
schemas: $(STAMP) ## Write the JSON Schemas of the contract and of what commands print
	echo "schemas: python -m keylane.contract.schema"
	$(BIN)/python -m keylane.contract.schema
	echo "schemas: python -m keylane.documents.schemas"
	$(BIN)/python -m keylane.documents.schemas

.PHONY: licences
licences: $(STAMP) ## Write THIRD-PARTY.md: every dependency and jar with its licence
	echo "licences: python scripts/inventory.py --write-licences"
	$(BIN)/python scripts/inventory.py --write-licences

.PHONY: sbom
sbom: $(STAMP) ## Write the bill of materials, CycloneDX, into build/: packages, jars, data, with checksums
	echo "sbom: build/keylane.cdx.json"
	$(BIN)/python scripts/inventory.py --sbom build/keylane.cdx.json

.PHONY: sizes
sizes: $(STAMP) ## Print how large an installation is: keylane alone, and what each extra adds
	$(BIN)/python scripts/inventory.py --sizes

.PHONY: map
map: $(STAMP) ## Write the file map of docs/architecture.md from the modules' docstrings
	echo "map: python scripts/house.py --write-map"
	$(BIN)/python scripts/house.py --write-map

.PHONY: walks
walks: $(STAMP) java ## Trace five commands, and write the walks of docs/architecture.md; some minutes
	echo "walks: python scripts/house.py --write-walks"
	$(BIN)/python scripts/house.py --write-walks

.PHONY: first-hour-page
first-hour-page: $(STAMP) java ## Walk the same, and write docs/first-hour.md from it
	echo "first-hour-page: python scripts/first_hour.py --write"
	$(BIN)/python scripts/first_hour.py --write

# Needs no finished .venv: only uv, from .venv or from the path. The new lock takes the old one's place only when it
# names no address, so that it installs from whatever index the reader's own pip is set to.
.PHONY: lock
lock: ## Write requirements.lock from pyproject.toml; pins that still fit stay
	uv=$$(command -v $(BIN)/uv || command -v uv) || { \
	  echo "lock: no uv found; 'make venv' brings one, or put uv on the path" >&2; exit 1; }; \
	echo "lock: resolving for Python 3.11 and later"; \
	mkdir -p build; \
	if [ -f requirements.lock ]; then cp requirements.lock build/requirements.lock; fi; \
	printf '%s\n' $(LOCK_BUILD) | "$$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --custom-compile-command "make lock" $(addprefix --extra ,$(LOCK_EXTRAS)) \
	  --group pyproject.toml:dev $(LOCK_FLAGS) --output-file build/requirements.lock pyproject.toml - || exit 1; \
	if grep -nE '://|^--|^-e' build/requirements.lock; then \
	  echo "lock: the lines above name an address or an index; requirements.lock is unchanged" >&2; exit 1; fi; \
	mv build/requirements.lock requirements.lock; \
	echo "lock: $$(grep -c '==' requirements.lock) pins in requirements.lock"

##@ Tidy

.PHONY: clean
clean: ## Remove what the tasks left behind; .venv stays
	echo "clean: caches, build/, dist/, site/"
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
