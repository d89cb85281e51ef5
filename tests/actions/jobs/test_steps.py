"""The steps of a job: which run, what they are given, what their ending means for the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.actions.binding import PREFIX
from tests.actions.jobs.kit import Done, ran


async def one(steps: str, store: str, given: Any = None, *, more: str = "") -> Done:
    """A file of one job with these steps, indented as they stand in it."""
    return await ran(f"{more}\njobs:\n  job:\n    runs-on: any\n    steps:\n{steps}", store, given)


def outcomes(done: Done) -> dict[str, tuple[str, str]]:
    return {key: (step["outcome"], step["conclusion"]) for key, step in done.jobs["job"]["steps"].items()}


async def test_after_a_failed_step_only_those_run_that_ask_for_it(store: str) -> None:
    steps = """
      - {id: before, run: "true"}
      - {id: bad, run: exit 3}
      - {id: plain, run: "true"}
      - {id: on-failure, if: failure(), run: echo mending}
      - {id: always, if: "${{ always() }}", run: 'echo "${{ job.status }} ${{ steps.bad.outcome }}"'}
      - {id: not-cancelled, if: "!cancelled()", run: "true"}
      - {id: wished, if: steps.bad.outcome == 'failure', run: "true"}
    """
    done = await one(steps, store)
    assert done.results == {"job": "failure"}
    assert {key: outcome for key, (outcome, _) in outcomes(done).items()} == {
        "before": "success",
        "bad": "failure",
        "plain": "skipped",
        "on-failure": "success",
        "always": "success",
        "not-cancelled": "success",
        "wished": "skipped",
    }
    assert done.jobs["job"]["log"].splitlines()[1:] == ["mending", "failure failure"]


async def test_a_step_whose_failure_is_allowed_leaves_the_job_as_it_was(store: str) -> None:
    steps = """
      - {id: bad, continue-on-error: true, run: 'echo x=1 >> "$GITHUB_OUTPUT"; exit 3'}
      - {id: after, run: 'echo "${{ job.status }} ${{ steps.bad.outcome }} ${{ steps.bad.conclusion }} ${{ steps.bad.outputs.x }}"'}
    """
    done = await one(steps, store)
    assert outcomes(done)["bad"] == ("failure", "success")
    assert done.results == {"job": "success"}
    assert done.jobs["job"]["log"].splitlines()[-1] == "success failure success 1"


async def test_the_environment_of_a_step_comes_from_the_nearest_place(store: str) -> None:
    text = """
    env: {A: workflow, B: workflow, C: workflow, D: workflow, GITHUB_X: workflow}
    jobs:
      job:
        runs-on: any
        env: {B: job, C: job, D: job}
        steps:
          - run: printf 'C=file\\nD=file\\nHOLDFAST_JOB=file\\n' >> "$GITHUB_ENV"; echo "$C"
          - env: {D: step, E: "${{ env.D }}"}
            run: echo "$A $B $C $D $E $HOLDFAST_JOB ${{ env.D }}"
          - {run: 'echo "$D"', env: {}}
    """
    done = await ran(text.replace(", env: {}", ""), store)
    assert done.jobs["job"]["log"].splitlines() == ["job", "workflow job file step file job step", "file"]


async def test_a_step_extends_the_path_of_later_steps_and_its_summary_is_kept(store: str) -> None:
    steps = """
      - run: |
          mkdir one two; printf '#!/bin/sh\\necho "$0"\\n' > one/tool; cp one/tool two/tool; chmod +x */tool
          printf '%s\\n\\n%s\\n' "$PWD/one" "$PWD/two" >> "$GITHUB_PATH"; echo '# Done' >> "$GITHUB_STEP_SUMMARY"
          tool || echo not yet
      - {id: again, run: 'basename "$(dirname "$(command -v tool)")"; rm "$GITHUB_STEP_SUMMARY"; mkdir "$GITHUB_STEP_SUMMARY"'}
    """
    done = await one(steps, store)
    assert done.results == {"job": "success"}
    said = done.jobs["job"]["log"].splitlines()
    assert said[1:5] == ["not yet", "summary of step '1':", "# Done", "two"]
    assert said[6].startswith("The summary file (GITHUB_STEP_SUMMARY) is wrong")


async def test_what_is_masked_is_not_shown_from_then_on_and_annotations_are_readable(store: str) -> None:
    steps = """
      - run: |
          echo early; echo '::add-mask::early'; echo '::add-mask::one%0Alate'; echo early late
          echo '::group::Build'; echo '::error file=a.c,line=1::it is%0Aearly'; echo '::endgroup::'; echo '::set-output name=x::1'
          echo '::stop-commands::go'; echo '::error::no'; echo '::go::'; echo '::debug::yes'
      - {run: echo again early}
    """
    done = await one(steps, store)
    assert done.jobs["job"]["log"].splitlines() == [
        "early",
        "::add-mask::***",
        "::add-mask::***",
        "*** ***",
        "--- Build",
        "error (file=a.c,line=1): it is",
        "***",
        "::set-output:: is not obeyed: what is printed must not steer a job. Write it into $GITHUB_OUTPUT.",
        "::stop-commands::go",
        "::error::no",
        "::go::",
        "debug: yes",
        "again ***",
    ]


@pytest.mark.parametrize(("asked", "runs"), [("null", True), ("~", True), ("True", True), ("Null", True), ("FALSE", False)])
async def test_a_condition_may_be_written_as_the_schema_allows(store: str, asked: str, runs: bool) -> None:
    done = await one(
        f"""
      - {{id: a, if: {asked}, run: "true"}}
    """,
        store,
    )
    assert outcomes(done)["a"][0] == ("success" if runs else "skipped")


async def test_the_limits_of_a_job_bind_its_processes_and_the_settings_fill_the_gaps(store: str) -> None:
    done = await ran(
        """
    jobs:
      own:
        runs-on: any
        limits: {memory: 900, cpu-seconds: 1, file: 2, processes: 5000}
        steps:
          - run: ulimit -v; ulimit -t; ulimit -f; ulimit -u
          - {continue-on-error: true, run: head -c 3000000 /dev/zero > big}
          - run: while :; do :; done
      usual: {runs-on: any, steps: [{run: ulimit -v; ulimit -t; ulimit -f; ulimit -u}]}
    """,
        store,
    )
    assert done.results == {"own": "failure", "usual": "success"}
    own, usual = (done.jobs[name]["log"].splitlines() for name in ("own", "usual"))
    assert own[:3] == [str(900_000_000 // 1024), "1", str(2_000_000 // 1024)]
    assert "at its limit of processor time" in own[-1]
    assert usual[:3] == [str(256_000_000_000 // 1024), "86400", str(64_000_000_000 // 1024)]


async def test_a_strategy_without_a_matrix_is_one_combination(store: str) -> None:
    done = await ran(
        """
    jobs:
      job: {runs-on: any, strategy: {fail-fast: false, max-parallel: 2}, steps: [{run: "true"}]}
    """,
        store,
    )
    assert (done.results, done.jobs["job"]["log"]) == ({"job": "success"}, "")


async def test_no_step_can_change_what_an_expression_is_in_a_later_one(store: str) -> None:
    """The value is handed over in a variable, and an earlier step may write the same one into its environment file."""
    steps = f"""
      - {{run: 'echo "{PREFIX}1=forged" >> "$GITHUB_ENV"'}}
      - {{run: 'echo "${{{{ inputs.x }}}}"'}}
    """
    assert (await one(steps, store, {"x": "true"})).jobs["job"]["log"] == "true"


async def test_what_a_failed_step_has_written_counts(store: str) -> None:
    steps = """
      - id: bad
        run: |
          echo x=out >> "$GITHUB_OUTPUT"
          echo Y=env >> "$GITHUB_ENV"
          exit 1
      - {if: always(), run: 'echo "${{ steps.bad.outputs.x }} $Y"'}
    """
    assert (await one(steps, store)).jobs["job"]["log"].splitlines()[-1] == "out env"


async def test_a_mistake_in_an_output_file_fails_its_step(store: str) -> None:
    done = await one('      - {id: bad, run: echo nothing >> "$GITHUB_OUTPUT"}', store)
    assert outcomes(done) == {"bad": ("failure", "failure")}


@pytest.mark.parametrize(
    "step",
    [
        "{id: bad, if: 'fromJSON(inputs.bad)', run: 'true'}",
        "{id: bad, env: {X: '${{ fromJSON(inputs.bad) }}'}, run: 'true'}",
        "{id: bad, env: {X: '${{ fromJSON(inputs.bad) }}'}, if: 'false', run: 'true'}",
        "{id: bad, run: 'echo \"${{ fromJSON(inputs.bad) }}\"'}",
        "{id: bad, timeout-minutes: '${{ inputs.bad }}', run: 'true'}",
        "{id: bad, working-directory: '${{ inputs.up }}', run: 'true'}",
        "{id: bad, working-directory: nowhere, run: 'true'}",
        "{id: bad, shell: 'no-such-shell {0}', run: 'true'}",
        "{id: bad, env: {X: '${{ inputs.nul }}'}, run: 'true'}",
    ],
)
async def test_what_cannot_be_worked_out_fails_the_step_and_nothing_else(store: str, step: str) -> None:
    steps = f"      - {step}\n      - {{id: last, if: always(), run: 'true'}}"
    done = await one(steps, store, {"bad": "{", "up": "a/../../b", "nul": "a\0b"})
    assert outcomes(done) == {"bad": ("failure", "failure"), "last": ("success", "success")}
    assert done.results == {"job": "failure"}
    assert done.jobs["job"]["error"].startswith("step 'bad': ")


async def test_a_step_may_work_below_its_workspace_only_whatever_links_say(store: str) -> None:
    steps = """
      - {run: mkdir -p data/raw; ln -s / out; pwd -P > here}
      - {id: below, working-directory: "data/${{ inputs.name }}", run: 'test "$(pwd -P)" = "$(cat ../../here)/data/raw"'}
      - {id: above, working-directory: out/tmp, run: "true"}
    """
    done = await one(steps, store, {"name": "raw"})
    assert outcomes(done)["below"] == ("success", "success")
    assert outcomes(done)["above"] == ("failure", "failure")


async def test_each_job_has_a_workspace_of_its_own_that_is_gone_afterwards(store: str, scratch: Path, outside: Path) -> None:
    text = f"""
    jobs:
      first: {{runs-on: any, steps: [{{run: 'pwd >> {outside}; touch left; mkdir shut; chmod 0 shut'}}, {{run: test -f left}}]}}
      second: {{runs-on: any, needs: first, steps: [{{run: 'pwd >> {outside}; test -z "$(ls)"'}}]}}
    """
    done = await ran(text, store)
    assert done.status == "completed"
    places = outside.read_text().splitlines()
    assert len(set(places)) == 2
    assert all(Path(place).parent == scratch.resolve() for place in places)
    assert list(scratch.iterdir()) == []


async def test_a_step_that_takes_too_long_has_failed_and_leaves_nothing_running(store: str, outside: Path) -> None:
    steps = f"""
      - {{id: long, timeout-minutes: 0.01, run: 'sh -c "sleep 5; echo late >> {outside}"'}}
      - {{id: after, if: failure(), run: "true"}}
    """
    done = await one(steps, store)
    assert outcomes(done) == {"long": ("failure", "failure"), "after": ("success", "success")}
    assert "did not end within its time" in done.jobs["job"]["error"]
    assert not outside.exists()


async def test_a_job_that_takes_too_long_has_failed_and_none_of_its_steps_runs_any_more(store: str) -> None:
    text = """
    jobs:
      job:
        runs-on: any
        timeout-minutes: ${{ inputs.minutes }}
        steps: [{id: long, run: sleep 30}, {id: last, if: always(), run: "true"}]
    """
    done = await ran(text, store, {"minutes": 0.01})
    assert done.results == {"job": "failure"}
    assert outcomes(done) == {"long": ("failure", "failure")}


async def test_the_shell_of_a_step_is_the_one_it_names(store: str) -> None:
    steps = """
      - {run: "false | true; echo unset"}
      - {id: pipe, shell: bash, continue-on-error: true, run: "false | true"}
      - {shell: python, run: "print('python', 1 + 1)"}
      - {shell: "cat {0}", run: own}
    """
    done = await one(steps, store)
    assert done.status == "completed"
    said = done.jobs["job"]["log"].splitlines()
    assert (said[0], said[-2], said[-1]) == ("unset", "python 2", "own")
    assert outcomes(done)["pipe"] == ("failure", "success")


async def test_steps_know_whose_they_are(store: str) -> None:
    steps = """
      - {id: own, run: 'echo "$HOLDFAST_RUN $HOLDFAST_JOB $HOLDFAST_STEP ${#HOLDFAST_IDEMPOTENCY_KEY}"'}
      - {run: 'echo "$HOLDFAST_STEP"'}
    """
    done = await one(steps, store)
    assert done.jobs["job"]["log"].splitlines() == [f"{done.state.run} job own 64", "2"]


async def test_of_a_long_log_the_end_is_kept(store: str) -> None:
    done = await one("      - {run: seq 1 20000}", store)
    log = done.jobs["job"]["log"]
    assert len(log) <= 8 * 1024
    assert log.endswith("19999\n20000")


async def test_a_secret_is_masked_in_logs_and_outputs(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = "canary-4711-sings"
    monkeypatch.setenv("ANTHROPIC_API_KEY", canary)
    (tmp_path / "key").write_text(canary)
    steps = f"""
      - id: leak
        name: leak
        run: |
          cat {tmp_path}/key; echo
          echo "x=$(cat {tmp_path}/key)" >> "$GITHUB_OUTPUT"
      - {{id: use, run: 'test "${{{{ steps.leak.outputs.x }}}}" = "$(cat {tmp_path}/key)"; echo "$ANTHROPIC_API_KEY"; exit 3'}}
    outputs: {{x: "${{{{ steps.leak.outputs.x }}}}"}}
    """.replace("\n    outputs", "\n    outputs")
    done = await one(steps, store)
    assert outcomes(done)["use"] == ("failure", "failure")
    assert "exit code 3" in done.jobs["job"]["error"]  # within the job the value is what it is
    assert canary not in repr(done.jobs)
    assert all(canary.encode() not in file.read_bytes() for file in tmp_path.glob("holdfast.db*") if file.is_file())
