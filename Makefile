# `make run` and `make test` suffice; both first install missing packages (scripts/setup.sh).

.PHONY: run site build build-arm64 build-static dist install uninstall test test-truth test-all test-kernels lint bench fuzz-smoke setup setup-tests clean

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# SQL over recordings. `make build FEATURES=` leaves it out, which builds faster and is smaller.
FEATURES ?= --features magnet-scope/query
# An ordinary user builds the binary and the programs of root tests.
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

# The demo does not use SQL, buckets and the window, which take longest to build.
run: setup
	$(CARGO) build --profile quick --bin magnet-scope --no-default-features
	$(SUDO) '$(abspath $(TARGET))/quick/magnet-scope' demo

# target/dist/magnet-scope has no symbols. magnet-scope.debug in the same folder has them and the line tables; gdb and
# perf find it there.
build: setup
	$(CARGO) build --profile dist --bin magnet-scope $(FEATURES)
	scripts/split-symbols.sh '$(TARGET)/dist/magnet-scope'

# The binary without the window and without SQL, for any Linux. STATIC_ARCH=aarch64 builds that of arm64.
build-static: setup
	scripts/build-static.sh

# Both binaries, packages, an image and checksums, in target/packages.
dist: setup
	FEATURES='$(FEATURES)' scripts/dist.sh

# What `make build` built, or BINARY=…, with its pages, completions and services. DESTDIR is for packages.
PREFIX ?= /usr/local
BINARY ?= $(TARGET)/dist/magnet-scope
install:
	PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh install '$(BINARY)'

uninstall:
	PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh uninstall

# docs/ as a site with search, in target/site, with its links checked. mdBook is compiled first, which takes a minute.
site:
	scripts/site.sh

# The same binary for arm64, on an x86-64 machine with Debian's packages.
build-arm64: setup
	scripts/build-arm64.sh

setup:
	@scripts/setup.sh

setup-tests:
	@scripts/setup.sh --tests
	scripts/setup-clients.sh

# Every test but those of test-all. Tests that need root run as root if possible, else they report that they
# were skipped.
test: setup-tests
	scripts/test.sh

# Also every stock kernel, emulated machines, ten minutes under load, and fuzzing. Runs unattended and ends
# with a table.
test-all: setup-tests
	scripts/test-all.sh

# Exported journeys against programs that noted each of their own calls. `make test` has them too.
test-truth: setup-tests
	$(CARGO) test --workspace $(FEATURES) --test e2e truth::

# The capture tests inside Debian's stock kernels, in emulated machines.
test-kernels: setup-tests
	scripts/test-kernels.sh

lint:
	@scripts/setup.sh --tests
	$(CARGO) fmt --check
	scripts/check-format
	scripts/check-docs
	scripts/check-words
	$(CARGO) clippy --workspace --all-targets $(FEATURES) -- -D warnings
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --no-deps --workspace $(FEATURES)
	scripts/check-deny.sh

bench: setup
	$(CARGO) bench --workspace

fuzz-smoke: setup
	scripts/fuzz-smoke.sh

clean:
	$(CARGO) clean
