#!/bin/sh
# The comparison of methods, in pieces: each call goes on where the last one ended, and stops after
# SECONDS of work if the second argument names them. Runs on the GPU that DEVICE names.
#
#     examples/results/run.sh target/debug/tandem [SECONDS]
#
# STEPS (warm train measure), METHODS and SEEDS choose a part, so that several can run side by side.
set -eu
cd "$(dirname "$0")/../.."
program=$1
end=$(( $(date +%s) + ${2:-1000000} ))
device=${DEVICE:-cuda:0}
methods=${METHODS:-grpo harness-only harness-adapt self-hpo}
seeds=${SEEDS:-1 2 3}
steps=${STEPS:-warm train measure}
episodes=${EPISODES:-2}
work=runs/results
mkdir -p "$work"

wanted() {
    case " $steps " in *" $1 "*) true ;; *) false ;; esac
}

# What is left of the time, for `timeout`; nothing left ends the call, which is no failure.
piece() {
    left=$(( end - $(date +%s) ))
    if [ "$left" -le 5 ]; then echo "time is up: call again to go on"; exit 0; fi
    status=0
    timeout --signal=TERM "$left" "$@" || status=$?
    if [ "$(date +%s)" -ge "$end" ]; then echo "time is up: call again to go on"; exit 0; fi
    return "$status"
}

warm() {
    if [ ! -d "$work/tasks" ]; then
        rm -rf "$work/tasks.part"
        piece python3 examples/results/pools.py "$work/tasks.part"
        mv "$work/tasks.part" "$work/tasks"
    fi
    mkdir -p "$work/warm"
    if [ ! -e "$work/warm/demos.jsonl" ]; then
        piece "$program" demos "$work/tasks/warm" --harness examples/quickstart/harness.toml \
            --out "$work/warm/demos.part" --concurrency 16
        mv "$work/warm/demos.part" "$work/warm/demos.jsonl"
    fi
    if [ ! -d "$work/warm/adapter" ]; then
        resume=
        if [ -e "$work/warm/sft/sft.json" ]; then resume=--resume; else rm -rf "$work/warm/sft"; fi
        piece "$program" sft --data "$work/warm/demos.jsonl" --out "$work/warm/sft" --device "$device" \
            --rank 16 --alpha 32 --epochs "${EPOCHS:-3}" --batch 16 --learning-rate 1e-3 --seed 1 \
            --max-tokens 768 --micro-batch-tokens 12288 --pad-to-multiple-of 768 $resume
        mv "$work/warm/sft/adapter" "$work/warm/adapter"
    fi
    if [ ! -d "$work/human" ]; then human; fi
}

# What a person would put together for small repair tasks, from the plugins of this repository.
human() {
    home=$work/human.part
    rm -rf "$home"
    "$program" harness activate examples/quickstart/harness.toml --home "$home" --reason "where all methods start"
    for plugin in path-hint:workspace-read remind-tests:state rescue-patch hold-empty-patch; do
        name=${plugin%%:*}
        set --
        if [ "$name" != "$plugin" ]; then set -- --grant "${plugin#*:}"; fi
        "$program" plugin build "plugins/$name/src/lib.rs" -o "$home/$name.wasm"
        "$program" harness add "$name" "$home/$name.wasm" --home "$home" --reason "a person's choice" "$@"
    done
    "$program" harness show --toml --home "$home" > "$home/harness.toml"
    mv "$home" "$work/human"
}

train() {
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
}

# The matrix of each run; around harness-adapt with the policy of grpo and the harness of harness-only beside it.
measure() {
    for seed in $seeds; do
        for method in $methods; do
            run=$work/$method-$seed
            if [ ! -e "$run.done" ] || [ -e "$run.measured" ]; then continue; fi
            case $method in
            harness-adapt | self-hpo) set -- --human "$work/human/harness.toml" --blobs "$work/human/blobs" ;;
            *) set -- ;;
            esac
            if [ "$method" = harness-adapt ]; then
                # Its arms are settled at the first call, so those that it is compared with come first.
                if [ ! -e "$work/grpo-$seed.done" ] || [ ! -e "$work/harness-only-$seed.done" ]; then continue; fi
                for pair in policy-only:grpo harness-only:harness-only; do
                    set -- "$@" "--${pair%%:*}" "$work/${pair#*:}-$seed"
                done
            fi
            piece "$program" eval "$run" --tasks "$work/tasks/held-out" --device "$device" --episodes "$episodes" "$@"
            touch "$run.measured"
        done
    done
}

if wanted warm; then warm; fi
if wanted train; then train; fi
if wanted measure; then measure; fi
echo "done: $steps"
