"""`.pt` files: the safe reader, the atomic writer, and the one door to torch."""

from __future__ import annotations

from rolloutds.torch_file.arrays import ArrayType, ArrayValue
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.foreign import ForeignClass, ForeignObject
from rolloutds.torch_file.live import to_live
from rolloutds.torch_file.reader import read, read_many, read_pickle
from rolloutds.torch_file.scalars import OpaqueScalar, PlainScalar, ScalarValue
from rolloutds.torch_file.tensors import Storage, TensorValue, require_torch
from rolloutds.torch_file.writer import write

__all__ = [
    "ArrayType",
    "ArrayValue",
    "Budget",
    "ForeignClass",
    "ForeignObject",
    "OpaqueScalar",
    "PlainScalar",
    "ScalarValue",
    "Storage",
    "TensorValue",
    "read",
    "read_many",
    "read_pickle",
    "require_torch",
    "to_live",
    "write",
]
