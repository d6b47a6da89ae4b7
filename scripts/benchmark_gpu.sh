#!/usr/bin/env bash
# What is measured on one GPU, figures to OUTPUT/train.json:
#   - that attention is fused at every place (fails where it is not),
#   - speed, memory, time split and MFU of training, and what compiling changes of them.
# An estimated 7 minutes on an H200; not run yet.
#
#   scripts/benchmark_gpu.sh OUTPUT [OPTION...]
#
# OPTION is one of train.py, such as data=bible data.directory=DIR (default: the built-in corpus).
# Rehearsal on a CPU:
#   DEVICE=cpu MODELS=rnn scripts/benchmark_gpu.sh OUTPUT data.token_budget=512 data.num_workers=0
set -euo pipefail
cd "$(dirname "$0")/.."
output=${1:?give a folder for the figures}
shift
device=${DEVICE:-cuda}
python -m pytest tests/scripts/test_fused_attention.py
python scripts/benchmark.py train --device "$device" --output "$output/train.json" \
    --models "${MODELS:-rnn,bahdanau,transformer,transformer_base,transformer_big}" \
    --against compile=true --rounds 3 \
    data.token_budget=25000 data.num_workers=2 "$@"
