# Where this machine keeps things; run_grpo.sh sources it.

MODEL_ROOT=${MODEL_ROOT:-/models}
export CHECKPOINT_ROOT="${CHECKPOINT_ROOT:-/checkpoints}"
readonly NUM_GPUS=8
