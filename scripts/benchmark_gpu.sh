#!/usr/bin/env bash
# What is measured on one GPU, figures to OUTPUT/*.json, about ten minutes:
#   - that attention is fused at every place (ends with an error where it is not),
#   - speed, memory, time split and MFU of training, and what compiling changes of them.
#
#   scripts/benchmark_gpu.sh OUTPUT [OPTION...]
#
# Options are those of train.py, such as data=opendocs data.directory=DIR (default: the built-in
# corpus). Rehearsal on a CPU:
#   DEVICE=cpu MODELS=rnn scripts/benchmark_gpu.sh OUTPUT data.token_budget=512 data.num_workers=0
set -euo pipefail
cd "$(dirname "$0")/.."
output=${1:?give a folder for the figures}
shift
device=${DEVICE:-cuda}
mkdir -p "$output"
python scripts/benchmark.py sdpa --device "$device" --output "$output/sdpa.json"
python scripts/benchmark.py train --device "$device" --output "$output/train.json" \
    --models "${MODELS:-rnn,bahdanau,transformer,transformer_base,transformer_big}" \
    --against compile=true --rounds 3 \
    data.token_budget=25000 data.num_workers=2 "$@"
