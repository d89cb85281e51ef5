"""The environment that leads the model clients of a program to the gateway, and none past it.

Each name is one that a client reads. None takes the name away: an inherited value would be read first. Never here: a client.
"""

from __future__ import annotations

from typing import Final

_REMOVED: Final = (
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_PROFILE",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "GOOGLE_API_KEY",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "LANGSMITH_GATEWAY_API_KEY",
    "OPENAI_CUSTOM_HEADERS",
    "OPENAI_WEBSOCKET_BASE_URL",
)

_QUIET: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}
"""Switches that keep clients from calling fixed addresses, some with the key and the content."""


def variables(host: str, port: int, token: str) -> dict[str, str | None]:
    """Return the variables of a program that has `token` for the gateway on `host` and `port`."""
    base = f"http://{host}:{port}"
    return {
        **dict.fromkeys(_REMOVED),
        **_QUIET,
        "ANTHROPIC_API_BASE": base,  # LiteLLM
        "ANTHROPIC_API_KEY": token,
        "ANTHROPIC_API_URL": base,  # LangChain
        "ANTHROPIC_BASE_URL": base,
        "GEMINI_API_BASE": base,  # LiteLLM
        "GEMINI_API_KEY": token,
        "GOOGLE_GEMINI_BASE_URL": base,
        "NO_PROXY": host,
        "OPENAI_API_BASE": f"{base}/v1",  # LangChain, LiteLLM
        "OPENAI_API_KEY": token,
        "OPENAI_BASE_URL": f"{base}/v1",
        "no_proxy": host,
    }
