#!/usr/bin/env bash
# The comparison on Bible verses on one GPU: rnn, bahdanau and transformer with 14 million parameters
# each and the same 1,000 updates of 8,192 tokens, once into the World English Bible (DIR) and once
# into the King James Version (DIR/kjv), three trainings side by side. An estimated 6 minutes on an
# H200; not run yet.
#
#   scripts/reproduce_gpu.sh DIR [OPTION...]
#
# DIR is a corpus made by scripts/prepare_bible.py. Reports: outputs/bible-gpu/{web,kjv}/report. Give
# the same command again after an interruption: finished models are kept, interrupted ones resume.
# OPTION is one of train.py. Rehearsal on a CPU, with the first lines of each file of DIR in SMALL:
#   scripts/reproduce_gpu.sh SMALL trainer.max_steps=2 data.token_budget=256 num_validations=1 \
#       data.tokenizer.vocab_size=300 threads=1
set -euo pipefail
cd "$(dirname "$0")/.."
directory=${1:?give the folder of the corpus}
shift
output=${OUTPUT:-outputs/bible-gpu}
recurrent=(model.width=384 model.encoder_hidden=480 model.decoder_hidden=1024)
sizes=()
for option in "${recurrent[@]}"; do
    sizes+=(--set rnn "$option" --set bahdanau "$option")
done
sizes+=(--set bahdanau model.attention_dim=256)
for option in model.width=384 model.num_heads=6 model.feed_forward=768 \
    model.encoder_layers=4 model.decoder_layers=4; do
    sizes+=(--set transformer "$option")
done
for english in web kjv; do
    folder=$directory
    if [ "$english" = kjv ]; then folder=$directory/kjv; fi
    python scripts/bottleneck.py --jobs 3 --output "$output/$english" "${sizes[@]}" \
        experiment=bible "data.directory='$folder'" model.dropout=0.3 decoding=beam \
        data.token_budget=8192 data.eval_token_budget=8192 optimizer.lr=1e-3 scheduler.warmup=100 \
        trainer.max_steps=1000 num_validations=5 threads=2 "$@"
done
