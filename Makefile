# `make run` and `make test` are all that is needed; both first install what is missing (scripts/setup.sh).

.PHONY: run build test test-all test-kernels lint bench fuzz-smoke setup setup-tests clean

CARGO ?= cargo
# SQL over recordings; `make build FEATURES=` leaves it out, which is built much sooner and is smaller.
FEATURES ?= --features magnet-scope/query
# Root tests need the binary and the test programs built by the ordinary user.
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

# The demo has no use for SQL, buckets and the window, which take longest to build.
run: setup
	$(CARGO) build --profile quick --bin magnet-scope --no-default-features
	$(SUDO) ./target/quick/magnet-scope demo

# The binary has no symbols; these and its line tables are in magnet-scope.debug beside it, where gdb and perf look for them.
build: setup
	$(CARGO) build --release --bin magnet-scope $(FEATURES)
	scripts/split-symbols.sh target/release/magnet-scope

setup:
	@scripts/setup.sh

setup-tests:
	@scripts/setup.sh --tests
	scripts/setup-clients.sh

# Every test but those of test-all. Tests that need root run as root where that can be had, and say so where it cannot.
test: setup-tests
	scripts/test.sh

# Also every stock kernel, emulated machines, ten minutes under load, and fuzzing. Runs unattended and ends with a table.
test-all: setup-tests
	scripts/test-all.sh

# The capture tests inside Debian's stock kernels, in emulated machines.
test-kernels: setup-tests
	scripts/test-kernels.sh

lint: setup
	$(CARGO) fmt --check
	scripts/check-format
	scripts/check-docs
	$(CARGO) clippy --workspace --all-targets $(FEATURES) -- -D warnings
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --no-deps --workspace $(FEATURES)
	scripts/check-deny.sh

bench: setup
	$(CARGO) bench --workspace

fuzz-smoke: setup
	scripts/fuzz-smoke.sh

clean:
	$(CARGO) clean
