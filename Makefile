# accrue: `make demo` trains a small GPT on real text, `make test` builds and runs all tests.
# Everything else is for people who work on accrue (CONTRIBUTING.md).

SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: demo test gate test-build test-run check-scripts test-all examples-alone faults faults-build build build-all benches setup setup-test setup-wheel wheel setup-deb setup-docs deb container-test sanitize sanitize-build sanitize-test sanitize-corpus asan asan-all tsan coverage fmt fmt-check lint docs bench bench-batch bench-changing bench-compile bench-curves bench-decoding bench-memory bench-dist bench-divided bench-docs bench-federated bench-finetune bench-foreign bench-generic bench-kernels bench-links bench-parts bench-peers bench-peers-memory bench-pipeline bench-private bench-python bench-spin bench-splits bench-stalls bench-thousand bench-unet mutants sound-runs fuzz fuzz-corpus fuzz-build install matrix clean help

PRESET ?= release
JOBS ?= $(shell nproc)
# Many tests wait for processes of theirs; those that compute take two of the places (PROCESSORS).
TEST_JOBS ?= $(shell echo $$((2 * $$(nproc))))
# Where the gate keeps what ctest reports.
JUNIT = $(if $(ACCRUE_GATE),--output-junit $(ACCRUE_GATE)/$(1).xml)
CLANG_FORMAT ?= clang-format
# Several sources of a target are compiled as one; UNITY=OFF compiles each by itself.
UNITY ?= ON
SOURCES = $(shell git ls-files '*.h' '*.cpp')

# A libtorch of one's own: the folder with its include and lib. Else the one that `setup` installs in .venv.
LIBTORCH ?=

# ccache hashes each precompiled header (up to 800 MB) once, and not for each object: 1 to 2 processor seconds of each.
export CCACHE_INODECACHE = 1
# Evaluated late: the virtual environment exists only after `setup`.
LIBTORCH_DIR = $(or $(LIBTORCH),$(shell .venv/bin/python -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("torch").origin))'))
# Arrow, for Parquet files: `make build PARQUET=1`; `make test` has it.
PARQUET ?=
PARQUET_OPTIONS = -DACCRUE_PARQUET=ON "-DACCRUE_PYARROW=$(shell .venv-parquet/bin/python -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("pyarrow").origin))')"
# The Python package is for the Python and the torch of .venv.
PYTHON_OPTIONS = -DACCRUE_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$(CURDIR)/.venv/bin/python"
CONFIGURE = cmake --preset $(1) "-DACCRUE_LIBTORCH=$(LIBTORCH_DIR)" "-DCMAKE_PREFIX_PATH=$(CURDIR)/.venv" -DCMAKE_UNITY_BUILD=$(UNITY) $(2) \
            >build/$(1).configure.log 2>&1 \
            || { cat build/$(1).configure.log >&2; exit 1; }
# A test that waits for the other thread by spinning slows everything when two of them run at once.
# What is not set up fails instead of being skipped; REQUIRE_ALL= lets it be.
REQUIRE_ALL ?= 1
# Python keeps compiled modules even if the environment forbids it: compiling transformers and torch takes longer than importing them, and
# many tests start a Python.
TEST_ENV = OMP_WAIT_POLICY=passive ACCRUE_REQUIRE_ALL=$(REQUIRE_ALL) PYTHONDONTWRITEBYTECODE=

help:
	@echo 'make demo   set up, build, and train a small GPT on Python sources (five to ten minutes of training)'
	@echo 'make test   set up, build, and run all tests'
	@echo 'make gate   what every change must pass, and what CI runs: also formatting, sanitizers and fuzzers'
	@echo 'make faults   kills, flipped bits, full disks, lost ranks, in full counts (FAULTS=...: some of them)'
	@echo 'make wheel   the Python package, as dist/accrue-*.whl'
	@echo 'make deb   the command as a Debian package, as dist/accrue_*.deb'
	@echo 'make docs   the guides, and a reference of the headers and of the Python package, as pages in build/docs/html'
	@echo 'make container-test   what Containerfile runs, in bare Debians made by debootstrap (ARGS=dist/accrue_....deb: installing alone)'
	@echo 'make build  set up and build build/release/accrue'
	@echo 'Measuring, alone on the machine, on 2 cores; ARGS=--quick: a tiny model, nothing kept, a minute or two unless said otherwise:'
	@echo 'make bench  accumulation overhead, memory and speed beside a plain libtorch loop; 40 minutes'
	@echo 'make bench-memory   plans, budgets and smaller optimizers; 2 hours'
	@echo 'make bench-parts   recomputation, the vocabulary loss, the data path and the demo, each alone; 35 minutes'
	@echo 'make bench-stalls   what training waits for beside checkpoints; 15 minutes'
	@echo 'make bench-compile   what including accrue costs a file beside torch/torch.h; 10 minutes'
	@echo 'make bench-dist   two ranks: leases beside equal shares, a divided optimizer; 10 minutes'
	@echo 'make bench-kernels   each CPU kernel beside ATen and beside the roofline of the machine; 10 minutes (no --quick)'
	@echo 'make bench-peers   the same training by other systems, installed and tuned; 3 hours (--quick: 5 minutes)'
	@echo 'make bench-peers-memory   the best micro-batch of each system on one memory limit; 4 hours (--quick: 10 minutes)'
	@echo 'make bench-finetune   fine-tuning beside transformers and PEFT, speed and memory; 30 minutes (--quick: 1 minute)'
	@echo 'make bench-foreign   plain torch::nn models (GPT-2, ResNet-50, LSTM) with and without accrue; 30 minutes (--quick: seconds)'
	@echo 'make bench-splits   what splitting one batch costs in time and saves in memory; 5 minutes (ARGS=--quick: half a minute)'
	@echo 'make bench-generic   the CPU by operators of ATen alone beside accrue kernels; 10 minutes (ARGS=--quick: half a minute)'
	@echo 'make bench-batch   what a batch costs in loss and saves in steps, fixed and changing; two hours (ARGS=--quick: two minutes)'
	@echo 'make bench-python   transformers models in a Python loop with and without accrue; an hour (--quick: a minute)'
	@echo 'make bench-spin   how threads wait, alone and beside a second such program; 15 minutes'
	@echo 'make bench-pipeline   two stages of a pipeline beside two ranks that share the batch; 15 minutes'
	@echo 'make bench-links   two ranks over slow links, in turn with PyTorch DDP; 35 minutes'
	@echo 'make bench-divided   two ranks that divide a model over slow links, in turn with PyTorch FSDP2; 20 minutes'
	@echo 'make bench-curves   what compression, local steps and outer steps cost the loss, and what they save on a slow link; two hours'
	@echo 'make bench-changing   four ranks that are killed and come back, beside four that are not; 10 minutes, after make test'
	@echo 'make bench-federated   five clients by processes of Flower over TLS: bits, and what secure sums cost (ARGS=--quick: a small model, four steps)'
	@echo 'make bench-private   clipping of each sample in a Python loop, beside Opacus and training without privacy; 20 minutes, after make test'
	@echo 'make bench-thousand   a simulated hour of a thousand ranks that die and come back; 5 minutes, after make test'
	@echo 'make bench-unet   the memory of a U-Net on images of 3840 x 2160 under 4 GiB; 10 minutes'
	@echo 'make bench-decoding   how fast a model writes, beside transformers; 10 minutes'
	@echo 'make bench-docs   writes what the documents say of all these from bench/results; a second'
	@echo 'make mutants   faults planted in the sources, and which tests and whether verify sees them (ARGS=...: some of them)'
	@echo 'make sound-runs   verify on 300 drawn configs in which nothing is wrong, under load; a difference is a false alarm'
	@echo 'make matrix   build and test with other versions of libtorch (ARGS=2.14.1: some of them)'
	@echo 'make sanitize   tests of the rooms that handle raw memory, and the kept inputs of the fuzzers, under sanitizers'
	@echo 'make fuzz   ten minutes of libFuzzer for each reader of files (fuzz-corpus: the kept inputs)'
	@echo 'make coverage   which lines of each room its tests execute; 50 minutes'
	@echo 'make test-all   all tests, sanitizers for all rooms, other versions of libtorch, fault campaigns, mutants; a day (ARGS=--list: the parts)'
	@echo 'make fmt | lint | asan | tsan | install PREFIX_DIR=... | clean'

setup:
	@scripts/setup.sh $(if $(PARQUET),parquet,build)

setup-test:
	@scripts/setup.sh test

setup-wheel:
	@scripts/setup.sh wheel

setup-deb:
	@scripts/setup.sh deb

setup-docs:
	@scripts/setup.sh docs

build: setup
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_TESTS=OFF -DACCRUE_BUILD_BENCH=OFF -DACCRUE_BUILD_EXAMPLES=OFF $(if $(PARQUET),$(PARQUET_OPTIONS)))
	@cmake --build build/release -j $(JOBS) --target accrue

demo: build
	@scripts/demo.sh

# The Python package as dist/accrue-*.whl, with the libraries that it needs besides torch.
wheel: setup-wheel
	@mkdir -p build
	@$(call CONFIGURE,release,$(PYTHON_OPTIONS))
	@scripts/wheel.sh build/release dist

# The command as dist/accrue_*.deb, with what it needs besides libtorch.
deb: setup-deb build
	@scripts/deb.sh build/release dist

# What Containerfile runs, in bare Debians; half an hour, as root, with the network. ARGS=dist/accrue_....deb: without building it.
container-test: setup-test
	@tests/packaging/container_test.sh $(ARGS)

# All targets, the benchmarks too, and the wheel.
build-all: setup-test setup-wheel
	@mkdir -p build
	@$(call CONFIGURE,$(PRESET),-DACCRUE_BUILD_TESTS=ON -DACCRUE_BUILD_BENCH=ON -DACCRUE_BUILD_EXAMPLES=ON $(PARQUET_OPTIONS) $(PYTHON_OPTIONS))
	@cmake --build build/$(PRESET) -j $(JOBS)
	@scripts/wheel.sh build/$(PRESET) dist

test: setup-test setup-wheel check-scripts test-build test-run

# What every change must pass; .ci/run runs it, and nothing else. ARGS='tests': some of its steps.
gate:
	@scripts/gate.py $(ARGS)

test-build:
	@mkdir -p build
	@$(call CONFIGURE,$(PRESET),-DACCRUE_BUILD_TESTS=ON -DACCRUE_BUILD_EXAMPLES=ON $(PARQUET_OPTIONS) $(PYTHON_OPTIONS))
	@cmake --build build/$(PRESET) -j $(JOBS)
	@scripts/wheel.sh build/$(PRESET) dist

test-run:
	@$(TEST_ENV) ctest --test-dir build/$(PRESET) --no-tests=error --output-on-failure --timeout 600 -j $(TEST_JOBS) $(call JUNIT,tests) \
	  || { code=$$?; scripts/failures.py build/$(PRESET); exit $$code; }

# The tools that work on the sources, which need no build.
check-scripts:
	@python3 scripts/check_prose.py
	@for test in check_rooms check_calls check_prose figures mutants gate long_tests campaigns coverage; do python3 tests/support/$${test}_test.py || exit 1; done

# Builds and tests with other versions of libtorch; about ten minutes each. ARGS='2.14.1': some of them.
matrix: setup-test
	@scripts/matrix.sh $(ARGS)

# The fault campaigns in full, about three hours; FAULTS='--only kill9 --count 50': some of them.
faults: faults-build
	@status=0; export $(TEST_ENV); \
	python3 tests/faults/campaigns.py build/release/accrue $(FAULTS) || status=$$?; \
	[ -n "$(FAULTS)" ] || python3 tests/faults/campaigns.py build/release/accrue --only soak --only soak-ranks || status=$$?; \
	[ -n "$(FAULTS)" ] || python3 tests/faults/large_files.py build/release/accrue --pyarrow .venv-parquet/bin/python || status=$$?; \
	exit $$status

faults-build: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_TESTS=ON $(PARQUET_OPTIONS))
	@cmake --build build/release -j $(JOBS) --target accrue fault_points store_host failing_calls

# The benchmarks, built and not run.
benches: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_BENCH=ON)
	@cmake --build build/release -j $(JOBS)

# Faults planted in the sources, and who sees them; an hour. ARGS="'attention*' --no-verify": some of them, by the tests alone.
mutants: build setup-test
	@python3 scripts/mutants.py $(ARGS)

sound-runs: build setup-test
	@.venv/bin/python -W ignore scripts/sound_runs.py build/release/accrue $(ARGS)

# The rooms that handle raw memory or read what somebody else wrote, under the address and undefined-behaviour sanitizers, and the
# fuzzers over their corpora: one build, by clang. asan: the tests alone; asan-all: of all rooms.
ASAN_ROOMS = core kernels accum batch data memory optim distributed
ASAN_ALL_ROOMS = $(ASAN_ROOMS) observe models train runs verify
SANITIZE = $(call CONFIGURE,sanitize) && cmake --build build/sanitize -j $(JOBS) --target $(1)
# Two threads a test, in which loops have chunks. What tests start gets as many as they state.
ASAN_TESTS = $(TEST_ENV) OMP_NUM_THREADS=2 ctest --test-dir build/sanitize --no-tests=error --output-on-failure --timeout 600 -j $(TEST_JOBS) $(call JUNIT,sanitizers) -L '^($(subst $(eval) ,|,$(strip $(ASAN_ROOMS) planted)))$$'
FUZZERS = accrue_fuzz
sanitize: setup-test sanitize-build sanitize-test sanitize-corpus

sanitize-build:
	@scripts/setup.sh fuzz
	@mkdir -p build
	@$(call SANITIZE,$(addsuffix _test,$(ASAN_ROOMS)) planted_faults $(FUZZERS))

sanitize-test:
	@$(ASAN_TESTS)

sanitize-corpus:
	@scripts/fuzz.sh 0
	@scripts/fuzz.sh planted

asan: FUZZERS =
asan: setup-test sanitize-build sanitize-test

asan-all:
	@$(MAKE) --no-print-directory asan "ASAN_ROOMS=$(ASAN_ALL_ROOMS)"

# The examples as whoever copies one compiles it: without precompiled headers, which hide a missing include.
examples-alone:
	@$(call CONFIGURE,$(PRESET),-DACCRUE_EXAMPLES_ALONE=ON)
	@cmake --build build/$(PRESET) -j $(JOBS); status=$$?; cmake -DACCRUE_EXAMPLES_ALONE=OFF build/$(PRESET) >/dev/null && exit $$status

# What takes too long for every change, after what every change must pass: about a day. Each part's result is stored in
# tests/long/results.json. ARGS='tsan mutants': some of the parts; ARGS='--older 20': which ran more than 20 commits ago; ARGS=--list.
test-all:
	@python3 scripts/long_tests.py $(ARGS)

# Our own threads under the thread sanitizer: TSAN_<room> are the tests in which they run. Neither libtorch nor OpenMP is
# instrumented: where several of their threads run, it sees races that are none. What it reports
# of libtorch's is named in tests/support/tsan_suppressions.txt; processes that die on purpose leave threads behind.
TSAN_ROOMS = data train distributed
TSAN_data = Loader*
TSAN_train = CheckpointWrit*
TSAN_distributed = RunUntil.*:GroupTest.*:DeferredReduce.*:*OuterRounds*:Lifeline*:Renewal*
tsan: setup-test
	@mkdir -p build
	@$(call CONFIGURE,tsan,-DACCRUE_BUILD_TESTS=ON)
	@cmake --build build/tsan -j $(JOBS) --target $(addsuffix _test,$(TSAN_ROOMS))
	@$(foreach room,$(TSAN_ROOMS),scripts/selected.py build/tsan/tests/$(room)/$(room)_test '$(TSAN_$(room))' && $(TEST_ENV) OMP_NUM_THREADS=1 TSAN_OPTIONS=halt_on_error=1:report_thread_leaks=0:suppressions=$(CURDIR)/tests/support/tsan_suppressions.txt \
	  build/tsan/tests/$(room)/$(room)_test --gtest_brief=1 --gtest_filter='$(TSAN_$(room))' &&) true

# Which lines of each room the tests in its own process execute; 50 minutes on two cores. ROOMS='core batch': some of them.
ROOMS = core observe kernels adapt accum batch data memory optim models distributed train verify device
coverage: setup-test
	@mkdir -p build
	@$(call CONFIGURE,coverage,$(PARQUET_OPTIONS))
	@cmake --build build/coverage -j $(JOBS) --target $(addsuffix _test,$(ROOMS))
	@find build/coverage -name '*.gcda' -delete
	@$(TEST_ENV) ctest --test-dir build/coverage --no-tests=error --output-on-failure --timeout 1200 -j $(TEST_JOBS) -L '^($(subst $(eval) ,|,$(strip $(ROOMS))))$$'
	@scripts/coverage.py build/coverage --rooms '$(ROOMS)' --ledger tests/long/results.json

# libFuzzer on everything that reads what somebody else wrote. fuzz: ten minutes for each target, two at a time (three hours);
# fuzz-corpus: what was kept of them (tests/fuzz/corpus), once each, and that faults planted in each target are found. ARGS='idx images': some of them; SECONDS_EACH=60: for another time.
fuzz-build:
	@scripts/setup.sh fuzz
	@mkdir -p build
	@$(call SANITIZE,accrue_fuzz)

fuzz: fuzz-build
	@scripts/fuzz.sh $(or $(SECONDS_EACH),600) $(ARGS)

fuzz-corpus: fuzz-build
	@scripts/fuzz.sh $(or $(SECONDS_EACH),0) $(ARGS)
	@scripts/fuzz.sh planted $(ARGS)

bench: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_TESTS=ON -DACCRUE_BUILD_BENCH=ON -DACCRUE_BUILD_EXAMPLES=ON)
	@cmake --build build/release -j $(JOBS)
	@.venv/bin/python bench/e2e/speed.py $(ARGS)

# What plans predict, budgets cost and a smaller optimizer saves; about 2 hours. ARGS=--quick: 10 minutes.
bench-memory: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_TESTS=ON -DACCRUE_BUILD_BENCH=ON -DACCRUE_BUILD_EXAMPLES=ON)
	@cmake --build build/release -j $(JOBS)
	@for part in planner memory optimizer_memory; do .venv/bin/python bench/e2e/$$part.py $(ARGS) || exit 1; done

# Parts of training alone, and the demo; about 35 minutes. ARGS=--quick: a minute or two.
bench-parts: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_TESTS=ON -DACCRUE_BUILD_BENCH=ON -DACCRUE_BUILD_EXAMPLES=ON)
	@cmake --build build/release -j $(JOBS) --target accrue recompute_bench data_bench kernels_bench
	@for part in micro demo; do .venv/bin/python bench/e2e/$$part.py $(ARGS) || exit 1; done

# The memory of a U-Net on images of 3840 x 2160; about 10 minutes. ARGS=--quick: half a minute.
bench-unet: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_TESTS=ON -DACCRUE_BUILD_BENCH=ON -DACCRUE_BUILD_EXAMPLES=ON)
	@cmake --build build/release -j $(JOBS) --target example_unet
	@.venv/bin/python bench/e2e/unet.py $(ARGS)

# How long training waits beside a checkpoint after every step; about 15 minutes. ARGS=--quick: a minute.
bench-stalls: build
	@.venv/bin/python bench/e2e/stalls.py $(ARGS)

# Seconds to compile accrue/accrue.h beside torch/torch.h; about 10 minutes. ARGS=--quick: a minute.
bench-compile: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_TESTS=ON -DACCRUE_BUILD_BENCH=ON -DACCRUE_BUILD_EXAMPLES=ON)
	@.venv/bin/python bench/e2e/compile_time.py $(ARGS)

# Two ranks of unequal speed, and ranks that divide the optimizer's state; about 10 minutes. ARGS=--quick: a minute.
bench-dist: build
	@for part in unequal divided; do .venv/bin/python bench/e2e/$$part.py $(ARGS) || exit 1; done

# What ranks that die and come back cost; 10 minutes, with what `make test` built. ARGS=--quick: a minute.
bench-changing:
	@python3 bench/e2e/changing_ranks.py $(ARGS)

# Five clients by Flower's own processes over TLS, with and without secure sums. ARGS=--quick: a small model, four steps.
bench-federated: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,$(PYTHON_OPTIONS))
	@cmake --build build/release -j $(JOBS) --target accrue_native accrue
	@PYTHONPATH="$(CURDIR)/build/release/python" .venv-test/bin/python bench/e2e/federated.py $(ARGS)

# Clipping of the gradients of samples in a loop of Python, beside Opacus and training without privacy, after `make test`. ARGS=--quick: tiny models.
bench-private:
	@.venv-test/bin/python bench/e2e/private.py $(ARGS)

# A simulated hour of a thousand ranks that die and come back, by the program's own decisions; some minutes, after `make test`. ARGS=--quick: half a minute.
bench-thousand:
	@python3 bench/e2e/thousand_ranks.py $(ARGS)

# Two stages of a pipeline beside two ranks that share the batch; about 15 minutes. ARGS=--quick: a tiny model.
bench-pipeline: build
	@.venv/bin/python bench/e2e/pipeline.py $(ARGS)

# What waiting threads cost, alone and beside a second program; about 15 minutes. ARGS=--quick: a minute.
bench-spin: build
	@.venv/bin/python bench/e2e/spinning.py $(ARGS)

# Each CPU kernel beside ATen and the roofline; about 10 minutes. ARGS='--only gelu': some of them.
bench-kernels: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_TESTS=ON -DACCRUE_BUILD_BENCH=ON -DACCRUE_BUILD_EXAMPLES=ON)
	@cmake --build build/release -j $(JOBS) --target kernels_bench
	@.venv/bin/python bench/micro/kernels.py $(ARGS)

# The same training by PyTorch, torch.compile, Accelerate, Lightning and DeepSpeed, as installed and tuned; about 3 hours.
# ARGS=--quick: 5 minutes.
bench-peers: build
	@scripts/setup.sh peers
	@.venv-peers/bin/python bench/e2e/peers.py $(ARGS)

# The best micro-batch of each of them on one memory limit; about 4 hours. ARGS=--quick: 10 minutes.
bench-peers-memory: build
	@scripts/setup.sh peers
	@.venv-peers/bin/python bench/e2e/peers_memory.py $(ARGS)

# Plain torch::nn models in loops of their own, in an Accumulator's, and accelerated; about 30 minutes. ARGS=--quick: seconds.
bench-foreign: setup
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_BENCH=ON)
	@cmake --build build/release -j $(JOBS)
	@.venv/bin/python bench/e2e/foreign_layers.py $(ARGS)

# transformers' models in a Python loop, plain, tuned and with accrue; about an hour. ARGS=--quick: a minute.
bench-python: setup-test
	@mkdir -p build
	@$(call CONFIGURE,release,$(PYTHON_OPTIONS))
	@cmake --build build/release -j $(JOBS) --target accrue_native accrue
	@scripts/setup.sh peers
	@.venv-test/bin/python -W ignore bench/e2e/python_models.py $(ARGS)

# What a batch costs in loss and saves in steps, and what it costs to measure noise.
bench-batch: setup
	@mkdir -p build
	@$(call CONFIGURE,release,-DACCRUE_BUILD_BENCH=ON)
	@cmake --build build/release -j $(JOBS) --target accrue accumulation_bench
	@bench/e2e/noise.py $(ARGS)
	@bench/e2e/batch_curves.py $(ARGS)

# Fine-tuning beside transformers and PEFT; about 30 minutes. ARGS=--quick: a minute.
bench-finetune: build
	@scripts/setup.sh peers
	@.venv-peers/bin/python bench/e2e/finetune.py $(ARGS)

# What documents say of measurements, from bench/results.
bench-docs:
	@python3 bench/e2e/write_benchmarks.py

# Two ranks over links of 1 Gbit/s and 100 Mbit/s, beside PyTorch DDP; 35 minutes. ARGS=--quick: a minute or two.
bench-links: build
	@scripts/setup.sh peers
	@.venv-peers/bin/python bench/e2e/links.py $(ARGS)

# Two ranks that divide a model over 1 and 10 Gbit/s, beside PyTorch FSDP2; 20 minutes. ARGS=--quick: a minute.
bench-divided: build
	@scripts/setup.sh peers
	@.venv-peers/bin/python bench/e2e/divided_links.py $(ARGS)

# Loss by steps and by seconds with dist.compress, local steps and outer steps, and what they save on slow links; two hours. ARGS=--quick: a minute.
bench-curves: build
	@.venv/bin/python bench/e2e/curves.py $(ARGS)
	@.venv/bin/python bench/e2e/outer_curves.py $(ARGS)
	@.venv/bin/python bench/e2e/outer_links.py $(ARGS)

# accrue sample beside transformers' generate, greedy, with their caches; about 10 minutes. ARGS=--quick: a tiny model.
bench-decoding: build setup-test
	@.venv-test/bin/python bench/e2e/decoding.py $(ARGS)

# One batch as one pass and as many: time and memory; 5 minutes. ARGS=--quick: a tiny model.
bench-splits: build
	@.venv/bin/python bench/e2e/splits.py $(ARGS)

# The CPU's training by operators of ATen alone beside accrue's own kernels; about 10 minutes. ARGS=--quick: a tiny model.
bench-generic: build
	@.venv/bin/python bench/e2e/generic.py $(ARGS)

fmt:
	@$(CLANG_FORMAT) -i $(SOURCES)

fmt-check:
	@$(CLANG_FORMAT) --dry-run --Werror $(SOURCES)

# clang-tidy on what changed since BASE (default: the last commit).
BASE ?= HEAD~1
lint: override UNITY = OFF
lint: setup-test
	@mkdir -p build
	@$(call CONFIGURE,lint)
	@scripts/lint.sh $(BASE)

# The guides and the references as pages in build/docs/html.
docs: setup-docs
	@scripts/docs.sh

install: build
	@cmake --install build/release --prefix "$(or $(PREFIX_DIR),$(CURDIR)/build/install)"

clean:
	@rm -rf build
