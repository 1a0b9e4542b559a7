#!/usr/bin/env bash
# All flags on the command line: rolloutds peek --from-script run_images.sh

cd "$(dirname "$0")" || exit 1
: "${IMAGE_COLUMN:=images}"
MEDIA="{\"image\": \"$IMAGE_COLUMN\"}"

python3 train.py --colocate \
  --prompt-data="$PWD/images.jsonl" --input-key prompt --label-key label \
  --multimodal-keys "$MEDIA" \
  --rollout-batch-size 4 --n-samples-per-prompt 4 --num-rollout 10
