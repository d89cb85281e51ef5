"""Workflow files as Hypothesis draws them: right by construction, with every key that a job or a step may have.

Never here: a promise.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

IDS = ("a", "B-1", "c_2", "d", "e9")
TEXTS = st.sampled_from(["", " x ", "it's", "1.50", "ünï", "}}", "$HOME", "line\nline", "${HOLDFAST_EXPR_1}"])
NUMBERS = st.sampled_from([0, 1, -1, 2.0, 0.5, 1e300, 12345678901])


def reading(*contexts: str) -> st.SearchStrategy[str]:
    """An expression that reads one of these, in more than one spelling."""
    spelled = ("${{{{ {} }}}}", "${{{{{}}}}}", "${{{{  format('{{0}}', {}) }}}}", "${{{{ {} || '}}}}' }}}}")
    return st.builds(lambda form, name: form.format(f"{name}.x"), st.sampled_from(spelled), st.sampled_from(contexts))


def texts(*contexts: str) -> st.SearchStrategy[str]:
    """A text, an expression, or both."""
    some = TEXTS.filter(lambda text: bool(text.strip()))
    return some | reading(*contexts) | st.builds("{}{}{}".format, TEXTS, reading(*contexts), TEXTS)


def env(*contexts: str) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(["A", "B", "C_1"]), TEXTS | texts(*contexts), min_size=1, max_size=2)


OUTSIDE = ("inputs", "vars")
CONDITIONS = st.sampled_from(
    ["inputs.go", "${{ always() }}", "!cancelled() && inputs.x == '}}'", "failure()", True, False, "success() || inputs.y"]
)
MINUTES = st.sampled_from([1, 0.5, 10.0, 360]) | reading(*OUTSIDE)
FLAGS = st.booleans() | reading(*OUTSIDE)


def optional(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these keys."""
    return st.fixed_dictionaries({}, optional={name.replace("_", "-"): value for name, value in keys.items()})


@st.composite
def steps(draw: st.DrawFn) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 3))):
        step = draw(
            optional(
                name=texts(*OUTSIDE, "env"),
                env=env(*OUTSIDE, "env"),
                timeout_minutes=MINUTES,
                continue_on_error=FLAGS,
                working_directory=st.sampled_from(["a/b", "x${{ inputs.day }}"]),
                effect=st.sampled_from(["read", "idempotent", "once"]),
            )
        )
        step["if"] = draw(CONDITIONS)
        script = st.sampled_from(["true", 'echo "${{ inputs.x }}" "${{env.A}}"', "echo ${{  inputs.y  }}", "x\ny\n"])
        step |= draw(st.just({"run": draw(script)}) | st.just({"run": "print(1)", "shell": "python"}))
        if draw(st.booleans()):
            step["id"] = f"s{number}"
        found.append(step)
    return found


VALUES = st.none() | st.booleans() | NUMBERS | TEXTS | reading(*OUTSIDE)
MATRICES = st.fixed_dictionaries(
    {"n": st.lists(VALUES, min_size=1, max_size=4)},
    optional={
        "m": st.lists(st.dictionaries(st.sampled_from("pq"), VALUES, max_size=2), min_size=1, max_size=2),
        "include": st.lists(st.dictionaries(st.sampled_from(["n", "extra"]), VALUES, min_size=1), min_size=1, max_size=2),
    },
) | st.just("${{ fromJSON(inputs.m) }}")
STRATEGIES = st.builds(
    lambda matrix, rest: {"matrix": matrix, **rest},
    MATRICES,
    optional(fail_fast=FLAGS, max_parallel=st.integers(1, 1000) | reading(*OUTSIDE)),
)
RETRIES = st.fixed_dictionaries(
    {"max": st.integers(0, 100)},
    optional={"backoff": st.sampled_from(["fixed", "exponential"]), "delay-seconds": st.sampled_from([0, 1, 2.5, 5.0])},
)
OUTPUTS = st.dictionaries(
    st.sampled_from(["x", "y"]),
    texts(*OUTSIDE) | st.builds(lambda value: {"value": value, "storage": "s3"}, texts(*OUTSIDE)),
    min_size=1,
)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for id_ in IDS[: draw(st.integers(1, len(IDS)))]:
        job = draw(
            optional(
                name=texts(*OUTSIDE),
                env=env(*OUTSIDE),
                timeout_minutes=MINUTES,
                continue_on_error=FLAGS,
                strategy=STRATEGIES,
                outputs=OUTPUTS,
                retry=RETRIES,
                priority=st.integers(-1000, 1000),
                resources=optional(
                    cpu=st.integers(0, 10**7),
                    memory=st.integers(0, 10**9) | reading(*OUTSIDE),
                    gpus=st.integers(0, 9),
                    tags=st.lists(st.sampled_from(["fast", "zone=eu", "${{ inputs.tag }}"]), min_size=1, max_size=3),
                ),
                pools=st.dictionaries(st.sampled_from(["P", "q.r"]), st.integers(1, 10**10) | st.just("auto"), min_size=1),
            )
        )
        job["runs-on"] = draw(st.sampled_from(["any", "gpu", ["gpu", "zone=eu"], ["any", "${{ inputs.where }}"]]))
        job["if"] = draw(CONDITIONS)
        job["steps"] = draw(steps())
        if found and (needs := draw(st.lists(st.sampled_from(list(found)), unique=True))):
            job["needs"] = draw(st.sampled_from([needs, [need.upper() for need in needs]]))
        found[id_] = job
    return found


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    """A file as data: YAML reads JSON."""
    return {**draw(optional(name=st.sampled_from(["x", "Der Ablauf"]), env=env(*OUTSIDE))), "jobs": draw(jobs())}
