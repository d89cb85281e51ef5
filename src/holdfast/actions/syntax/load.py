"""From the text of a file to its Document, or to everything that is wrong with it.

Never here: a rule of the format; opening a file.
"""

from __future__ import annotations

from holdfast.actions.syntax import source
from holdfast.actions.syntax.building import build
from holdfast.actions.syntax.document import Document
from holdfast.actions.syntax.keys import WORKFLOW
from holdfast.actions.syntax.mistake import Mistakes, TooManyMistakes
from holdfast.actions.syntax.reading import EntryReader, Section
from holdfast.errors import InvalidFile


def load(text: str, name: str) -> Document:
    """The workflow that a file's `text` describes. `name` is the file's: in messages, and where the text gives none.

    Raises InvalidFile with every mistake.
    """
    mistakes = Mistakes()
    document, is_complete = None, True
    try:
        document = _document(text, name, mistakes)
    except TooManyMistakes:
        is_complete = False
    if mistakes or document is None:
        raise InvalidFile(name, mistakes.sorted(), is_complete=is_complete)
    return document


def _document(text: str, name: str, mistakes: Mistakes) -> Document | None:
    """Return the document as far as the text could be read; None if it is no YAML at all."""
    file = source.Source(text.replace("\r\n", "\n").replace("\r", "\n"))
    root = source.read(file, mistakes)
    if root is None:
        return None
    reading = EntryReader(file, mistakes)
    section = reading.read(WORKFLOW, root, ())
    assert isinstance(section, Section)
    return build(reading, section, name)
