#!/bin/sh
# The comparison of methods, in pieces: each call goes on where the last one ended, and stops after
# SECONDS of work if the second argument names them. Runs on the GPU that DEVICE names.
#
#     examples/results/run.sh target/debug/tandem [SECONDS]
set -eu
cd "$(dirname "$0")/../.."
program=$1
end=$(( $(date +%s) + ${2:-1000000} ))
device=${DEVICE:-cuda:0}
methods=${METHODS:-grpo harness-only harness-adapt self-hpo}
seeds=${SEEDS:-1 2 3}
work=runs/results
mkdir -p "$work"

# What is left of the time, for `timeout`; nothing left ends the call, which is no failure.
piece() {
    left=$(( end - $(date +%s) ))
    if [ "$left" -le 5 ]; then echo "time is up: call again to go on"; exit 0; fi
    status=0
    timeout --signal=TERM "$left" "$@" || status=$?
    if [ "$(date +%s)" -ge "$end" ]; then echo "time is up: call again to go on"; exit 0; fi
    return "$status"
}

if [ ! -d "$work/tasks" ]; then
    rm -rf "$work/tasks.part"
    piece python3 examples/results/pools.py "$work/tasks.part"
    mv "$work/tasks.part" "$work/tasks"
fi
if [ ! -d "$work/warm/adapter" ]; then
    rm -rf "$work/warm" && mkdir -p "$work/warm"
    piece "$program" demos "$work/tasks/warm" --harness examples/quickstart/harness.toml \
        --out "$work/warm/demos.jsonl" --concurrency 16
    piece "$program" sft --data "$work/warm/demos.jsonl" --out "$work/warm/sft" --device "$device" --rank 16 --alpha 32 \
        --epochs "${EPOCHS:-4}" --batch 16 --learning-rate 1e-3 --seed 1 --max-tokens 768 --micro-batch-tokens 12288 \
        --pad-to-multiple-of 768
    mv "$work/warm/sft/adapter" "$work/warm/adapter"
fi
for seed in $seeds; do
    for method in $methods; do
        run=$work/$method-$seed
        if [ -e "$run.done" ]; then continue; fi
        resume=
        if [ -e "$run/campaign.json" ]; then resume=--resume; else rm -rf "$run"; fi
        piece "$program" train "examples/results/$method.toml" --run "$run" --seed "$seed" --device "$device" $resume
        touch "$run.done"
    done
done
for seed in $seeds; do
    joint=$work/harness-adapt-$seed
    if [ ! -e "$joint.done" ] || [ -e "$joint.measured" ]; then continue; fi
    set -- --tasks "$work/tasks/held-out" --device "$device" --episodes 8
    for pair in policy-only:grpo harness-only:harness-only; do
        if [ -e "$work/${pair#*:}-$seed.done" ]; then set -- "$@" "--${pair%%:*}" "$work/${pair#*:}-$seed"; fi
    done
    piece "$program" eval "$joint" "$@"
    touch "$joint.measured"
    hpo=$work/self-hpo-$seed
    if [ -e "$hpo.done" ]; then
        piece "$program" eval "$hpo" --tasks "$work/tasks/held-out" --device "$device" --episodes 8
        touch "$hpo.measured"
    fi
done
echo "all is measured: $work/*/evaluation/report.md"
