"""From the text of a file to its Document, or to everything that is wrong with it.

Never here: a rule of the format; opening a file.
"""

from __future__ import annotations

from holdfast.authoring.yaml import source
from holdfast.authoring.yaml.building import build
from holdfast.authoring.yaml.document import Document
from holdfast.authoring.yaml.keys import WORKFLOW
from holdfast.authoring.yaml.mistake import Mistakes
from holdfast.authoring.yaml.reading import Reading, Section
from holdfast.errors import InvalidFile


def load(text: str, name: str) -> Document:
    """The workflow that a file's `text` describes. `name` is the file's: in messages, and where the text gives none.

    Raises InvalidFile with every mistake.
    """
    mistakes = Mistakes()
    file = source.Source(text.replace("\r\n", "\n").replace("\r", "\n"))
    root = source.read(file, mistakes)
    document = None
    if root is not None:
        reading = Reading(file, mistakes)
        section = reading.read(WORKFLOW, root, ())
        assert isinstance(section, Section)
        document = build(reading, section, name)
    if mistakes or document is None:
        raise InvalidFile(name, mistakes.sorted(), mistakes.count)
    return document
