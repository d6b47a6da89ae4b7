#!/usr/bin/env bash
# The real-text comparison on one GPU: trains rnn, bahdanau and transformer on opendocs (15 million
# parameters each, the same 1,500 updates of 16,384 tokens), measures and compares them.
#
#   scripts/reproduce_gpu.sh DIR [OPTION...]
#
# DIR is a corpus made by scripts/prepare_opendocs.py. Give the same command again after an
# interruption: finished models are kept, the interrupted one continues. Rehearsal on a CPU:
#   scripts/reproduce_gpu.sh DIR trainer.max_steps=4 data.token_budget=512 num_validations=1 threads=1
set -euo pipefail
cd "$(dirname "$0")/.."
directory=${1:?give the folder of the corpus}
shift
exec python scripts/bottleneck.py --experiment opendocs --seeds 1 --output outputs/opendocs-gpu \
    "data.directory='$directory'" "$@"
