"""The OpenAI Embeddings API: POST /v1/embeddings.

The vectors are sums of a direction for each word, drawn from the word itself: texts that share words are near each other, and
that is all that they know of meaning. Only the format; what goes wrong is decided elsewhere.
"""

import math
import random
from typing import Any

from holdfast.testing.wire import Answer, BadRequest, Call, Segment, Turn, WireName, canonical, require, sha256
from holdfast.testing.wires.openai import OpenAIWire

DIMENSIONS = 1536
MAX_TEXTS = 2048


class EmbeddingsWire(OpenAIWire):
    name: WireName = "openai"
    path = "/v1/embeddings"

    def read(self, body: dict[str, Any]) -> Call:
        given = body.get("input")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not 1 <= len(texts) <= MAX_TEXTS or not all(_is_text(each) for each in texts):
            raise BadRequest("input: a text, or a list of 1 to 2048 texts, none of them empty")
        if body.get("encoding_format") not in (None, "float"):
            raise BadRequest("encoding_format: this server answers in floats")
        return Call(
            wire=self.name,
            model=require(body, "model", str),
            system="",
            turns=tuple(Turn(assistant=False, text=text) for text in texts),
            segments=tuple(Segment(text) for text in texts),
            tools=(),
            demand=None,
            max_tokens=0,
            stream=False,
            stream_usage=False,
            cache_control_on_tools=False,
            request_sha256=sha256(canonical(body)),
            dimensions=body.get("dimensions") or DIMENSIONS,
        )

    def reply(self, call: Call, answer: Answer) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": index, "embedding": vector(turn.text, call.dimensions or DIMENSIONS)}
            for index, turn in enumerate(call.turns)
        ]
        body: dict[str, Any] = {"object": "list", "model": call.model, "data": data}
        if answer.usage is not None:
            used = answer.usage.input_tokens
            body["usage"] = {"prompt_tokens": used, "total_tokens": used}
        return body


def vector(text: str, dimensions: int) -> list[float]:
    """A vector of length one; words decide where it points."""
    total = [0.0] * dimensions
    for word in text.lower().split():
        draw = random.Random(word.strip(".,;:!?"))
        total = [each + draw.gauss(0, 1) for each in total]
    length = math.sqrt(sum(each * each for each in total)) or 1.0
    return [each / length for each in total]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
