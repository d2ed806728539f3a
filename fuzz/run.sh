#!/bin/sh
# Fuzzes the proxy's handling of heads: fuzz/run.sh [SECONDS [FOLDER]], 600 s and target/fuzz by default.
# Runs on the stable compiler: libFuzzer needs its counters, which two flags of the code generator add, and no sanitizer.
set -eu
cd "$(dirname "$0")"
seconds=${1:-600}
folder=${2:-${CARGO_TARGET_DIR:-target}/fuzz}
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing" \
    cargo build --release --locked --target "$host"
./seeds.py "$folder/seeds"
mkdir -p "$folder/found"
exec "${CARGO_TARGET_DIR:-target}/$host/release/head" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
    -max_len=16384 -artifact_prefix="$folder/" "$folder/found" "$folder/seeds"
