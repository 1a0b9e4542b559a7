"""Files made to run something, to crash the interpreter, or to eat memory and time."""

from __future__ import annotations

import copyreg
import json
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from rolloutds.errors import TorchFileError
from rolloutds.torch_file import Budget, ForeignClass, ForeignObject, TensorValue, read, to_live

# --- nothing runs ---------------------------------------------------------------------------


class _Run:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_a_command_is_shown_and_not_run(make_archive, tmp_path: Path, protocol: int):
    witness = tmp_path / "witness"
    path = make_archive(pickle.dumps({"a": _Run(os.system, f"touch {witness}")}, protocol))

    value = read(path)["a"]

    assert not witness.exists()
    assert isinstance(value, ForeignObject)
    assert value.class_name == f"{os.system.__module__}.system"
    assert value.args == (f"touch {witness}",)


@pytest.mark.parametrize(
    "name",
    [
        "builtins\neval", "builtins\nexec", "builtins\ngetattr", "builtins\n__import__",
        "os\nsystem", "posix\nsystem", "subprocess\nPopen", "pickle\nloads", "torch\nload",
        "importlib\nimport_module", "runpy\nrun_path", "numpy\nload", "operator\nattrgetter",
        "functools\npartial", "types\nFunctionType", "rolloutds.torch_file\nwrite", "__main__\nx",
        "builtins\nset.__class__", "torch.storage\n_load_from_bytes", "copyreg\nadd_extension",
    ],
)  # fmt: skip
def test_no_name_is_imported_or_called(make_archive, text, name: str):
    before = set(sys.modules)
    path = make_archive(b"\x80\x02c" + name.encode() + b"\n" + text("1/0") + b"\x85R.")

    value = read(path)

    assert isinstance(value, ForeignObject)
    assert value.class_name == name.replace("\n", ".")
    assert not {m.partition(".")[0] for m in set(sys.modules) - before} & {"runpy", "torch", "x"}


def test_a_chain_of_getattr_stays_inert(make_archive, text):
    getattr_ = b"cbuiltins\ngetattr\n"
    inner = getattr_ + b"cos\nenviron\n" + text("copy") + b"\x86R"
    path = make_archive(b"\x80\x02" + inner + b")R" + text("x") + b"\x85R.")

    value = read(path)

    assert value.class_name == "call"
    assert value.args[0].class_name == "os.environ.copy"


def test_a_class_as_a_value_is_a_stand_in(make_archive):
    value = read(make_archive(b"\x80\x02cos\npopen\n."))

    assert isinstance(value, ForeignClass)
    assert repr(value) == "<os.popen>"
    assert isinstance(value("ls"), ForeignObject)
    with pytest.raises(AttributeError):
        value.anything = 1


@pytest.mark.parametrize("opcode", [b"\x82\x07", b"\x83\x07\x00", b"\x84\x07\x00\x00\x00"])
@pytest.mark.parametrize("registered", [False, True])
def test_extension_codes_are_refused_even_with_a_warm_cache(
    make_archive, tmp_path: Path, text, monkeypatch, opcode: bytes, registered: bool
):
    if registered:
        monkeypatch.setitem(copyreg._inverted_registry, 7, ("os", "system"))
        monkeypatch.setitem(copyreg._extension_cache, 7, os.system)
    witness = tmp_path / "witness"
    path = make_archive(b"\x80\x02" + opcode + text(f"touch {witness}") + b"\x85R.")

    with pytest.raises(TorchFileError, match="extension"):
        read(path)
    assert not witness.exists()


@pytest.mark.parametrize(
    "target",
    [
        b"cbuiltins\nset\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ca\nB\n",
        b"cdatetime\ndate\n(C\x04\x07\xea\x01\x01tR", b"]", b"}", b"K\x01",
        b"cdatetime\ntimezone\ncdatetime\ntimedelta\n(K\x00K\x00K\x00tR\x85R",
    ],
)  # fmt: skip
@pytest.mark.parametrize("slots", [False, True])
def test_build_cannot_poison_what_it_is_given(make_archive, text, target, slots):
    state = b"}" + text("poison") + b"K\x01s"
    state = b"N" + state + b"\x86" if slots else state

    with pytest.raises(TorchFileError):
        read(make_archive(b"\x80\x03" + target + state + b"b."))

    again = read(make_archive(b"\x80\x03" + target + b"."))
    assert not hasattr(again, "poison")


def test_build_on_a_stand_in_is_kept_as_data(make_archive, text):
    state = b"}" + text("__class__") + b"K\x01s" + text("extend") + b"K\x02s"
    first = read(make_archive(b"\x80\x02ca\nB\n)\x81" + state + b"b."))
    second = read(make_archive(b"\x80\x02ca\nB\n)\x81."))

    assert first.fields == {"__class__": 1, "extend": 2}
    assert type(first) is ForeignObject
    assert callable(first.extend)
    assert second.fields == {}


def test_a_storage_cannot_be_filled(make_archive, text):
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
    state = b"N}" + text("num_bytes") + b"J\xff\xff\xff\x7fs\x86"
    path = make_archive(b"\x80\x02" + storage + b"K\x01tQ" + state + b"b.", {"0": b"\0" * 4})

    with pytest.raises(TorchFileError, match="no further state"):
        read(path)


# --- nothing bursts -------------------------------------------------------------------------


def _as_dict(keys: list[int]) -> bytes:
    items = b"".join(b"\x8a\x0b" + key.to_bytes(11, "little", signed=True) + b"N" for key in keys)
    return b"\x80\x02}(" + items + b"u."


def _deep_key(levels: int) -> bytes:
    return b"\x80\x02}" + b")" + b"\x85" * levels + b"Ns."


def _wide_key(levels: int) -> bytes:
    # Each level refers to the one below twice: hashing it takes 2 ** levels steps.
    return b"\x80\x04})" + b"2\x86" * levels + b"Ns."


BOMBS = {
    "memo index of 128M": b"\x80\x02Nr\xff\xff\xff\x07.",
    "memo index of 4G": b"\x80\x02Nr\xfe\xff\xff\xff.",
    "text memo index": b"Np99999999999\n.",
    "bytes of 2**62": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"abc.",
    "bytes of 2**40": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"abc.",
    "text of 2**62": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"abc.",
    "bytearray of 2**40": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"abc.",
    "frame of 2**62": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"N.",
    "long of 2**31": b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
    "buffer from outside": b"\x80\x05\x97.",
    "colliding keys": _as_dict([i * (2**61 - 1) for i in range(1, 200_000)]),
    "deep tuple as key": _deep_key(1_000_000),
    "wide tuple as key": _wide_key(64),
    "wide tuple in a set": b"\x80\x04\x8f()" + b"2\x86" * 64 + b"\x90.",
    "sets by the million": b"\x80\x04](" + b"\x8f" * 4_000_000 + b"e.",
    "deep lists": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "deep dicts": b"\x80\x02" + b"}N" * 100_000 + b"}" + b"s" * 100_000 + b".",
    "more items than allowed": b"\x80\x02](" + b"N" * 1_000_001 + b"e.",
    "more classes than allowed": b"\x80\x02"
    + b"".join(b"ca\nb%d\n0" % i for i in range(20_000))
    + b"N.",
    "digits without end": b"I" + b"9" * 1_000_000 + b"\n.",
    "endless marks": b"\x80\x02" + b"(" * 3_000_000 + b".",
    "an object outside": b"\x80\x02K\x01Q.",
    "a protocol of tomorrow": b"\x80\x09N.",
    "no end": b"\x80\x02]",
    "nothing": b"",
    "pops an empty stack": b"\x80\x020.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused(make_archive, small_budget: Budget, name: str):
    _check_bomb(make_archive, small_budget, name)


@pytest.mark.parametrize(
    "name", ["memo index of 4G", "wide tuple as key", "deep tuple as key", "deep lists", "no end"]
)
def test_bombs_are_refused_beside_threads(
    make_archive, small_budget: Budget, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr("rolloutds.torch_file.trial.has_one_thread", lambda: False)
    _check_bomb(make_archive, small_budget, name)


@pytest.mark.proof
@pytest.mark.parametrize("name", BOMBS)
def test_every_bomb_is_refused_by_both_children(
    make_archive, small_budget: Budget, each_child: str, name: str
):
    _check_bomb(make_archive, small_budget, name)


def _check_bomb(make_archive, small_budget: Budget, name: str) -> None:
    path = make_archive(BOMBS[name])

    with pytest.raises(TorchFileError) as caught:
        read(path, budget=small_budget)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_nested_shared_lists_stay_shared(make_archive):
    # Ten references a level: printed, it would be 10 ** 150 items.
    levels = (b"](" + (b"h" + bytes([i])) * 10 + b"e\x94" for i in range(150))
    value = read(make_archive(b"\x80\x04]\x94" + b"".join(levels) + b"."))

    assert len(value) == 10
    assert all(part is value[0] for part in value)
    assert to_live(value) is value


def test_a_circle_can_be_read(make_archive):
    value = read(make_archive(b"\x80\x02]q\x00h\x00a."))

    assert value[0] is value
    assert to_live(value) is value


def test_a_tensor_may_not_reach_beyond_its_storage(make_archive, text):
    def pickled(offset: bytes, shape: bytes, strides: bytes, count: bytes = b"K\x04") -> bytes:
        storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
        return (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
            + storage + count + b"tQ" + offset + shape + strides + b"\x89}tR."
        )  # fmt: skip

    storages = {"0": struct.pack("<4f", 1, 2, 3, 4)}
    good = read(make_archive(pickled(b"K\x00", b"K\x04\x85", b"K\x01\x85"), storages))
    assert isinstance(good, TensorValue)
    assert good.tolist() == [1.0, 2.0, 3.0, 4.0]

    huge = b"\x8a\x08" + struct.pack("<q", 1 << 60)
    for bad in (
        pickled(b"K\x01", b"K\x04\x85", b"K\x01\x85"),
        pickled(b"K\x00", b"K\x05\x85", b"K\x01\x85"),
        pickled(b"K\x00", b"K\x02\x85", b"K\x04\x85"),
        pickled(b"K\x00", huge + b"\x85", huge + b"\x85"),
        pickled(b"J\xff\xff\xff\xff", b"K\x04\x85", b"K\x01\x85"),
        pickled(b"K\x00", b"J\xff\xff\xff\xff\x85", b"K\x01\x85"),
        pickled(b"K\x00", b"K\x04\x85", b")"),
        pickled(b"K\x00", b"K\x04\x85", b"K\x01\x85", count=b"K\x05"),
        pickled(b"K\x00", b"K\x04\x85", b"K\x01\x85", count=huge),
    ):
        with pytest.raises(TorchFileError):
            read(make_archive(bad, storages))
    with pytest.raises(TorchFileError, match="storage '0' is missing"):
        read(make_archive(pickled(b"K\x00", b"K\x04\x85", b"K\x01\x85")))


def test_a_tensor_that_repeats_one_number_is_not_expanded(make_archive, text):
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
    shape = b"\x8a\x06" + (1 << 40).to_bytes(6, "little") + b"\x85"
    pickled = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x01tQK\x00"
    path = make_archive(pickled + shape + b"K\x00\x85\x89}tR.", {"0": b"\0" * 4})

    value = read(path)

    assert value.num_elements == 1 << 40
    with pytest.raises(TorchFileError, match="too large to list"):
        value.tolist()


def test_numpy_sizes_are_checked(make_archive):
    np = pytest.importorskip("numpy")
    good = pickle.dumps(np.arange(3.0), 2)
    assert read(make_archive(good)).tolist() == [0.0, 1.0, 2.0]

    shape = b"K\x01K\x03\x85"
    for other in (b"K\x01K\x04\x85", b"K\x01J\xff\xff\xff\x7f\x85", b"K\x01J\xff\xff\xff\xff\x85"):
        assert shape in good
        with pytest.raises(TorchFileError, match=r"not a NumPy array|with other contents"):
            read(make_archive(good.replace(shape, other)))


def test_a_numpy_type_cannot_change_after_its_use(make_archive, text):
    def state(num_bytes: bytes) -> bytes:
        return b"(K\x03" + text("<") + b"NNN" + num_bytes + b"K\x01K\x00t"

    dtype = b"cnumpy\ndtype\n" + text("f8") + b"\x85Rq\x01"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87Rq\x02"
    contents = b"(K\x01K\x01\x85h\x01\x89C\x08" + b"\0" * 8 + b"tb"
    start = b"\x80\x03" + dtype + state(b"K\x08") + b"b0" + array + contents

    assert read(make_archive(start + b".")).tolist() == [0.0]
    for change in (b"0h\x01" + state(b"K\x04") + b"b.", b"0h\x02" + contents + b"."):
        with pytest.raises(TorchFileError, match="changes after its use"):
            read(make_archive(start + change))


# --- limits ----------------------------------------------------------------------------------

_LIMITED = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from rolloutds.errors import TorchFileError
from rolloutds.torch_file import Budget, read, trial
trial.has_one_thread = lambda: sys.argv[1] == "fork"
found = []
for path in sys.argv[2:]:
    try:
        read(path, budget=Budget(max_seconds=1.0))
        found.append("read")
    except TorchFileError:
        found.append("refused")
# Not ru_maxrss, which begins with that of the process before exec.
status = open("/proc/self/status").read()
own = int(status.partition("VmHWM:")[2].split()[0]) >> 10
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
sys.stdout.write(json.dumps([found, own, children]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_bombs_burst_neither_the_reader_nor_its_child(make_archive, repository: Path, how: str):
    names = [
        "memo index of 128M", "memo index of 4G", "bytes of 2**40", "deep tuple as key",
        "sets by the million", "endless marks",
    ]  # fmt: skip
    paths = [str(make_archive(BOMBS[name])) for name in names]
    ran = subprocess.run(
        [sys.executable, "-c", _LIMITED, how, *paths],
        capture_output=True, check=True, cwd=repository, timeout=120,
    )  # fmt: skip

    found, own_mib, child_mib = json.loads(ran.stdout)
    assert found == ["refused"] * len(names)
    assert ran.stderr == b""
    assert own_mib < 200
    assert child_mib < 700


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="no ps to ask")
@pytest.mark.parametrize("name", ["memo index of 4G", "sets by the million"])
def test_where_memory_has_no_limit_the_child_is_watched(
    make_archive, monkeypatch: pytest.MonkeyPatch, each_child: str, name: str
):
    monkeypatch.setattr("rolloutds.torch_file.trial._MEMORY_LIMIT_HOLDS", False)
    monkeypatch.setattr("rolloutds.torch_file.trial._lower", lambda kind, value: None)
    if each_child == "spawn":
        # The started interpreter does not see the patch; its own limit ends it.
        with pytest.raises(TorchFileError, match=r"MiB|limits"):
            read(make_archive(BOMBS[name]), budget=Budget(max_seconds=20.0))
        return
    with pytest.raises(TorchFileError, match=r"takes more than [0-9]+ MiB"):
        read(make_archive(BOMBS[name]), budget=Budget(max_seconds=20.0))


def test_an_interrupted_read_leaves_no_child_behind(
    make_archive, monkeypatch, each_child: str, children: list[int]
):
    def interrupted(*args: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("rolloutds.torch_file.trial._Child._next_line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(make_archive(BOMBS["wide tuple as key"]))

    assert len(children) == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)
