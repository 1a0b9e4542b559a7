#!/bin/bash
# A launch script as a run of slime has it, to be read: rolloutds peek --from-script run_grpo.sh

set -ex

SCRIPT_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
source "${SCRIPT_DIR}/paths.sh"

DATA_DIR=${DATA_DIR:-"${SCRIPT_DIR}"}
RUN_NAME=grpo-$(date +%Y%m%d)   # known only when it runs; no flag about the data needs it

CKPT_ARGS=(
   --hf-checkpoint "${MODEL_ROOT}/example-4B"
   # --hf-checkpoint "${MODEL_ROOT}/example-4B-FP8"
   --load "${SCRIPT_DIR}/run"
   --save "${CHECKPOINT_ROOT}/grpo"
   --save-interval 4
)

ROLLOUT_ARGS=(
   --prompt-data "${DATA_DIR}/prompts.jsonl"
   --input-key prompt
   --label-key 'label'
   --rollout-shuffle
   --rollout-seed 42

   --rollout-batch-size 32   # prompts a rollout
   --n-samples-per-prompt 8
   --num-epoch 3
   --rollout-max-response-len 8192
   --rollout-temperature 1
)
ROLLOUT_ARGS+=(--reward-key score)

EVAL_ARGS=(
   --eval-interval 20
   --eval-prompt-data tail "${DATA_DIR}/prompts.jsonl@[200:]" \
                      tools "${DATA_DIR}/tools.jsonl"
   --n-samples-per-eval-prompt 4
)

GRPO_ARGS=(--advantage-estimator grpo --eps-clip 0.2)

ray job submit --address="http://127.0.0.1:8265" \
   --runtime-env-json="{\"env_vars\": {\"RUN_NAME\": \"${RUN_NAME}\"}}" \
   -- python3 train.py \
   --actor-num-gpus-per-node "$NUM_GPUS" \
   "${CKPT_ARGS[@]}" \
   "${ROLLOUT_ARGS[@]}" \
   "${EVAL_ARGS[@]}" \
   "${GRPO_ARGS[@]}" \
   ${WANDB_KEY:+--use-wandb --wandb-group "$RUN_NAME"}
