# make build   the programs, Spark's plugin jar, and a Python environment with Spark in it
# make demo    TPC-H sealed beside TPC-H in the clear: the answers, the times, what the host could
#              see; STORE=s3, STORE=hdfs: its tables there
# make dist    into dist/: the wheel coffer-spark, and the jar with the programs in a local Maven
#              repository; DIST_PROFILE=release: of the programs of `build`; VM=1: and the image of
#              the measured virtual machine
# make quick   a short selection while you work: formatters, unit tests, goldens, one sealed session
# make test    every test: Rust, Scala, Python; and all that `lint` checks
# make test-full  the same with what takes longer
# make bench   TPC-H at SF 1: sealed against plaintext Spark and against the unsealed build; and
#              encryption against Spark's rewriting
# make attack  a malicious host, RUNS times: nothing wrong may come of it; JSON=FILE takes the
#              counts, SEED=n repeats a run, LIVE=n go through Spark
# make leaks   a host that reads: values planted, and searched in all that it can read; JSON=FILE
#              takes the counts
# make reproduce  what `make dist` makes, twice, in different folders: the same bytes, or which file
#              differs
# make lint    what `test` checks of the sources: formatters and linters of the three languages,
#              clippy, rustdoc, pages, licences
# make fuzz    fuzz targets under libFuzzer, TIME seconds each; TARGET=name, TARGET=all
# make tcb     the crates and lines that run inside an enclave
# make clean   what `build` made (the caches of cargo, Maven and pip stay)
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/coffer
CARGO_TARGET_DIR ?= $(CACHE)/target
VENV ?= $(CACHE)/venv
PYTHON ?= python3
export CARGO_TARGET_DIR VENV PYTHON
export PYTHONPATH := $(CURDIR)/python/src:$(CURDIR)/testing
# Coffer's own tools are this tree's: nothing set for an installed copy may stand in for them.
unexport COFFER_BIN COFFER_JAR COFFER_CONFIG_DIR COFFER_HOME COFFER_PASSPHRASE

# Where rustup has not got the toolchain of rust-toolchain.toml and cannot fetch it, its own choice
# builds; check-tools looks at the version.
ifeq ($(shell rustc --version 2>/dev/null),)
export RUSTUP_TOOLCHAIN := stable
endif

JAR := spark/target/coffer-spark.jar
# For other lines of Spark's versions.
LINES := $(shell sed -n 's|.*<id>spark-\(.*\)</id>.*|\1|p' spark/pom.xml)
LINE_JARS := $(LINES:%=spark/target/spark-%/coffer-spark.jar)
# With the plugin's jar comes that of the malicious executor (adversary/), which is test code.
SUITES := spark/src/test/scala
HOSTILE := $(SUITES)/gadget $(addprefix $(SUITES)/org/apache/spark/sql/coffer/,hostile recorded)
JAR_SOURCES := spark/pom.xml $(shell find spark/src/main $(HOSTILE) proto -type f 2>/dev/null)
BENCH_SF ?= 1
RUNS ?= 10000
# What is shipped: against an old glibc, for processors of this level.
DIST_PROFILE ?= dist
DIST_CPU ?= x86-64-v3

.PHONY: build parts programs helpers store tools engine demo dist quick test test-full test-tools
.PHONY: jars reproduce bench attack leaks lint fuzz tcb format clean

# Side by side, since Maven and pip wait for their downloads; make's own -j is not needed.
build: tools
	@$(MAKE) --no-print-directory -j3 parts

parts: engine $(JAR) $(VENV)/.ready

tools:
	@scripts/check-tools

# Always the whole workspace with its tests: cargo joins the features of what is selected, and with
# another selection (`-p`, or without tests) they differ, and DataFusion is built once more. Cargo
# knows by itself what is fresh.
engine: | tools
	@cargo build --release --locked --workspace --bins --tests --manifest-path engine/Cargo.toml
	@cargo build --release --locked --bins --tests --manifest-path helpers/Cargo.toml
	@if pkg-config --exists tss2-esys 2>/dev/null; then \
	  cargo build --release --locked -p coffer-tpm-quote --manifest-path helpers/Cargo.toml; \
	else echo "note: coffer-tpm-quote is not built, as libtss2-dev and pkg-config are missing" \
	  "(TPM evidence only)"; fi

# What users run: the engine workspace's programs. A test among the targets gives its libraries the
# features that they have in `engine`.
programs: | tools
	@cargo build --release --locked --workspace --bins --test unsealed \
	  --manifest-path engine/Cargo.toml

helpers: | tools
	@cargo build --release --locked --bins --tests --manifest-path helpers/Cargo.toml

# What reaches tables at URLs for the command line.
store: | tools
	@cargo build --release --locked -p coffer-store --manifest-path helpers/Cargo.toml

$(JAR): $(JAR_SOURCES) | tools
	mvn -q -B -f spark/pom.xml package -DskipTests
	@touch $@

# One after the other, as each run of Maven fills the machine and its repository of artifacts.
$(LINE_JARS): spark/target/spark-%/coffer-spark.jar: $(JAR_SOURCES) | tools
	mvn -q -B -f spark/pom.xml package -Pspark-$*
	@touch $@

jars: $(JAR)
	@for jar in $(LINE_JARS); do $(MAKE) --no-print-directory $$jar || exit 1; done

$(VENV)/.ready: testing/requirements.txt | tools
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r testing/requirements.txt
	@touch $@

demo: tools
	@$(MAKE) --no-print-directory -j3 programs $(if $(STORE),store) $(JAR) $(VENV)/.ready
	@testing/run demo $(if $(STORE),--store $(STORE))

dist: tools
	@$(MAKE) --no-print-directory -j3 $(if $(filter release,$(DIST_PROFILE)),programs helpers) \
	  $(VENV)/.ready jars
	@scripts/dist --profile $(DIST_PROFILE) --cpu $(DIST_CPU) \
	  $(if $(VM),--vm $(if $(KERNEL),--kernel $(KERNEL)) $(if $(FIRMWARE),--firmware $(FIRMWARE)) \
	    $(if $(TDX_FIRMWARE),--tdx-firmware $(TDX_FIRMWARE))) \
	  $(if $(SIGN),--sign $(SIGN))

quick: build
	@scripts/test-all --quick

# Before `build`, so that what is missing is named at once.
test-tools:
	@scripts/check-tools --test || { [ -z "$${COFFER_TEST_STRICT:-}" ] && scripts/check-tools && \
	echo "note: tests that need what is missing are left out;" \
	  "with COFFER_TEST_STRICT=1 that is an error"; }

test: test-tools build
	@scripts/test-all

test-full: test-tools build
	@scripts/test-all --full

reproduce: tools $(VENV)/.ready
	@scripts/reproduce --profile $(DIST_PROFILE)

bench: build
	bench/run tpch --sf $(BENCH_SF) --json bench/results/tpch-sf$(BENCH_SF).json
	bench/run encrypt --sf $(BENCH_SF) --json bench/results/encrypt-sf$(BENCH_SF).json
	bench/run schemes --json bench/results/schemes.json
	bench/report

attack: build
	adversary/run --runs $(RUNS) $(if $(JSON),--json $(JSON)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(LIVE),--live $(LIVE))

leaks: build
	testing/run leaks $(if $(JSON),--json $(JSON))

lint: tools $(VENV)/.ready
	@scripts/check-style
	@scripts/check-docs
	@scripts/check-dependencies
	@scripts/check-rust

TIME ?= 60

fuzz: tools
	@FUZZ_TARGET_DIR=$(CACHE)/fuzz-target scripts/fuzz $(TIME) $(TARGET)

tcb: engine
	@scripts/tcb

format: tools $(VENV)/.ready
	cargo fmt --all --manifest-path engine/Cargo.toml
	cargo fmt --all --manifest-path helpers/Cargo.toml
	cargo fmt --all --manifest-path fuzz/Cargo.toml
	mvn -q -B -f spark/pom.xml spotless:apply
	$(VENV)/bin/ruff check --fix python testing adversary bench compat/make deploy
	$(VENV)/bin/ruff format python testing adversary bench compat/make deploy

clean:
	rm -rf spark/target dist $(VENV) $(CARGO_TARGET_DIR)-unsealed $(CARGO_TARGET_DIR)-dist
	cargo clean --release --manifest-path engine/Cargo.toml
