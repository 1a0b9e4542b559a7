"""Writes a small cursor file as slime would, without torch: a ZIP that holds one pickle."""

from __future__ import annotations

import pickle
import sys
import zipfile

state = {
    "sample_offset": 64,
    "epoch_id": 1,
    "sample_group_index": 276,
    "sample_index": 2208,
    "metadata": {},
}
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_STORED) as archive:
    archive.writestr("state/data.pkl", pickle.dumps(state, protocol=2))
    archive.writestr("state/byteorder", "little")
    archive.writestr("state/version", "3\n")
