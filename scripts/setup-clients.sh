#!/usr/bin/env bash
# Installs the tools that the tests compare exports with. They go outside the repository, and magnet-scope
# runs without them. With --engines also engines of containers. Reports failed installations; the tests of
# these tools are then skipped with a message.
set -uo pipefail

say() { printf 'setup-clients: %s\n' "$*" >&2; }
clients=${XDG_CACHE_HOME:-$HOME/.cache}/magnet-scope/clients

# Debian's packages. On other distributions, the tests of missing ones are skipped.
missing=()
for name in tshark babeltrace2 zstd xdotool openssl; do
    command -v "$name" >/dev/null || missing+=("$name")
done
# A Prometheus that scrapes, and checks the result.
{ command -v prometheus && command -v promtool; } >/dev/null || missing+=(prometheus)
# A virtual display and its screenshots, for the window's tests.
command -v Xvfb >/dev/null || missing+=(xvfb libgl1-mesa-dri)
command -v import >/dev/null || missing+=(imagemagick)
# A bus for the tests of agents, which start their own. The package's service must not run.
command -v nats-server >/dev/null || [ -x /usr/sbin/nats-server ] || missing+=(nats-server)
# Servers and a client whose requests are found. None of their services may run.
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v unbound >/dev/null || [ -x /usr/sbin/unbound ] || missing+=(unbound)
command -v h2load >/dev/null || missing+=(nghttp2-client)
# Traffic of the tutorial.
command -v iperf3 >/dev/null || missing+=(iperf3)
ls /usr/lib/postgresql/*/bin/pgbench >/dev/null 2>&1 || missing+=(postgresql)
# Engines whose containers are named. The tests start their own daemons.
if [ "${1:-}" = --engines ]; then
    for name in docker.io podman containerd runc busybox-static; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
    done
fi
if [ ${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null; then
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    say "installing ${missing[*]}"
    # The programs are needed without services. Debian runs this file before it starts a service. An existing
    # file stays.
    policy=/usr/sbin/policy-rc.d
    forbids=
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null &&
            "${as_root[@]}" chmod 755 "$policy" && forbids=yes
    fi
    trap '[ -z "$forbids" ] || "${as_root[@]}" rm -f "$policy"; exit 1' INT TERM
    # An image may have no lists of packages.
    "${as_root[@]}" apt-get update -qq >&2 || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
        say "could not install ${missing[*]}: their tests are skipped"
    trap - INT TERM
    [ -z "$forbids" ] || "${as_root[@]}" rm -f "$policy"
    # The service must not start at the next boot either.
    for package in prometheus nats-server nginx-light redis-server unbound postgresql; do
        [[ " ${missing[*]} " != *" $package "* ]] || ! command -v systemctl >/dev/null ||
            "${as_root[@]}" systemctl -q disable "${package%-light}.service" >&2
    done
fi

if [ ! -x "$clients/bin/python" ]; then
    say "making a Python environment in $clients"
    python3 -m venv "$clients" >&2 || { say "no python3 with venv: the tests of Python clients are skipped"; exit 0; }
fi
if ! "$clients/bin/python" -c 'import duckdb, polars, pyarrow, perfetto' 2>/dev/null; then
    say "installing pyarrow, duckdb, polars and Perfetto's definitions"
    "$clients/bin/pip" install -q pyarrow duckdb polars perfetto >&2 || say "could not: their tests are skipped"
fi
if ! "$clients/bin/python" -c 'import prometheus_client, sexpdata' 2>/dev/null; then
    say "installing parsers of OpenMetrics and of s-expressions"
    "$clients/bin/pip" install -q prometheus_client sexpdata >&2 || say "could not: their tests are skipped"
fi
# The schemas of Kubernetes.
if ! "$clients/bin/python" -c 'import kubernetes_validate, yaml' 2>/dev/null; then
    say "installing the schemas of Kubernetes"
    "$clients/bin/pip" install -q kubernetes-validate pyyaml >&2 || say "could not: their tests are skipped"
fi
# A server and a client of gRPC.
if ! "$clients/bin/python" -c 'import grpc' 2>/dev/null; then
    say "installing gRPC"
    "$clients/bin/pip" install -q grpcio >&2 || say "could not: its test is skipped"
fi
# A collector of OpenTelemetry.
if ! "$clients/bin/python" -c 'import rotel' 2>/dev/null; then
    say "installing a collector of OpenTelemetry"
    "$clients/bin/pip" install -q rotel >&2 || say "could not: its test is skipped"
fi
# An object store on this host, and Amazon's client for it.
if ! "$clients/bin/python" -c 'import boto3, moto.server' 2>/dev/null; then
    say "installing an S3 server and its client"
    "$clients/bin/pip" install -q 'moto[s3,server]' boto3 >&2 || say "could not: their tests are skipped"
fi
# LBL's NetLogger parser is part of Pegasus. Only that part is installed, without the dependencies of Pegasus.
if ! "$clients/bin/python" -c 'import Pegasus.netlogger' 2>/dev/null; then
    say "installing LBL's NetLogger parser"
    work=$(mktemp -d)
    if "$clients/bin/pip" download -q --no-deps --no-binary pegasus-wms -d "$work" pegasus-wms==5.1.3 >&2 &&
        tar -xzf "$work"/pegasus?wms-5.1.3.tar.gz -C "$work"; then
        packages=$("$clients/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        mkdir -p "$packages/Pegasus"
        cp -r "$work"/pegasus?wms-5.1.3/src/Pegasus/netlogger "$packages/Pegasus/"
    else
        say "could not: its tests are skipped"
    fi
    rm -rf "$work"
fi
exit 0
