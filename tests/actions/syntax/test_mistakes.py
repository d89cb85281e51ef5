"""Every mistake of a file is told, all at once, where it stands and in words that say how to mend it."""

from __future__ import annotations

import re

import pytest

from holdfast.actions.syntax.load import load
from holdfast.actions.syntax.mistake import Mistake
from holdfast.errors import InvalidFile


def mistakes(text: str) -> tuple[Mistake, ...]:
    with pytest.raises(InvalidFile) as found:
        load(text, "file")
    return found.value.mistakes  # type: ignore[no-any-return]


def in_job(lines: str) -> str:
    body = "\n".join(f"    {line}" for line in lines.splitlines())
    return f"jobs:\n  first:\n    runs-on: any\n    steps:\n      - run: echo\n    outputs: {{size: x}}\n  build:\n{body}\n"


def in_step(lines: str) -> str:
    body = "\n".join(f"  {line}" for line in lines.splitlines())
    return in_job(f"runs-on: any\nneeds: first\nsteps:\n- id: before\n  run: echo\n-\n{body}\n- id: after\n  run: echo")


JOB, STEP = "jobs.build", "jobs.build.steps[1]"

AT_THE_TOP = [
    ("", "1:1: the file is empty; it needs 'jobs'."),
    ("[a]", "1:1: a workflow is a mapping"),
    ("name: x", "1:1: a workflow needs 'jobs'."),
    ("jobs: {}", "1:7: jobs: found a mapping; allowed is a mapping that is not empty."),
    ("jobs: [a]", "1:7: jobs: found a list; allowed is a mapping of names, each with name, needs, if, runs-on"),
    ("name: [x]\njobs: {a: {runs-on: any, steps: [{run: x}]}}", "1:7: name: found a list; allowed is a text."),
    ("name: ${{ inputs.x }}\njobs: {}", "1:7: name: an expression stands here, in '${{ inputs.x }}'; write the value"),
    ("nmae: x\njobs: {}", "1:1: nmae: 'nmae' is no key of a workflow. Did you mean 'name'? It has name, env, jobs."),
    ("env: {A: '${{ needs.a.result }}'}", "1:15: env.A: 'needs' is not known here; an expression may read inputs, vars."),
    ("env: {a-b: 1}", "1:7: env.a-b: 'a-b' cannot be the name of a variable"),
    ("env: {HOLDFAST_RUN: 1}", "1:7: env.HOLDFAST_RUN: 'HOLDFAST_RUN' is set by Holdfast"),
    ("env: {GITHUB_OUTPUT: 1}", "1:7: env.GITHUB_OUTPUT: 'GITHUB_OUTPUT' is set by Holdfast"),
    *(
        (f"env: {{{name}: 'a${{{{ inputs.a }}}}'}}", f"1:7: env.{name}: {name!r} steers what is run")
        for name in (
            "PATH",
            "LD_AUDIT",
            "LD_LIBRARY_PATH",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "PERL5OPT",
            "RUBYOPT",
            "GIT_SSH_COMMAND",
            "BASH_ENV",
            "ENV",
            "IFS",
            "SHELLOPTS",
            "PS4",
            "PROMPT_COMMAND",
            "JAVA_TOOL_OPTIONS",
        )
    ),
    ("env: {A: [1]}", "1:10: env.A: found a list; allowed is a text."),
    (
        "jobs: {1a: {runs-on: any, steps: [{run: x}]}}",
        "1:8: jobs.1a: '1a' cannot be the name of a job; such a name begins with",
    ),
    ("jobs: {a: text}", "1:11: jobs.a: found the text 'text'; allowed is a job: a mapping with name, needs"),
]

REMOVED = [
    ("on: push", "1:1: on: 'on' is not supported: a run is started by 'holdfast run' or by a program"),
    ("'on': {schedule: []}", "1:1: on: 'on' is not supported"),
    ("permissions: {}", "1:1: permissions: 'permissions' is not supported: there is no token"),
    ("concurrency: x", "1:1: concurrency: 'concurrency' is not supported: what may run at once is set by 'pools'"),
    ("defaults: {run: {shell: bash}}", "1:1: defaults: 'defaults' is not supported: each step says for itself"),
    ("run-name: x", "1:1: run-name: 'run-name' is not supported"),
    ("inputs: {}", "1:1: inputs: 'inputs' is not supported"),
    (
        in_job("container: node"),
        f"8:5: {JOB}.container: 'container' is not supported: steps run on workers, not in containers.",
    ),
    (in_job("services: {}"), f"8:5: {JOB}.services: 'services' is not supported"),
    (in_job("uses: ./other.yml"), f"8:5: {JOB}.uses: 'uses' is not supported: a workflow stands by itself and calls no other."),
    (in_job("permissions: {}"), f"8:5: {JOB}.permissions: 'permissions' is not supported"),
    (in_job("concurrency: x"), f"8:5: {JOB}.concurrency: 'concurrency' is not supported"),
    (in_job("environment: x"), f"8:5: {JOB}.environment: 'environment' is not supported"),
    (in_job("defaults: {}"), f"8:5: {JOB}.defaults: 'defaults' is not supported"),
    (
        in_job("runs-on: {group: large}"),
        f"8:14: {JOB}.runs-on: a mapping is not supported here: there are no groups of runners",
    ),
    (
        in_step("uses: actions/checkout@v4"),
        f"14:7: {STEP}.uses: 'uses' is not supported: there is no marketplace of actions; a step runs",
    ),
    (in_step("run: x\nwith: {a: 1}"), f"15:7: {STEP}.with: 'with' is not supported"),
    (
        in_step("run: x\nif: github.ref == 'x'"),
        f"15:11: {STEP}.if: 'github' is not there: there is no repository and no event here",
    ),
    (in_step("run: echo ${{ secrets.KEY }}"), f"14:21: {STEP}.run: 'secrets' is not there: a secret must not become part"),
    (in_step("run: echo ${{ runner.os }}"), f"14:21: {STEP}.run: 'runner' is not there"),
]

OF_JOBS = [
    (in_job("steps: [{run: x}]"), f"8:5: {JOB}: a job needs 'runs-on'.\n    runs-on: any"),
    (in_job("runs-on: any"), f"8:5: {JOB}: a job needs 'steps'.\n    steps:\n      - run: echo hello"),
    (in_job("runs-on: []\nsteps: []"), f"9:12: {JOB}.steps: found a list; allowed is a list that is not empty."),
    (in_job("runs-on: ''"), f"8:14: {JOB}.runs-on: found nothing; allowed is a text of 1 to 100 characters"),
    (
        in_job("runs-on: [gpu, a b]"),
        f"8:20: {JOB}.runs-on[1]: found the text 'a b'; allowed is a text of 1 to 100 characters without blanks and"
        " commas, like gpu or zone=eu.",
    ),
    (in_job('runs-on: "a,b"'), f"8:14: {JOB}.runs-on: found the text 'a,b'; allowed is a text of 1 to 100"),
    (in_job(f"runs-on: {'x' * 101}"), f"8:14: {JOB}.runs-on: found the text 'xxx"),
    (
        in_job("resources: {tags: [fast, '']}"),
        f"8:30: {JOB}.resources.tags[1]: found nothing; allowed is a text of 1 to 100 characters",
    ),
    (
        in_job("priority: 1001"),
        f"8:15: {JOB}.priority: found the number '1001'; allowed is a whole number from -1,000 to 1,000.",
    ),
    (in_job("priority: ${{ inputs.p }}"), f"8:15: {JOB}.priority: found the text"),
    (in_job("needs: frist"), f"8:12: {JOB}.needs: there is no job 'frist'. Did you mean 'first'? There is first."),
    (in_job("needs: [first, build]"), f"8:20: {JOB}.needs: a job cannot need itself; remove it."),
    (in_job("needs: [first, first]"), f"8:13: {JOB}.needs: 'first' stands twice; remove one."),
    (in_job("needs: ${{ inputs.x }}"), f"8:12: {JOB}.needs: an expression stands here"),
    (in_job("if: env.A"), f"8:9: {JOB}.if: 'env' is not known here; an expression may read inputs, vars, needs, jobs, left."),
    (in_job("if: steps.a.outcome == 'x'"), f"8:9: {JOB}.if: 'steps' is not known here"),
    (in_job("if: matrix.a"), f"8:9: {JOB}.if: 'matrix' is not known here"),
    (
        in_job("if: nedes.first.result == 'x'"),
        f"8:9: {JOB}.if: 'nedes' is no context. Did you mean 'needs'? Here an expression may read",
    ),
    (in_job("if: left.money > 1"), f"8:9: {JOB}.if: left has no 'money'. It has cost_usd, tokens"),
    (in_job("timeout-minutes: ${{ left.steps }}"), f"8:26: {JOB}.timeout-minutes: 'left' is no context."),
    (in_job("if: needs.first.result == success"), f"8:31: {JOB}.if: 'success' is no context."),
    (in_job('if: needs.first.result == "success"'), f"8:31: {JOB}.if: "),
    (
        in_job("if: ${{ failure() }} || true"),
        f"8:9: {JOB}.if: '${{{{ failure() }}}} || true' is a text with an expression in it",
    ),
    (in_job("if: [a]"), f"8:9: {JOB}.if: found a list; allowed is a condition."),
    (in_job("if: sucess()"), f"8:9: {JOB}.if: "),
    (in_job("if: hashFiles('x') != ''"), f"8:9: {JOB}.if: "),
    (in_job("if: !cancelled() && true"), f"8:9: {JOB}.if: '!cancelled()' is a YAML tag, which is not allowed."),
    (in_job("env: {A: '${{ env.B }}'}"), f"8:19: {JOB}.env.A: 'env' is not known here"),
    (in_job("env: {A: '${{ success() }}'}"), f"8:19: {JOB}.env.A: success() may be called in 'if' only"),
    (
        in_job("timeout-minutes: 0"),
        f"8:22: {JOB}.timeout-minutes: found the number '0'; allowed is a number above 0 up to 43,200",
    ),
    (
        in_job("timeout-minutes: 10m"),
        f"8:22: {JOB}.timeout-minutes: found the text '10m'; allowed is a number above 0 up to 43,200 or an"
        " expression, without a unit.\n    timeout-minutes: 10",
    ),
    (in_job("timeout-minutes: .nan"), f"8:22: {JOB}.timeout-minutes: found the number '.nan'"),
    (in_job("timeout-minutes: x${{ inputs.a }}"), f"8:22: {JOB}.timeout-minutes: found the text"),
    (
        in_job("continue-on-error: yes"),
        f"8:24: {JOB}.continue-on-error: found the text 'yes'; allowed is true or false, or an expression.",
    ),
    (in_job("outputs: {x: '${{ steps.nope.outputs.y }}'}"), f"8:23: {JOB}.outputs.x: no step of this job has the id 'nope'."),
    (in_job("outputs: {x: {storage: s3}}"), f"8:18: {JOB}.outputs.x: an output needs 'value'."),
    (
        in_job("outputs: {x: {value: y, storage: gcs}}"),
        f"8:38: {JOB}.outputs.x.storage: found the text 'gcs'; allowed is 's3' or 'local'.",
    ),
    (in_job("outputs: {'a b': x}"), f"8:15: {JOB}.outputs.a b: 'a b' cannot be the name of an output"),
    (
        in_job("resources: {cpu: 2000m}"),
        f"8:22: {JOB}.resources.cpu: found the text '2000m'; allowed is a whole number from 0 to 10,000,000"
        " or an expression, without a unit.\n    cpu: 2000",
    ),
    (in_job("resources: {memory: 8GB}"), f"8:25: {JOB}.resources.memory: found the text '8GB'"),
    (in_job("resources: {cpu: 1.5}"), f"8:22: {JOB}.resources.cpu: found the number '1.5'; allowed is a whole number"),
    (in_job("resources: {gpu: 1}"), f"8:17: {JOB}.resources.gpu: 'gpu' is no key of resources. Did you mean 'gpus'?"),
    (
        in_job("retry: {backoff: linear}"),
        f"8:22: {JOB}.retry.backoff: found the text 'linear'; allowed is 'fixed' or 'exponential'.",
    ),
    (in_job("retry: {backoff: fixed}"), f"8:12: {JOB}.retry: retry needs 'max'.\n    max: 3"),
    (in_job("retry: {max: 101}"), f"8:18: {JOB}.retry.max: found the number '101'; allowed is a whole number from 0 to 100."),
    (
        in_job("retry: {max: 1, delay-seconds: 60, max-delay-seconds: 30}"),
        f"8:40: {JOB}.retry.max-delay-seconds: max-delay-seconds is 30, below",
    ),
    (in_job("pools: {OPENAI: 0}"), f"8:21: {JOB}.pools.OPENAI: found the number '0'; allowed is a whole number from 1"),
    (
        in_job("pools: {a-b: 1, c: 1, A_B: 2}"),
        f"8:27: {JOB}.pools.A_B: a script gets the amounts of 'a-b' and 'A_B' in the same variable, HOLDFAST_POOL_A_B. Give one",
    ),
    (
        in_job("pools: {OPENAI: car}"),
        f"8:21: {JOB}.pools.OPENAI: found the text 'car'; allowed is a whole number from 1 to 10,000,000,000 or 'auto' or an",
    ),
    (
        in_job("resources: {gpus: auto}"),
        f"8:23: {JOB}.resources.gpus: found the text 'auto'; allowed is a whole number from 0 to 10,000 or an",
    ),
    (in_job("pools: [OPENAI]"), f"8:12: {JOB}.pools: found a list; allowed is a mapping of names, each with a number."),
    (in_job("strategy: {matrix: {a: [1]}, max-parallel: 0}"), f"8:48: {JOB}.strategy.max-parallel: found the number '0'"),
    (in_job("strategy: {matrix: {a: 1}}"), f"8:25: {JOB}.strategy.matrix.a: the values of 'a' are a list, not the int 1."),
    (
        in_job("strategy: {matrix: {a: [1], exclude: [{b: 1}]}}"),
        f"8:44: {JOB}.strategy.matrix.exclude[0].b: 'b' is no key of the matrix",
    ),
    (
        in_job("strategy: {matrix: {a: [1], exclude: [{a: 1}]}}"),
        f"8:24: {JOB}.strategy.matrix: 'exclude' leaves no combination",
    ),
    (
        in_job("strategy: {matrix: {v: [1, .inf]}}"),
        f"8:32: {JOB}.strategy.matrix.v[1]: inf is no number that JSON has, as which combinations are kept; put it in quotes.",
    ),
    (in_job("strategy: {matrix: {a b: [1]}}"), f"8:25: {JOB}.strategy.matrix.a b: 'a b' cannot be a key of a matrix"),
    (
        in_job("strategy: {matrix: 'x${{ inputs.a }}'}"),
        f"8:24: {JOB}.strategy.matrix: a matrix is a mapping, or one expression",
    ),
    (in_job("strategy: {matrix: {a: 'x${{ inputs.a }}'}}"), f"8:28: {JOB}.strategy.matrix.a: a text is no list"),
    (
        in_job("strategy: {matrix: {a: [{'${{ insert }}': {b: 1}}]}}"),
        f"8:30: {JOB}.strategy.matrix.a[0].${{{{ insert }}}}: write the key itself, or give the mapping that holds it",
    ),
    (in_job("strategy: {matrix: {'${{ inputs.a }}': [1]}}"), f"8:25: {JOB}.strategy.matrix.${{{{ inputs.a }}}}: write the key"),
    (in_job("strategy: {matrix: {a: ['${{ matrix.b }}']}}"), f"8:34: {JOB}.strategy.matrix.a[0]: 'matrix' is not known here"),
    (
        in_job(f"strategy: {{matrix: {{a: {list(range(257))}}}}}"),
        f"8:24: {JOB}.strategy.matrix: the matrix makes more than 256 combinations",
    ),
]

OF_STEPS = [
    (in_step("name: x"), f"14:7: {STEP}: a step needs 'run'.\n    run: echo hello"),
    (in_step("run: ''"), f"14:12: {STEP}.run: found nothing; allowed is a text that is not empty."),
    (in_step("run: [a]"), f"14:12: {STEP}.run: found a list; allowed is a text."),
    (in_step("run: x\nid: a b"), f"15:11: {STEP}.id: found the text 'a b'; allowed is a name that begins with a letter or '_'"),
    (in_step("run: x\nid: BEFORE"), f"14:7: {STEP}.id: two steps have the id 'BEFORE', the first in line 11"),
    (in_step("run: x\nshell: pwsh"), f"15:14: {STEP}.shell: 'pwsh' is no shell that is known."),
    (
        in_step("run: x\nworking-directory: ../x"),
        f"15:26: {STEP}.working-directory: found '../x'; it leaves the job's own directory",
    ),
    (in_step("run: x\nworking-directory: a/../../b"), f"15:26: {STEP}.working-directory: found 'a/../../b'; it leaves"),
    (in_step("run: x\nworking-directory: /etc"), f"15:26: {STEP}.working-directory: found '/etc'; it must be a relative path"),
    (in_step("run: x\nworking-directory: ~/x"), f"15:26: {STEP}.working-directory: found '~/x'; it must be a relative path"),
    (
        in_step("run: x\nworking-directory: ${{ inputs.a }}/../.."),
        f"15:26: {STEP}.working-directory: found 'x/../..'; it leaves",
    ),
    (
        in_step("run: x\neffect: twice"),
        f"15:15: {STEP}.effect: found the text 'twice'; allowed is 'read' or 'idempotent' or 'once'.",
    ),
    (in_step("run: x\nrnu: y"), f"15:7: {STEP}.rnu: 'rnu' is no key of a step. Did you mean 'run'?"),
    (
        in_step("run: x\nif: steps.befor.outcome == 'x'"),
        f"15:11: {STEP}.if: no step of this job has the id 'befor'. Did you mean 'before'?",
    ),
    (
        in_step("run: echo ${{ steps.after.outputs.x }}"),
        f"14:21: {STEP}.run: the step 'after' runs later, as step 3 of this job",
    ),
    (in_step("id: me\nrun: echo ${{ steps.me.outputs.x }}"), f"15:21: {STEP}.run: a step cannot read what it has not done yet"),
    (
        in_step("run: echo ${{ steps.before.output.x }}"),
        f"14:21: {STEP}.run: steps.before has no 'output'. Did you mean 'outputs'?",
    ),
    (
        in_step("run: echo ${{ needs.first.outputs.siez }}"),
        f"14:21: {STEP}.run: the job 'first' has no output 'siez'. Did you mean 'size'?",
    ),
    (in_step("run: echo ${{ needs.first.size }}"), f"14:21: {STEP}.run: needs.first has no 'size'."),
    (in_step("run: echo ${{ needs.frist.result }}"), f"14:21: {STEP}.run: there is no job 'frist'. Did you mean 'first'?"),
    (in_step("run: echo ${{ jobs.build.result }}"), f"14:21: {STEP}.run: a job cannot read its own outputs or result"),
    (in_step("run: echo ${{ matrix.os }}"), f"14:21: {STEP}.run: this job has no matrix.\n    strategy:\n      matrix:"),
    (in_step("run: echo ${{ job.container }}"), f"14:21: {STEP}.run: job has no 'container'. It has status."),
    (in_step("run: echo ${{ strategy.index }}"), f"14:21: {STEP}.run: strategy has no 'index'. Did you mean 'job-index'?"),
    (in_step("run: echo ${{ inputs.a"), f"14:17: {STEP}.run: `${{{{` is not closed by `}}}}`."),
    (in_step("run: echo ${{ }}"), f"14:17: {STEP}.run: There is nothing between"),
    (in_step("run: echo ${{ inputs.a + 1 }}"), f"14:30: {STEP}.run: "),
    (
        in_step("run: |\n  echo one\n  echo '${{ inputs.name }}'"),
        f"16:15: {STEP}.run: ${{{{ inputs.name }}}} stands inside single quotes.",
    ),
    (
        in_step("run: print(${{ inputs.name }})\nshell: python"),
        f"14:18: {STEP}.run: ${{{{ inputs.name }}}} stands in a script for 'python'",
    ),
    (
        in_step("run: print ${{ inputs.name }}\nshell: perl {0}"),
        f"14:18: {STEP}.run: ${{{{ inputs.name }}}} stands in a script for 'perl {{0}}'",
    ),
    (
        in_step("run: echo ${{ inputs.name }}\nshell: bash -c 'eval {0}'"),
        f"14:17: {STEP}.run: ${{{{ inputs.name }}}} stands in a script for",
    ),
    (
        in_step("run: " + "${{ inputs.a }} " * 101),
        f"14:12: {STEP}.run: there are 101 expressions in the script; 100 are allowed.",
    ),
]

OF_YAML = [
    ("a: *x", "1:4: a: write out what '*x' is to stand for, because no value before it has that name."),
    ("a: {<<: {b: 1}}", "1:5: a: write the keys out: '<<' merges mappings, which is not allowed, here as on GitHub."),
    (
        "a: !!python/object:os.system x",
        "1:4: a: 'tag:yaml.org,2002:python/object:os.system' is a YAML tag, which is not allowed.",
    ),
    ('name: "a\\0b"', "1:7: name: the text holds '\\x00', which no file and no variable can hold; remove it."),
    ('name: "a\\ud800b"', "1:7: name: the text holds '\\ud800', which no file"),
    ("a: 1\nA: 2", "2:1: A: the key 'A' stands twice, first in line 1"),
    ("1: a", "1:1: the key '1' is a number, but keys are texts; put it in quotes.\n    '1':"),
    ("? [a]\n: b", "1:3: a key is a text, not a list."),
    ("a: b: c", "1:5: this is no YAML: mapping values are not allowed here. A text with ': ' in it stands in quotes"),
    (
        "a:\n\t- b",
        "2:1: this is no YAML: while scanning for the next token; found character '\\t' that cannot start any token.",
    ),
    ("a: [1", "1:6: this is no YAML"),
    ("a: 'x", "1:6: this is no YAML: while scanning a quoted scalar; found unexpected end of stream."),
    ("a: @x", "1:4: this is no YAML"),
    ('a: "\\q"', "1:6: this is no YAML: while scanning a double-quoted scalar; found unknown escape character 'q'."),
    ("a: 1\n---\nb: 2", "2:1: a second document begins here; a file holds one workflow."),
    ("%YAML 1.1\n---\na: 1", "1:1: this is no YAML: found a directive, which is not allowed"),
    ("a: 1\nb: \x07", "2:4: the character '\\x07' stands here, which YAML does not allow."),
    ("a: \ud800", "1:4: the character '\\ud800' stands here, which YAML does not allow."),
]

EVERY = AT_THE_TOP + REMOVED + OF_JOBS + OF_STEPS + OF_YAML


@pytest.mark.parametrize(("text", "told"), EVERY, ids=[told.partition("\n")[0][:70] for _, told in EVERY])
def test_each_mistake_is_reported_with_its_place_and_its_way_out(text: str, told: str) -> None:
    found = [str(each) for each in mistakes(text)]
    assert [each for each in found if each.startswith(told)], "\n".join(found)


def test_what_is_not_allowed_as_a_value_on_its_own_is_no_mistake_of_another() -> None:
    """One thing to mend is told once: a step that 'uses' an action does not lack 'run' as well."""
    assert len(mistakes(in_step("uses: actions/checkout@v4"))) == 1
    assert len(mistakes(in_step("uses: actions/checkout@v4\nwith: {ref: '${{ github.ref }}'}"))) == 1
    assert len(mistakes(in_job("uses: ./other.yml\nwith: {a: 1}\nsecrets: inherit"))) == 1
    assert len(mistakes(in_job("runs-on: any\nsteps: [{run: echo}]\nneeds: nobody"))) == 1


@pytest.mark.parametrize(
    "first",
    [
        "uses: ./other.yml",
        "runs-on: any\nsteps: [{run: x}]\noutputs: [x]",
        "runs-on: any\nsteps: [{run: x}]\noutputs: {a: [x]}",
        "text",
    ],
)
def test_what_follows_from_what_is_refused_or_wrong_is_no_further_mistake(first: str) -> None:
    lines = first if first == "text" else "\n" + "\n".join(f"    {line}" for line in first.splitlines())
    rest = "  b:\n    needs: a\n    runs-on: any\n    env: {A: '${{ needs.a.outputs.a }} ${{ jobs.a.outputs.b }}'}\n    steps: [{run: x}]\n"
    (found,) = mistakes(f"jobs:\n  a: {lines}\n{rest}")
    assert found.path.startswith("jobs.a")


def test_a_reference_to_a_broken_step_matrix_or_service_is_no_further_mistake() -> None:
    read = "env: {A: '${{ steps.me.outputs.x }} ${{ matrix.v }} ${{ job.services.db.id }}'}"
    (found,) = mistakes(
        in_step(f"run: echo\nid: 1 2\n{read.replace('matrix.v', 'steps.me.outcome').replace('job.services.db.id', '1')}")
    )
    assert found.path == f"{STEP}.id"
    (found,) = mistakes(in_job("runs-on: any\nstrategy: [x]\nsteps: [{run: echo}]\nname: '${{ matrix.v }}'"))
    assert found.path == f"{JOB}.strategy"
    (found,) = mistakes(in_job("runs-on: any\nservices: {db: x}\nsteps: [{run: echo, env: {A: '${{ job.services.db.id }}'}}]"))
    assert found.path == f"{JOB}.services"


def test_mistakes_that_are_alike_are_one_with_one_example_and_all_its_places() -> None:
    steps = "\n".join(f"- run: echo '${{{{ inputs.{name} }}}}'" for name in "abcd")
    (found,) = mistakes(in_job(f"runs-on: any\nsteps:\n{steps}"))
    assert (found.line, [place.line for place in found.also]) == (10, [11, 12, 13])
    assert " The same in lines 11, 12, 13.\n    env:\n" in str(found)
    text = in_job("runs-on: any\nsteps:\n- uses: a/b@v1\n- run: echo '${{ github.ref }} ${{ github.sha }}'\n- uses: c/d@v2")
    found, *others = mistakes(text)
    assert found.also
    assert "the same in line 12" in str(found).lower()
    assert ["inside single quotes" in str(others[0]), "'github' is not there" in str(others[1])] == [True, True]
    assert len(others) == 2


def test_a_mistake_in_what_an_alias_stands_for_is_reported_where_it_is_written() -> None:
    text = in_job("runs-on: any\nenv: &e {A: [x]}\nsteps:\n- run: echo\n  env: *e\n- run: echo\n  env: *e")
    (found,) = mistakes(text)
    assert str(found) == f"9:17: {JOB}.env.A: found a list; allowed is a text."
    text = in_job("runs-on: any\nsteps:\n- run: echo\n  env: &e {A: '${{ env.B }}'}\nenv: *e")
    (found,) = mistakes(text)
    assert str(found).startswith(f"11:24: {JOB}.env.A: 'env' is not known here;")
    assert str(found).endswith(" It is there by '*e' in line 12.")


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file() -> None:
    found = mistakes(
        "on: push\nnmae: x\njobs:\n  a:\n    needs: [b, zz]\n    runs-on: any\n    steps:\n      - run: echo '${{ inputs.x }}'\n"
        "        timeout-minutes: x\n  b:\n    needs: a\n    steps: []\n"
    )
    assert [each.line for each in found] == sorted(each.line for each in found)
    assert [(each.line, each.path) for each in found] == [
        (1, "on"),
        (2, "nmae"),
        (5, "jobs.a.needs"),
        (5, "jobs.a.needs"),
        (8, "jobs.a.steps[0].run"),
        (9, "jobs.a.steps[0].timeout-minutes"),
        (11, "jobs.b"),
        (12, "jobs.b.steps"),
    ]


def test_a_cycle_is_named_in_full() -> None:
    text = "jobs:\n" + "".join(
        f"  {job}:\n    needs: [{needs}]\n    runs-on: any\n    steps: [{{run: x}}]\n"
        for job, needs in [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "f"), ("f", "e")]
    )
    assert [each.message for each in mistakes(text)] == [
        "these jobs wait for one another: a -> b -> c -> a. Remove one of these needs.",
        "these jobs wait for one another: e -> f -> e. Remove one of these needs.",
    ]


def test_needs_knows_the_direct_ones_and_jobs_everything_that_comes_before() -> None:
    def text(job: str) -> str:
        rest = "    runs-on: any\n    steps: [{run: x}]\n    outputs: {o: x}\n"
        return f"jobs:\n  a:\n{rest}  b:\n    needs: a\n{rest}  c:\n    needs: b\n    env: {{A: '${{{{ {job} }}}}'}}\n{rest}  d:\n{rest}"

    load(text("needs.b.outputs.o"), "file")
    load(text("jobs.a.outputs.o"), "file")
    load(text("jobs.A.outputs.O"), "file")
    load(text("needs[inputs.name].outputs.o"), "file")
    load(text("needs.b[inputs.name].any"), "file")
    load(text("needs.*.outputs.any"), "file")
    assert "this job does not need 'a'" in mistakes(text("needs.a.outputs.o"))[0].message
    assert mistakes(text("needs.a.outputs.o"))[0].example == "needs: [b, a]"
    assert "'d' does not come before this job" in mistakes(text("jobs.d.outputs.o"))[0].message


def test_the_safe_form_is_shown_with_the_refusal() -> None:
    (found,) = mistakes(in_step("run: echo '${{ needs.first.outputs.size }}'"))
    assert "never pasted into a script" in found.message
    assert found.example == ('env:\n  SIZE: ${{ needs.first.outputs.size }}\nrun: |\n  echo "$SIZE"')
    repaired = in_step('env:\n  SIZE: ${{ needs.first.outputs.size }}\nrun: echo "$SIZE"')
    load(repaired, "file")
    (python,) = mistakes(in_step("run: print('${{ inputs.a }}')\nshell: python"))
    assert python.example is not None
    assert 'os.environ["A"]' in python.example


@pytest.mark.parametrize(
    ("value", "line", "column"),
    [
        ("echo '${{ inputs.a }}'", 9, 20),
        ("\"echo '${{ inputs.a }}'\"", 9, 21),
        ("|\n          echo\n\n          echo '${{ inputs.a }}'", 12, 17),
        ("|2-\n           echo '${{ inputs.a }}'", 10, 18),
        (">\n          echo one\n          '${{ inputs.a }}'", 11, 12),
        ('"echo ok;\n          echo \\"x\\" \'${{ inputs.a }}\'"', 10, 23),
        ("'echo ok;\n          echo ''${{ inputs.a }}'''", 10, 18),
    ],
)
def test_the_place_of_an_expression_is_exact_in_every_style(value: str, line: int, column: int) -> None:
    text = "name: x\n\n\njobs:\n  a:\n    runs-on: any\n    steps:\n      - id: a\n        run: " + value
    (found,) = mistakes(text)
    assert (found.line, found.column) == (line, column)


def test_a_mistake_in_the_second_of_two_alike_expressions_is_reported_at_the_second() -> None:
    (found,) = mistakes(in_step("run: echo \"${{ inputs.a }}\" '${{ inputs.a }}'"))
    assert (found.line, found.column) == (14, 36)


def test_no_more_than_a_hundred_are_reported_and_that_there_may_be_others() -> None:
    with pytest.raises(InvalidFile) as found:
        load("".join(f"k{n}: 1\n" for n in range(150)), "file")
    assert (len(found.value.mistakes), found.value.is_complete) == (100, False)
    assert found.value.message.startswith("file has at least 100 mistake(s):\nfile:1:1: k0: 'k0' is no key of a workflow.")


def test_a_message_can_be_read_by_itself() -> None:
    """Each begins with its place, for editors, and ends what it says; none shows Python's own words."""
    for text, _ in EVERY:
        for each in mistakes(text):
            assert re.match(r"\d+:\d+: ", str(each))
            assert each.message.endswith((".", ":", "?")), each.message
            assert not re.search(r"NoneType|Struct|Template\(|<[a-z]+ object", each.message), each.message
