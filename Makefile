# Everything runs in a virtual environment of the project's own; the first target that needs it makes it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests of one file share what they start, so a file stays in one process; tests/spreading.py says which begin. Four
# processes keep two cores busy: three start systems and wait for them, while the fourth has tests that compute.
SPREAD = -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
PROCESSES := 4
# Tests whose full length takes minutes; CEP_ACCEPTANCE=1 asks for it.
ACCEPTANCE := $(addprefix tests/system/,test_time_live.py test_busy_host.py test_edit_live.py test_undeploy_live.py test_dead_web_hook.py test_two_nodes.py)
# pytest rewrites the asserts of every test file; kept as bytecode, that is done once and not by each process again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-ha demo-kafka ha-faults kafka-ledger up test check lint style types layers collected unit programs tour chaos kafka-faults file-faults clock-faults redteam hostile-requests soak properties simulate fuzz-differential peers key-cliffs many-plans simulate-scale lock clean acceptance dist dist-test image-test

help:            ## say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / — /'

demo: $(READY)   ## start a system, feed it a month of flights, show what it finds, stop it
	@$(BIN)/cep demo

kafka-ledger: $(READY) ## exactly once over Kafka: 200 faults (FAULTS=, SEED=), nothing lost, nothing twice
	@CEP_KAFKA_FAULTS=$(or $(FAULTS),200) CEP_KAFKA_SEED=$(or $(SEED),31) $(BIN)/pytest -q tests/cep_worker/kafka/test_kafka_ledger.py

demo-kafka: $(READY) ## flights from a topic, alerts to a topic, shown with the lag; a real broker of its own
	@$(BIN)/python tests/system/kafka_demo.py

demo-ha: $(READY) ## two nodes at 127.0.0.1 and 127.0.0.2: the active one is killed, alerts go on, counts are exact
	@$(BIN)/cep node demo

ha-faults: $(READY) programs ## two nodes on PostgreSQL are killed, stopped and cut off: nothing lost, nothing twice, never two active (FAULTS=50 SEED=1)
	@CEP_NODE_FAULTS=$(or $(FAULTS),50) CEP_NODE_SEED=$(or $(SEED),1) $(BIN)/python tests/system/node_faults.py

up: $(READY)     ## start a system and keep it running until Ctrl-C
	@$(BIN)/cep up

test: $(READY)   ## all tests, those with real processes and a real Spark included
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint programs collected
	$(BIN)/pytest $(SPREAD)

check: $(READY)  ## what needs no process of its own: style, types, layers, fast tests
	@$(MAKE) --no-print-directory collected
	@{ $(MAKE) --no-print-directory lint >$(VENV)/lint 2>&1 || { cat $(VENV)/lint; exit 1; }; } & lint=$$!; \
	$(MAKE) --no-print-directory unit; unit=$$?; wait $$lint && echo "lint: no findings" && exit $$unit

tour: $(READY) programs ## walk through the console of a running system in a browser, every step checked (TOUR_PICTURES=var/tour)
	$(BIN)/python tests/system/tour_run.py

chaos: $(READY) programs ## hurt a running system in every way and count what comes of it (CHAOS_FAULTS=60 CHAOS_SEED=1 CHAOS_DELIVERY=exactly-once)
	$(BIN)/python tests/system/chaos_run.py

kafka-faults: $(READY) programs ## the same over Kafka on three brokers, which are hurt, too (CHAOS_FAULTS=30 CHAOS_SEED=31)
	$(BIN)/python tests/system/kafka_faults.py

file-faults: $(READY) programs ## damage every kind of file of a running system in every way, and count (CHAOS_FAULTS=500 CHAOS_SEED=1)
	CHAOS_KINDS=files CHAOS_FAULTS=$(or $(CHAOS_FAULTS),500) $(BIN)/python tests/system/chaos_run.py

clock-faults: $(READY) programs ## set the clock of each process of a running system ±10 h and 10 years ahead, and back (CHAOS_FAULTS=24 CHAOS_SEED=1)
	CHAOS_KINDS=clocks CHAOS_FAULTS=$(or $(CHAOS_FAULTS),24) $(BIN)/python tests/system/chaos_run.py

redteam: $(READY) programs ## attack the system at full length as stranger, sender, viewer, editor and holder of a client key
	CEP_REDTEAM=1 $(BIN)/pytest tests/redteam
	REQUESTS=60000 SEED=29 $(BIN)/python tests/redteam/hostile_load.py

hostile-requests: $(READY) programs ## random and hostile requests of every role to a running manager and worker: make hostile-requests REQUESTS=1000000 SEED=1
	REQUESTS=$(or $(REQUESTS),1000000) SEED=$(or $(SEED),1) $(BIN)/python tests/redteam/hostile_load.py

soak: $(READY) programs ## a steady load, a fault a minute, and nothing may grow (SOAK_MINUTES=30 SOAK_SEED=1)
	$(BIN)/python tests/system/soak_run.py

acceptance: $(READY) programs ## the system tests that have a long form, at full length: time, busy hosts, edits under load, undeploying, dead sinks
	CEP_ACCEPTANCE=1 $(BIN)/pytest $(ACCEPTANCE)

lint: style types layers

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

# Rewrites the asserts of all test files once, beside mypy, which keeps one core busy; the processes that run the tests
# would otherwise each do it at the same time. Later they find most of it done.
collected: $(VENV)/collected

$(VENV)/collected: $(READY)
	@$(BIN)/pytest --collect-only -qq >$@ 2>&1 || { cat $@; rm $@; exit 1; }

unit: PROCESSES := 3
unit: $(READY)
	$(BIN)/pytest -m "not spark and not cluster and not thorough" $(SPREAD)

programs: # what tests start and Debian has: installed when it is missing, each time, as it may have gone since
	@./tools/setup_tests.sh

properties: $(READY) ## tests that search for long with all of their examples, of which other runs draw a share (EXAMPLES=4 for four times as many)
	CEP_EXAMPLES=$(or $(EXAMPLES),1) $(BIN)/pytest -m "hypothesis or (thorough and not spark and not cluster)" $(SPREAD)

simulate: $(READY) ## many seeded schedules under virtual time: make simulate SEEDS=10000 FIRST=0
	$(BIN)/python tests/simulation/simulate.py --schedules $(or $(SEEDS),10000) --first $(or $(FIRST),0)

fuzz-differential: $(READY) ## random plans and events against the real Siddhi: make fuzz-differential SEED=1 CASES=10000 FIRST=0
	$(BIN)/python -m tools.differential.run --seed $(or $(SEED),1) --cases $(or $(CASES),10000) --first $(or $(FIRST),0)

peers: $(READY)  ## the released Siddhi and our engine side by side: make peers ARGS="--kind 'pat_*' --quick"
	$(BIN)/python -m benchmarks.peers $(ARGS)

key-cliffs: $(READY) ## windows, rates and patterns in partitions of 1 to 100,000 keys: make key-cliffs ARGS="--kind 'rate_*' --keys 1000"
	$(BIN)/python -m benchmarks.key_cliffs $(ARGS)

many-plans: $(READY) ## what a thousand plans cost on this machine: make many-plans PLANS=1000 SEED=1
	$(BIN)/python -m benchmarks.many_plans --plans $(or $(PLANS),1000) --seed $(or $(SEED),1) $(ARGS)

simulate-scale: $(READY) ## what the manager's loop costs with many plans and stage hosts: make simulate-scale ARGS="--plans 1000,30000 --hosts 10,300"
	$(BIN)/python -m benchmarks.manager_scale $(ARGS)

dist: $(READY)   ## build a wheel in dist/: pip install dist/cep_on_spark-*.whl; cep demo
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

dist-test: $(READY) ## install the wheel in an empty environment and run the demo there (minutes: it fetches all libraries)
	CEP_DIST=1 $(BIN)/pytest tests/system/test_wheel.py

image-test: $(READY) ## build the container image without a daemon and run the demo in it (root; minutes)
	CEP_IMAGE=1 $(BIN)/pytest tests/system/test_image.py

lock:            ## choose the newest versions that fit pyproject.toml and write them down
	./tools/lock.sh

clean:           ## remove the environment and everything that was made
	rm -rf $(VENV) var dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(READY): pyproject.toml requirements.lock tools/setup.sh
	@PYTHON=$(PYTHON) ./tools/setup.sh $(VENV)
	@touch $@
