"""A file that is right becomes a document that says what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.actions.expressions import Template
from holdfast.actions.jobs.identity import plain
from holdfast.actions.syntax.document import Document, Job, Resources, Retry, Step
from holdfast.actions.syntax.load import load
from holdfast.actions.syntax.matrix import expand, resolve
from holdfast.actions.syntax.mistake import Position
from holdfast.errors import InvalidFile

REPORTS = Path(__file__).with_name("reports.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reports() -> Document:
    return load(REPORTS, "reports")


def job(body: str) -> Job:
    """The first of the jobs in a file, given what stands below its id."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return load(f"jobs:\n  build:\n{lines}\n", "file").jobs[0]


def step(body: str) -> Step:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return job(f"runs-on: any\nsteps:\n  -\n{lines}").steps[0]


def text(template: Template | None) -> str:
    assert template is not None
    return template.render({})


# --- The document's own structure -------------------------------------------------------------------------------------


def test_the_documents_structure_parses_with_both_contexts(reports: Document) -> None:
    assert reports.name == "quarterly-reports"
    assert [(job.id, job.needs) for job in reports.jobs] == [
        ("collect", ()),
        ("explain", ("collect",)),
        ("chart", ("collect",)),
        ("publish", ("explain", "chart")),
    ]
    script = reports.job("publish").steps[0].script
    assert script.text == 'publish --text "${HOLDFAST_EXPR_1}" --figures "${HOLDFAST_EXPR_2}"'
    contexts: dict[str, Any] = {
        "needs": {"explain": {"outputs": {"text": "$(rm)"}}},
        "jobs": {"collect": {"outputs": {"figures": "f"}}},
    }
    assert [(binding.name, binding.value.evaluate(contexts)) for binding in script.bindings] == [
        ("HOLDFAST_EXPR_1", "$(rm)"),
        ("HOLDFAST_EXPR_2", "f"),
    ]


def test_a_document_is_frozen_and_knows_its_places(reports: Document) -> None:
    with pytest.raises(AttributeError):
        reports.name = "other"  # type: ignore[misc]
    assert reports.env[0].at == Position(4, 3)
    assert reports.job("collect").steps[0].at == Position(10, 9)
    assert msgspec.structs.asdict(reports)["jobs"][0].at == Position(7, 3)


def test_needs_are_one_or_a_list(reports: Document) -> None:
    assert reports.job("explain").needs == ("collect",)
    assert reports.job("publish").needs == ("explain", "chart")


def test_labels_are_one_or_a_list_and_any_is_none(reports: Document) -> None:
    assert reports.job("collect").labels == ()
    assert [text(label) for label in reports.job("explain").labels] == ["gpu", "internet-access"]
    assert [text(label) for label in job("runs-on: gpu\nsteps: [{run: x}]").labels] == ["gpu"]


def test_env_stands_at_three_levels_and_its_values_become_text() -> None:
    document = load(
        "env: {A: 1, B: 1.50, C: true, D: , E: 0x10, F: yes}\n"
        "jobs:\n  j:\n    runs-on: any\n    env: {A: '${{ inputs.a }}'}\n    steps:\n      - {run: x, env: {A: '${{ env.B }}'}}\n",
        "file",
    )
    assert {each.name: text(each.value) for each in document.env} == {
        "A": "1",
        "B": "1.5",
        "C": "true",
        "D": "",
        "E": "16",
        "F": "yes",
    }
    assert document.jobs[0].env[0].value.render({"inputs": {"a": "b"}}) == "b"
    assert document.jobs[0].steps[0].env[0].value.render({"env": {"B": "c"}}) == "c"


def test_a_condition_has_its_implicit_success(reports: Document) -> None:
    publish = reports.job("publish").condition
    assert not publish.implies_success
    assert reports.job("collect").condition.implies_success
    assert job("runs-on: any\nif: inputs.go\nsteps: [{run: x}]").condition.implies_success


def test_outputs_are_texts_or_say_where_they_are_stored(reports: Document) -> None:
    assert [(out.name, out.storage) for out in reports.job("collect").outputs] == [("figures", "local")]
    assert [(out.name, out.storage) for out in reports.job("explain").outputs] == [("text", "s3")]
    plain = job("runs-on: any\nsteps: [{id: a, run: x}]\noutputs: {size: '${{ steps.a.outputs.size }}'}").outputs[0]
    assert (plain.name, plain.storage, plain.value.is_single) == ("size", "local", True)


def test_a_matrix_that_the_file_decides_is_expanded(reports: Document) -> None:
    strategy = reports.job("chart").strategy
    assert strategy is not None
    assert strategy.combinations == ({"kind": "bar"}, {"kind": "line"}, {"kind": "pie", "colours": 7})
    assert (strategy.fail_fast, strategy.max_parallel) == (False, 2)


def test_a_matrix_from_an_expression_is_expanded_when_it_is_known() -> None:
    body = "runs-on: any\nstrategy:\n  matrix: {}\nsteps: [{{run: 'echo ${{{{ matrix.a }}}}'}}]"
    for written, value in [
        ("${{ fromJSON(inputs.m) }}", '{"a": [1, 2]}'),
        ("{a: '${{ fromJSON(inputs.m) }}'}", "[1, 2]"),
        ("{a: [1, '${{ fromJSON(inputs.m) }}']}", "2"),
    ]:
        strategy = job(body.format(written)).strategy
        assert strategy is not None
        assert strategy.combinations is None
        assert expand(resolve(strategy.matrix, {"inputs": {"m": value}})) == ({"a": 1}, {"a": 2})
        assert strategy.fail_fast is True


def test_times_are_numbers_or_expressions_and_a_job_has_six_hours() -> None:
    assert job("runs-on: any\nsteps: [{run: x}]").timeout_minutes == 360
    assert job("runs-on: any\ntimeout-minutes: 0.5\nsteps: [{run: x, timeout-minutes: 5}]").timeout_minutes == 0.5
    told = job("runs-on: any\ntimeout-minutes: ${{ inputs.minutes }}\nsteps: [{run: x}]").timeout_minutes
    assert isinstance(told, Template)
    assert told.evaluate({"inputs": {"minutes": 7}}) == 7
    assert step("run: x").timeout_minutes is None


def test_a_failure_may_be_gone_on_from(reports: Document) -> None:
    assert reports.job("publish").continue_on_error is True
    assert step("run: x\ncontinue-on-error: true").continue_on_error is True
    assert step("run: x").continue_on_error is False
    assert isinstance(step("run: x\ncontinue-on-error: ${{ inputs.lax }}").continue_on_error, Template)


def test_a_step_has_a_shell_a_directory_and_a_name() -> None:
    found = step("run: x\nshell: python\nworking-directory: data/${{ inputs.day }}\nname: Day ${{ inputs.day }}\nid: a-b_1")
    assert (found.shell, found.id) == ("python", "a-b_1")
    assert found.working_directory is not None
    assert found.working_directory.render({"inputs": {"day": 3}}) == "data/3"
    assert step("run: x\nshell: perl {0}").shell == "perl {0}"
    assert step("run: x").shell is None


def test_a_step_may_be_repeated_unless_it_says_otherwise(reports: Document) -> None:
    assert step("run: x").effect == "idempotent"
    assert reports.job("explain").steps[0].effect == "once"
    assert step("run: x\neffect: read").effect == "read"


def test_resources_retries_and_pools_are_what_the_file_says(reports: Document) -> None:
    explain = reports.job("explain")
    resources = explain.resources
    assert (resources.cpu_millicores, resources.memory_mb, resources.gpus) == (2000, 8000, 1)
    assert [text(tag) for tag in resources.tags] == ["fast"]
    assert explain.retry == Retry(times=3, backoff="fixed", delay_s=5, max_delay_s=60)
    assert [(share.pool, share.amount) for share in explain.pools] == [("OPENAI_RPS", 5), ("OPENAI_TPS", 1000)]
    assert job("runs-on: any\npriority: -5\nsteps: [{run: x}]").priority == -5
    bare = reports.job("collect")
    assert (bare.resources, bare.retry, bare.pools, bare.priority) == (Resources(), Retry(), (), None)


def test_a_file_without_a_name_has_that_of_its_file() -> None:
    assert load("jobs: {j: {runs-on: any, steps: [{run: x}]}}", "nightly").name == "nightly"


def test_lines_may_end_as_on_windows() -> None:
    crlf = load(REPORTS.replace("\n", "\r\n"), "reports")
    assert crlf == load(REPORTS, "reports")


def test_a_variable_that_steers_takes_values_of_a_written_matrix() -> None:
    def text(matrix: str, value: str = "${{ matrix.v }}") -> str:
        env = f"env: {{CFLAGS: '{value}'}}"
        return f"jobs: {{a: {{runs-on: any, strategy: {{matrix: {matrix}}}, {env}, steps: [{{run: echo, {env}}}]}}}}"

    load(text("{v: ['-O2', '-O0'], include: [{v: '-g'}]}"), "file")
    load(text("{v: [1]}", "-O${{ strategy.job-index }}"), "file")
    for matrix, value in [
        ("{v: ['${{ inputs.flags }}']}", "${{ matrix.v }}"),
        ("'${{ fromJSON(inputs.m) }}'", "${{ matrix.v }}"),
        ("{v: [1]}", "${{ matrix.v }} ${{ inputs.flags }}"),
    ]:
        with pytest.raises(InvalidFile, match="'CFLAGS' steers what is run: a build tool runs the program"):
            load(text(matrix, value), "file")


def test_an_alias_stands_for_what_it_names_wherever_a_value_or_a_key_may_stand() -> None:
    with_aliases = """
name: &n x
env: &env {A: 1, B: "${{ inputs.b }}"}
jobs:
  one: &job
    runs-on: &where [any, gpu]
    env: *env
    steps: &steps
      - &step {run: &script "echo ${{ inputs.a }}", env: *env}
      - *step
  two: *job
  three: {runs-on: *where, steps: *steps, outputs: {*n : *n}, strategy: {matrix: {v: [&v {k: 1}, *v, *n], n: *where}}}
  four: {runs-on: &where any, steps: [{run: *script}], needs: [one]}
  five: {runs-on: *where, steps: [*step]}
"""
    step = 'run: "echo ${{ inputs.a }}", env: {A: 1, B: "${{ inputs.b }}"}'
    job = f'runs-on: [any, gpu], env: {{A: 1, B: "${{{{ inputs.b }}}}"}}, steps: [{{{step}}}, {{{step}}}]'
    written_out = f"""
name: x
env: {{A: 1, B: "${{{{ inputs.b }}}}"}}
jobs:
  one: {{{job}}}
  two: {{{job}}}
  three:
    runs-on: [any, gpu]
    steps: [{{{step}}}, {{{step}}}]
    outputs: {{x: x}}
    strategy: {{matrix: {{v: [{{k: 1}}, {{k: 1}}, x], n: [any, gpu]}}}}
  four: {{runs-on: any, steps: [{{run: "echo ${{{{ inputs.a }}}}"}}], needs: [one]}}
  five: {{runs-on: any, steps: [{{{step}}}]}}
"""
    assert plain(load(with_aliases, "file")) == plain(load(written_out, "file"))
