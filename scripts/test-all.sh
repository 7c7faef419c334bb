#!/usr/bin/env bash
# Runs every test unattended: `make test` and the tests that take longer. A table at the end has the results.
#
# usage: scripts/test-all.sh     (SOAK=10m, FUZZ_SECS=60, REQUESTS=1000 and KERNELS='6.12 6.1' for others)
# The output of each step goes to target/test-all/STEP.log. After a failed step, the next ones still run.
set -uo pipefail
cd "$(dirname "$0")/.."

logs=target/test-all
rm -rf "$logs"
mkdir -p "$logs"
rows=()
failed=0

# step NAME COMMAND…
step() {
    local name=$1 begin=$SECONDS result=passed skips
    shift
    printf '== %s: %s\n' "$name" "$*" >&2
    "$@" </dev/null >"$logs/$name.log" 2>&1 || { result=FAILED failed=1; tail -n 30 "$logs/$name.log" >&2; }
    skips=$(grep -ac 'skipped, because' "$logs/$name.log" || true)
    rows+=("$(printf '%-12s %-8s %7d %8d' "$name" "$result" "$skips" $((SECONDS - begin)))")
}

e2e=(cargo test --workspace --features magnet-scope/query --test e2e --)
read -r -a kernels <<<"${KERNELS:-}"
step engines scripts/setup-clients.sh --engines
step tests env GUESTS=no MAGSCOPE_ENGINES=1 scripts/test.sh
step machines "${e2e[@]}" --nocapture machines:: broken_clocks::
step card-clocks env MAGNET_SCOPE="${CARGO_TARGET_DIR:-target}/debug/magnet-scope" scripts/card-clocks.sh
step worlds env MAGSCOPE_CASES=4000 cargo test --release -p magscope-core --test all model_
step keys env MAGSCOPE_KEYS=1000000 cargo test --release -p magscope-tui --test all random_keys::
step clicks env MAGSCOPE_KEYS=1000000 cargo test --release -p magscope-gui --test all wild::random_input
step same-runs "${e2e[@]}" --nocapture same_runs::
step kernels scripts/test-kernels.sh --full "${kernels[@]}"
step old-and-new scripts/test-kernels.sh --suites 'kernels backends exact points switches custom filters control synthesis driver' 5.10 newest
step truth scripts/truth-kernels.sh "${kernels[@]}"
# Other flavours of one series: a real-time kernel, and one for more than clouds.
step flavours scripts/test-kernels.sh --suites points 6.12:rt 6.12:generic
step arm64 scripts/test-kernels.sh --suites 'exact points' 6.12:arm64
step recordings scripts/recordings-arm64.sh
step requests env MAGSCOPE_REQUESTS="${REQUESTS:-100000}" "${e2e[@]}" --nocapture requests::each_request requests::a_turn_of_grpc requests::pgbench
step soak env MAGNET_SOAK="${SOAK:-10m}" "${e2e[@]}" --nocapture soak::
step static scripts/build-static.sh
step static-runs scripts/check-static
step static-arm64 env STATIC_ARCH=aarch64 scripts/build-static.sh
step arm64-runs scripts/check-static "${CARGO_TARGET_DIR:-target}/aarch64-unknown-linux-musl/dist/magnet-scope"
step crates scripts/check-crates install
step packages scripts/check-packages
step new-hop scripts/check-new-hop
step new-view scripts/check-new-view
step fuzz scripts/fuzz-smoke.sh

printf '\n%-12s %-8s %7s %8s\n' step result skipped seconds
printf '%s\n' "${rows[@]}"
printf 'logs: %s\n' "$logs"
exit $failed
