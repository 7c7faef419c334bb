# `make run` and `make test` are all that is needed; both first install what is missing (scripts/setup.sh).

.PHONY: run build test test-kernels lint bench fuzz-smoke setup clean

CARGO ?= cargo
# SQL over recordings; `make build FEATURES=` leaves it out, which is built much sooner and is smaller.
FEATURES ?= --features magnet-scope/query
# Root tests need the binary and the test programs built by the ordinary user.
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

# Without SQL, which the demo has no use for and which takes longest to build.
run: setup
	$(CARGO) build --release --bin magnet-scope
	$(SUDO) ./target/release/magnet-scope demo

build: setup
	$(CARGO) build --release --bin magnet-scope $(FEATURES)

setup:
	@scripts/setup.sh

# Everything: those tests that need root run as root where that can be had, and say so where it cannot.
test: setup
	scripts/setup-clients.sh
	scripts/test.sh

# The capture tests inside Debian's stock kernels, in emulated machines.
test-kernels: setup
	scripts/test-kernels.sh

lint: setup
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets $(FEATURES) -- -D warnings
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --no-deps --workspace $(FEATURES)
	scripts/check-deny.sh

bench: setup
	$(CARGO) bench --workspace

fuzz-smoke: setup
	scripts/fuzz-smoke.sh

clean:
	$(CARGO) clean
