"""The one door to transformers: load a tokenizer, render its chat template, count tokens."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from rolloutds.cache import Cache
from rolloutds.chat_templates import CompiledTemplate
from rolloutds.errors import MissingExtraError, TokenizerError
from rolloutds.token_bounds import TokenBounds, prove_bounds
from rolloutds.tokenizer_facts import FactsMemory, TokenizerFacts

_EXTRA: Final = "tokenizers"
_TOKENIZER_FILES: Final = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tiktoken.model",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
)
_CLASS_FILES: Final = ("config.json", "tokenizer_config.json")
_BATCH_TEXTS: Final = 1024
_BATCH_CHARACTERS: Final = 1 << 20
_OWN_ARGUMENTS: Final = ("conversation", "tokenize", "add_generation_prompt", "tools")

Message = dict[str, Any]


class Tokenizer:
    """A tokenizer and the chat template in use.

    Args:
        tokenizer: a tokenizer of transformers, which is not edited afterwards.
        name: folder or hub name it came from.

    Attributes:
        name: folder or hub name it came from.
    """

    _load_now: Callable[[], Any]
    _memory: FactsMemory | None = None
    _remembered: TokenizerFacts | None = None

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer = tokenizer
        self.name = name

    def __repr__(self) -> str:
        return f"Tokenizer({self.name!r})"

    @classmethod
    def load(
        cls,
        hf_checkpoint: str,
        *,
        chat_template: str | None = None,
        trust_remote_code: bool = False,
        cache: Cache | None = None,
    ) -> Tokenizer:
        """Loads a tokenizer, without a word on the streams.

        Args:
            hf_checkpoint: a local folder, which may hold no more than ``tokenizer.json``, or the
                name of a repository on the hub.
            chat_template: a template to use instead of the tokenizer's own: a file or its text.
            trust_remote_code: whether code of the repository may run.
            cache: keeps what is found in a local folder. As long as its files are the same, they
                are only loaded when a text must be rendered or counted.

        Raises:
            MissingExtraError: transformers is not installed.
            TokenizerError: there is no such tokenizer, it does not load, or the template is
                neither a file nor a template.
        """
        template = None if chat_template is None else read_chat_template(chat_template)
        folder = _local_folder(hf_checkpoint)
        load_now = partial(
            _load, hf_checkpoint, folder, template, trust_remote_code=trust_remote_code
        )
        if cache is None or folder is None or trust_remote_code:
            return cls(load_now(), hf_checkpoint)
        memory = FactsMemory(cache, folder, template)
        facts = memory.recall()
        if facts is None:
            tokenizer = cls(load_now(), hf_checkpoint)
            tokenizer._memory = memory
            return tokenizer
        tokenizer = cls.__new__(cls)
        tokenizer.name, tokenizer._load_now, tokenizer._remembered = hf_checkpoint, load_now, facts
        return tokenizer

    @cached_property
    def _tokenizer(self) -> Any:
        """The tokenizer of transformers, loaded where it was not yet."""
        return self._load_now()

    # --- chat template --------------------------------------------------------------------

    @property
    def chat_template(self) -> str | None:
        """Text of the template in use; several named ones as one JSON object; None: none."""
        if self._remembered is not None:
            return self._remembered.chat_template
        template = self._tokenizer.chat_template
        if template is None or isinstance(template, str):
            return template
        return json.dumps(template, sort_keys=True, ensure_ascii=False)

    @property
    def template_digest(self) -> str | None:
        """SHA-256 of the template in use, in hex; None without one."""
        template = self.chat_template
        return None if template is None else _digest([template])

    def render(
        self,
        messages: Sequence[Message] | None,
        tools: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """The text of a conversation, up to where the model's answer begins.

        Args:
            messages: the conversation; it is not edited.
            tools: what the template is told of tools.
            kwargs: further arguments of the template.

        Raises:
            MissingExtraError: Jinja is not installed.
            TokenizerError: there is no template, or it fails on these messages.
        """
        if self.chat_template is None:
            raise TokenizerError(
                "the tokenizer has no chat template",
                where=self.name,
                hint="name a template (a file, or its text) with --chat-template",
            )
        kwargs = kwargs or {}

        def by_own_method() -> str:
            text = self._tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=True, **kwargs
            )
            return str(text)

        compiled = self._compiled_template
        try:
            if compiled is None:
                return by_own_method()
            return compiled.render(messages, tools, kwargs, by_own_method)
        except Exception as error:
            # A template is a program: it raises what it likes.
            raise _render_error(error, kwargs) from error

    @cached_property
    def _compiled_template(self) -> CompiledTemplate | None:
        """The template without what surrounds it; None where its way is not known to be equal."""
        try:
            from transformers import PreTrainedTokenizerBase
            from transformers.utils.chat_template_utils import _compile_jinja_template

            return CompiledTemplate.of(
                self._tokenizer, PreTrainedTokenizerBase, _compile_jinja_template
            )
        except Exception:  # another transformers, no Jinja, a broken template: its own method says
            return None

    # --- counts ---------------------------------------------------------------------------

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens added, ``[len(texts)]``.

        Equal to the lengths of ``tokenizer(texts, add_special_tokens=False)["input_ids"]``.

        Raises:
            TokenizerError: a text cannot be tokenized; ``where`` is its position in `texts`.
        """
        counts: list[int] = []
        for batch in _batches(texts):
            try:
                counts.extend(self._count_batch(batch))
            except Exception as error:
                raise _count_error(error, texts, first=len(counts)) from error
        return counts

    @cached_property
    def _count_batch(self) -> Callable[[Sequence[str]], Iterator[int]]:
        backend = self._counting_backend
        if backend is None:
            return self._count_by_call
        # `encode_batch_fast` gives the same ids without their offsets in the text.
        encode = getattr(backend, "encode_batch_fast", backend.encode_batch)
        return lambda texts: map(len, encode(texts, add_special_tokens=False))

    def _count_by_call(self, texts: Sequence[str]) -> Iterator[int]:
        encoded = self._tokenizer(
            list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False
        )
        return map(len, encoded["input_ids"])

    @cached_property
    def _counting_backend(self) -> Any | None:
        """The Rust tokenizer in the state that a call of the tokenizer puts it into.

        A call switches truncation and padding off and sets how special tokens in the text are
        read. That is done on a copy, so that counting has no side effect and may run in several
        threads. None: the tokenizer is Python, or a class of its own changes what a call does.
        """
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is None or not _calls_like_the_base(self._tokenizer):
            return None
        split_special = bool(getattr(self._tokenizer, "split_special_tokens", False))
        same = backend.truncation is None and backend.padding is None
        if same and backend.encode_special_tokens == split_special:
            return backend
        backend = copy.deepcopy(backend)
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = split_special
        return backend

    # --- bounds ---------------------------------------------------------------------------

    @property
    def byte_bound_is_exact(self) -> bool:
        """Whether it is proved that a text never has more tokens than UTF-8 bytes."""
        return self._facts.bounds.tokens_per_byte == 1

    def max_tokens(self, num_bytes: int, *, is_ascii: bool = False) -> int | None:
        """The most tokens that a text can have, or None where no bound is proved.

        Args:
            num_bytes: bytes of the text in UTF-8.
            is_ascii: whether all of its characters are ASCII, which gives a closer bound.
        """
        return self._facts.bounds.max_tokens(num_bytes, is_ascii=is_ascii)

    def min_tokens(self, num_bytes: int) -> int | None:
        """The fewest tokens that a text of so many UTF-8 bytes can have; None: none is proved."""
        return self._facts.bounds.min_tokens(num_bytes)

    # --- identity -------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """SHA-256 in hex of what decides the tokens of a text; the template is not in it."""
        return self._facts.digest

    @cached_property
    def _facts(self) -> TokenizerFacts:
        if self._remembered is not None:
            return self._remembered
        backend = self._counting_backend
        if backend is None:
            digest = _digest(_python_tokenizer_content(self._tokenizer))
            return TokenizerFacts(digest, TokenBounds(), self.chat_template)
        content = backend.to_str()
        digest = _digest([content, str(backend.encode_special_tokens)])
        facts = TokenizerFacts(digest, prove_bounds(content), self.chat_template)
        if self._memory is not None:
            self._memory.keep(facts)
        return facts

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes the tokenizer and the template in use to a folder.

        Raises:
            TokenizerError: the folder cannot be written.
        """
        try:
            with _quietly():
                self._tokenizer.save_pretrained(os.fspath(folder))
        except OSError as error:
            raise TokenizerError(
                f"the tokenizer cannot be saved: {error}", where=os.fspath(folder)
            ) from error


def read_chat_template(value: str) -> str:
    """A chat template from a setting that is a file or the template itself.

    Raises:
        TokenizerError: it is neither, or the file cannot be read.
    """
    try:
        is_file = (path := Path(value).expanduser()).is_file()
    except (OSError, ValueError, RuntimeError):  # the text of a template makes no path
        is_file = False
    if is_file:
        return _read_template_file(path)
    if "{%" in value or "{{" in value:
        return value
    raise TokenizerError(
        f"the chat template {_shorten(value)!r} is no file, and as text it has neither '{{%' nor '{{{{'",
        expected="a file that exists, or the text of a Jinja template",
        hint="look at the path in --chat-template",
    )


_SHOWN_CHARACTERS: Final = 200


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _read_template_file(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(
            f"the chat template cannot be read: {error}",
            where=str(path),
            expected="a Jinja template in UTF-8",
        ) from error
    if not text.strip():
        raise TokenizerError("the chat template is empty", where=str(path))
    return text


def first_uncountable(texts: Sequence[str]) -> tuple[int, int] | None:
    """Position of the first text that has no UTF-8 form, and of the character that has none.

    Such a character is half of a surrogate pair; JSON can hold it, no tokenizer takes it.
    """
    for i, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return i, error.start
    return None


# --- loading ----------------------------------------------------------------------------------


_is_torch_left_out = False


def leave_torch_out() -> None:
    """Lets transformers load without torch, which takes half the time, once it is needed.

    Only for a process that is ours alone, such as the command: transformers remembers for the
    life of the process that there is no torch, so a model could not be loaded in it. Nothing
    happens where torch or transformers is loaded already. torch itself can be imported as usual.
    """
    global _is_torch_left_out  # as is what transformers remembers
    _is_torch_left_out = True


@contextmanager
def _torch_left_out() -> Iterator[None]:
    if _is_torch_left_out and not {"torch", "transformers"} & sys.modules.keys():
        with _hidden("torch"):
            yield
    else:
        yield


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    # None in `sys.modules` is Python's own way to say that a module is not to be found.
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


def _load(name: str, folder: Path | None, template: str | None, *, trust_remote_code: bool) -> Any:
    """The tokenizer of transformers, with the template in place of its own where there is one."""
    with _quietly():
        loader = _import_loader(name, folder)
        try:
            tokenizer = loader.from_pretrained(
                name if folder is None else str(folder), trust_remote_code=trust_remote_code
            )
        except Exception as error:
            # Every kind can come out of a foreign file, a hub or code of a repository.
            raise _load_error(error, name, folder) from error
    _stay_quiet_in_forks()
    if template is not None:
        tokenizer.chat_template = template
    return tokenizer


def _import_loader(name: str, folder: Path | None) -> Any:
    """The class of transformers that loads what a folder holds; None: a name on the hub."""
    try:
        with _torch_left_out():
            from transformers import AutoTokenizer, PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingExtraError(
            "transformers", extra=_EXTRA, needed_for=f"the tokenizer {name}"
        ) from error
    if folder is None or any((folder / file).is_file() for file in _CLASS_FILES):
        return AutoTokenizer
    # Nothing names a class. transformers 5 then takes this one, and 4 refuses the folder.
    return PreTrainedTokenizerFast if (folder / "tokenizer.json").is_file() else AutoTokenizer


@contextmanager
def _quietly() -> Iterator[None]:
    """No log lines, warnings or progress bars of transformers and the hub; undone at the end."""
    with (
        warnings.catch_warnings(),
        _silenced("transformers", "TRANSFORMERS_VERBOSITY"),
        _silenced("huggingface_hub", "HF_HUB_VERBOSITY"),
        _no_progress_bars(),
    ):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _silenced(package: str, variable: str) -> Iterator[None]:
    """Raises a package's log level for a while, unless the user has set it.

    The package reads the variable when it is imported, which may be now; it is taken out again.
    """
    if variable in os.environ:
        yield
        return
    logger = logging.getLogger(package)
    level_after = logger.level if package in sys.modules else logging.WARNING
    os.environ[variable] = "critical"
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        os.environ.pop(variable, None)
        logger.setLevel(level_after)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    try:
        hub = import_module("huggingface_hub.utils")
    except ImportError:  # no hub, no bars
        yield
        return
    disabled_before = hub.are_progress_bars_disabled()
    hub.disable_progress_bars()
    try:
        yield
    finally:
        if not disabled_before:
            hub.enable_progress_bars()


@cache
def _stay_quiet_in_forks() -> None:
    """Keeps the Rust tokenizer's advice off the streams of forked children.

    Its threads do not live on in a child. Unless TOKENIZERS_PARALLELISM is set at that moment it
    says so on stderr and counts without threads there; set to "false" it does the same silently.
    The parent's environment is as before when the fork is over.
    """
    variable = "TOKENIZERS_PARALLELISM"
    added: list[str] = []

    def before() -> None:
        if variable not in os.environ:
            os.environ[variable] = "false"
            added.append(variable)

    def after_in_parent() -> None:
        while added:
            os.environ.pop(added.pop(), None)

    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=added.clear)


def _local_folder(name: str) -> Path | None:
    """The folder of that name; None where the name can only be one on the hub."""
    if not name:
        raise TokenizerError("no tokenizer is named", hint="name one with --hf-checkpoint")
    path = Path(name).expanduser()
    if path.is_dir():
        if not any((path / file).is_file() for file in _TOKENIZER_FILES):
            raise TokenizerError(
                "the folder holds no tokenizer",
                where=name,
                expected=f"one of {', '.join(_TOKENIZER_FILES)}",
                hint="name the folder of a model or of a saved tokenizer with --hf-checkpoint",
            )
        return path
    if path.is_file():
        raise TokenizerError(
            "this is a file",
            where=name,
            expected="the folder of a tokenizer, or a name on the hub",
            hint=f"try --hf-checkpoint {path.parent}",
        )
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise TokenizerError(
            "there is no such folder",
            where=name,
            expected="the folder of a tokenizer, or a name on the hub such as owner/model",
            hint="look at the path in --hf-checkpoint",
        )
    return None


def _load_error(error: Exception, name: str, folder: Path | None) -> TokenizerError:
    reason = str(error).strip() or type(error).__name__
    if "trust_remote_code" in reason:
        return TokenizerError(
            "the tokenizer is code of its repository, which may not run",
            where=name,
            hint="read that code, then allow it with --trust-remote-code",
        )
    first_line = _shorten(reason.splitlines()[0])
    if folder is not None:
        return TokenizerError(
            f"the tokenizer in this folder does not load: {first_line}",
            where=name,
            hint="compare the folder with the model it was copied from; a file may be missing, "
            "cut short, or need a package such as sentencepiece",
        )
    return TokenizerError(
        f"there is no folder of that name here, and it does not load from the hub: {first_line}",
        where=name,
        expected="a local folder, a name in the hub's cache, or a name the hub knows",
        hint="name a local folder with --hf-checkpoint, or look at the spelling, the network, "
        "HF_HUB_OFFLINE and your access to the model",
    )


# --- rendering and counting -------------------------------------------------------------------


def _render_error(error: Exception, kwargs: Mapping[str, Any]) -> Exception:
    if isinstance(error, ImportError):
        return MissingExtraError("jinja2", extra=_EXTRA, needed_for="the chat template")
    reserved = [key for key in _OWN_ARGUMENTS if key in kwargs]
    if reserved:
        return TokenizerError(
            f"apply_chat_template_kwargs sets {' and '.join(reserved)}, which the run sets itself",
            hint="take it out of --apply-chat-template-kwargs",
        )
    line = getattr(error, "lineno", None)
    place = f" (line {line} of the template)" if line else ""
    return TokenizerError(
        f"the chat template fails: {str(error) or type(error).__name__}{place}",
        hint="look at the roles and keys of these messages and at --apply-chat-template-kwargs",
    )


def _count_error(error: Exception, texts: Sequence[str], *, first: int) -> TokenizerError:
    found = first_uncountable(texts)
    if found is None:
        return TokenizerError(f"the tokenizer fails: {error}", where=f"text {first} or later")
    index, start = found
    return TokenizerError(
        f"character {start} is U+{ord(texts[index][start]):04X}, half of a surrogate pair, "
        "which no tokenizer takes",
        where=f"text {index}",
        expected="text that has a UTF-8 form",
        hint="repair the text: it was cut in the middle of a character, or is not text",
    )


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Runs of texts, short enough that their tokens take little memory at once."""
    start = num_characters = 0
    for i, text in enumerate(texts):
        num_characters += len(text)
        if i > start and (num_characters > _BATCH_CHARACTERS or i - start >= _BATCH_TEXTS):
            yield texts[start:i]
            start, num_characters = i, len(text)
    if start < len(texts):
        yield texts[start:]


def _calls_like_the_base(tokenizer: Any) -> bool:
    """Whether a call of a tokenizer with a Rust backend does what the base class does."""
    from transformers import PreTrainedTokenizerFast

    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return False
    mro = type(tokenizer).__mro__
    own = mro[: mro.index(PreTrainedTokenizerFast)]
    return not any(method in vars(cls) for cls in own for method in _CALL_METHODS)


_CALL_METHODS: Final = (
    "__call__",
    "_call_one",
    "_encode_plus",
    "_batch_encode_plus",
    "batch_encode_plus",
    "set_truncation_and_padding",
    "_switch_to_input_mode",
    "_convert_encoding",
    "backend_tokenizer",
)


# --- identity ---------------------------------------------------------------------------------


def _digest(parts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _python_tokenizer_content(tokenizer: Any) -> list[str]:
    """What a tokenizer made of Python code reads: its class, vocabulary and files."""
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items(), key=lambda item: item[::-1]))
    added = json.dumps(sorted(map(str, tokenizer.get_added_vocab().items())))
    paths = (tokenizer.init_kwargs.get(name) for name in sorted(tokenizer.vocab_files_names))
    files = (Path(path) for path in paths if isinstance(path, str))
    contents = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()]
    kind = type(tokenizer)
    return [f"{kind.__module__}.{kind.__qualname__}", vocabulary, added, *contents]
