"""A chat template rendered straight from its compiled form.

Of the time that a call of transformers' own method takes, most goes into copies of the messages,
the tools and the template's globals. None of them changes the text of plain messages, which is
what rows hold; of anything else nothing is claimed here, and the own method is to be called.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_METHODS: Final = ("apply_chat_template", "get_chat_template", "special_tokens_map")
_VARIABLES: Final = frozenset({"messages", "conversations", "tools", "documents"})
_RENAMED_KEYS: Final = frozenset({"reasoning_content", "thinking", "reasoning"})
"""Keys of a message that transformers fills in from one another."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_CHECKED_FIRST: Final = 16
_TEXTS_DIFFER: Final = (
    "the chat template gives another text when it is rendered straight from its compiled form: "
    "rows are rendered through apply_chat_template from here on, which takes longer"
)

_logger = logging.getLogger(__name__)


class CompiledTemplate:
    """The compiled chat template of a tokenizer and what it is told besides the messages.

    Args:
        template: Jinja's compiled template.
        special_tokens: the tokenizer's special tokens by name.
        reserved: arguments of the own method, which a template never sees.
    """

    def __init__(
        self, template: Any, special_tokens: Mapping[str, Any], reserved: frozenset[str]
    ) -> None:
        self._environment = template.environment
        self._template = template
        self._globals = dict(template.globals)
        own = {"documents": None, "add_generation_prompt": True}
        self._variables = {**self._globals, **special_tokens, **own}
        self._reserved = reserved
        self._num_rendered = 0
        self._is_wrong = False

    @classmethod
    def of(
        cls, tokenizer: Any, base: type, compile_template: Callable[[str], Any]
    ) -> CompiledTemplate | None:
        """The template of a tokenizer; None where its own method must be called.

        Args:
            tokenizer: a tokenizer of transformers.
            base: the class of transformers whose way of rendering is taken over here.
            compile_template: transformers' own, so that the globals are those of its method.
        """
        template = tokenizer.chat_template
        if not isinstance(template, str) or not _renders_like(tokenizer, base):
            return None
        special_tokens = tokenizer.special_tokens_map
        reserved = _VARIABLES.union(inspect.signature(base.apply_chat_template).parameters)  # type: ignore[attr-defined]
        if not is_plain(special_tokens) or not reserved.isdisjoint(special_tokens):
            return None
        compiled = compile_template(template)
        return None if compiled.environment.is_async else cls(compiled, special_tokens, reserved)

    def render(
        self,
        messages: Any,
        tools: Sequence[Any] | None,
        kwargs: Mapping[str, Any],
        own_method: Callable[[], str],
    ) -> str:
        """The text of a conversation, up to where the model's answer begins.

        Args:
            messages: the conversation.
            tools: what the template is told of tools.
            kwargs: further arguments of the template.
            own_method: renders the same by the tokenizer's own method. It is called where nothing
                is claimed of these arguments, and for some conversations to compare the texts.

        Raises:
            Exception: what `own_method` raises.
        """
        text = None if self._is_wrong else self.text(messages, tools, kwargs)
        if text is None:
            return own_method()
        self._num_rendered += 1
        return self._checked(text, messages, tools, kwargs, own_method) if self._is_due else text

    @property
    def _is_due(self) -> bool:
        """The first texts are compared, and after them ever fewer: at each power of two."""
        number = self._num_rendered
        return number <= _CHECKED_FIRST or number & (number - 1) == 0

    def _checked(
        self,
        text: str,
        messages: Any,
        tools: Sequence[Any] | None,
        kwargs: Mapping[str, Any],
        own_method: Callable[[], str],
    ) -> str:
        own = own_method()
        # Rendered once more where they differ: a template may tell the time.
        if own != text and own != self.text(messages, tools, kwargs):
            self._is_wrong = True
            _logger.warning(_TEXTS_DIFFER)
        return own

    def text(
        self, messages: Any, tools: Sequence[Any] | None, kwargs: Mapping[str, Any]
    ) -> str | None:
        """The text by the compiled template alone.

        Returns:
            None where nothing is claimed: the arguments are not plain, or the template raises,
            of which the own method says where.
        """
        try:
            if not self._takes(messages, tools, kwargs):
                return None
            told = {"messages": messages, "tools": tools}
            return self._render({**self._variables, **kwargs, **told})
        except Exception:  # a template is a program: it raises what it likes
            return None

    def _takes(self, messages: Any, tools: Any, kwargs: Mapping[str, Any]) -> bool:
        if not are_plain_messages(messages):
            return False
        if kwargs and not (self._reserved.isdisjoint(kwargs) and _is_plain_dict(kwargs)):
            return False
        return tools is None or (
            type(tools) is list
            and all(type(tool) is dict and _is_plain_dict(tool) for tool in tools)
        )

    def _render(self, variables: dict[str, Any]) -> str:
        environment, template = self._environment, self._template
        context = environment.context_class(
            environment, variables, template.name, template.blocks, globals=self._globals
        )
        text: str = environment.concat(template.root_render_func(context))
        return text


def are_plain_messages(messages: Any) -> bool:
    """Whether transformers, in every version, hands these messages to the template as they are.

    Some versions leave out a null of a message, and fill in its reasoning under other keys.
    """
    if type(messages) is not list or not messages:
        return False
    for message in messages:
        if type(message) is not dict or not _RENAMED_KEYS.isdisjoint(message):
            return False
        for key, value in message.items():
            if type(key) is not str or value is None:
                return False
            if type(value) is not str and not is_plain(value):
                return False
    return True


def is_plain(value: Any) -> bool:
    """Whether a value is made of what JSON has, and of no subclass of it."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is dict:
        return _is_plain_dict(value)
    return kind is list and all(map(is_plain, value))


def _is_plain_dict(value: Mapping[Any, Any]) -> bool:
    return all(type(key) is str for key in value) and all(map(is_plain, value.values()))


def _renders_like(tokenizer: Any, base: type) -> bool:
    """Whether neither the tokenizer's class nor the tokenizer itself changes how it renders."""
    kind = type(tokenizer)
    return isinstance(tokenizer, base) and all(
        getattr(kind, method) is getattr(base, method) and method not in vars(tokenizer)
        for method in _METHODS
    )
