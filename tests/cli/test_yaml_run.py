"""FILE.yaml on the command line: run, worker, validate and graph, what stands where, and how they exit."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.actions.jobs import refusal
from holdfast.actions.syntax.load import load
from holdfast.testing.object_server import ObjectServer
from tests.cli.conftest import Shell
from tests.forks import Fork

FLOW = """
name: greet
jobs:
  say:
    runs-on: any
    steps:
      - id: hello
        run: |
          echo "Hello ${{ inputs.name }}"
          echo "said=Hello" >> "$GITHUB_OUTPUT"
    outputs: {said: "${{ steps.hello.outputs.said }}"}
  again:
    runs-on: any
    needs: say
    strategy: {max-parallel: 1, matrix: {n: [1, 2]}}
    steps: [{run: 'echo "${{ needs.say.outputs.said }} ${{ matrix.n }}"'}]
"""


def write(home: Path, text: str, name: str = "flow.yaml") -> str:
    (home / name).write_text(text)
    return name


def test_a_file_is_run_and_its_steps_are_read_as_they_speak(shell: Shell, home: Path) -> None:
    said = shell("run", write(home, FLOW), "-i", '{"name": "Ada"}')
    assert said.code == 0
    assert json.loads(said.out)["jobs"]["say"] == {"result": "success", "outputs": {"said": "Hello"}}
    lines = said.err.splitlines()
    assert re.fullmatch(r"Run \S+ of greet 1", lines[0])
    spoken = [line for line in lines if " | " in line]
    assert spoken == ["say | Hello Ada", "again (1) | Hello 1", "again (2) | Hello 2"]
    assert re.fullmatch(r"Run \S+: completed, \$0.00\.", lines[-1])


def test_the_combinations_of_a_job_are_shown_as_its_own_and_not_by_engine_places(shell: Shell, home: Path) -> None:
    said = shell("run", write(home, FLOW), "-i", '{"name": "Ada"}')
    told = [line for line in said.err.splitlines() if line.startswith("again") and " | " not in line]
    assert told == [
        "again started",
        "again has 2 combinations",
        "again (1 of 2) started",
        "again (1 of 2) completed",
        "again (2 of 2) started",
        "again (2 of 2) completed",
        "again has what it needs",
        "again resumed",
        "again completed",
    ]


def test_a_line_is_shown_when_it_is_printed_and_not_at_the_end(home: Path, process: Callable[..., Fork]) -> None:
    running = process("run", write(home, "jobs: {a: {runs-on: any, steps: [{run: 'echo begun; sleep 30'}]}}"))
    assert running.stderr is not None
    seen = ""
    while "a | begun" not in seen:
        line = running.stderr.readline()
        assert line, seen
        seen += line
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    (told,) = re.findall(r"^  (holdfast worker .*)$", err, re.MULTILINE)
    assert shlex.split(told) == ["holdfast", "worker", "flow.yaml", "--until-idle"]


def test_a_file_whose_job_fails_exits_as_a_failed_run_and_says_which_step_it_was(shell: Shell, home: Path) -> None:
    text = "jobs: {work: {runs-on: any, steps: [{id: break, run: 'echo why; exit 7'}]}}"
    said = shell("run", write(home, text))
    assert said.code == 1
    assert said.out == ""
    assert "work | why" in said.err
    assert "1 of 1 jobs failed: work (step 'break': It ended with exit code 7.)" in said.err


def test_control_characters_of_a_script_do_not_reach_the_terminal(shell: Shell, home: Path) -> None:
    said = shell("run", write(home, r"jobs: {a: {runs-on: any, steps: [{run: 'printf ''\033[31mred\n'''}]}}"))
    assert "a | \\x1b[31mred" in said.err


def test_a_worker_drives_the_runs_of_a_file_and_shows_whose_lines_they_are(shell: Shell, home: Path) -> None:
    run = shell("run", write(home, FLOW), "-i", '{"name": "Ada"}', "--detach").out.strip()
    said = shell("worker", "flow.yaml", "--until-idle")
    assert said.code == 0
    assert f"{run[:18]} say | Hello Ada" in said.err.splitlines()
    assert shell("runs", "show", run, "--json").data["status"] == "completed"


def test_every_mistake_of_a_file_is_reported_and_nothing_is_started(shell: Shell, home: Path) -> None:
    write(home, "on: push\njobs:\n  a:\n    runs-on: any\n    needs: b\n    steps:\n      - run: echo\n        uses: x\n")
    for command in ("run", "worker", "graph"):
        said = shell(command, "flow.yaml")
        assert said.code == 2
        assert [line.split(" ")[0] for line in said.err.splitlines() if line.startswith("flow.yaml:")] == [
            "flow.yaml:1:1:",
            "flow.yaml:5:12:",
            "flow.yaml:8:9:",
        ]
    assert not (home / "holdfast.db").exists()


SPREAD = """
jobs:
  a:
    runs-on: ["${{ matrix.where }}"]
    resources: {cpu: "${{ inputs.cores }}"}
    strategy: {matrix: {where: [here, there]}}
    steps: [{run: 'echo "on ${{ matrix.where }}"'}]
"""


def test_a_file_may_ask_for_a_place_by_an_expression(shell: Shell, home: Path) -> None:
    write(home, SPREAD)
    assert shell("validate", "flow.yaml", "--strict").code == 0
    assert shell("graph", "flow.yaml").code == 0
    said = shell("run", "flow.yaml", "-i", '{"cores": 100}', "--label", "here", "--label", "there")
    assert said.code == 0
    run = shell("runs", "list", "--json").data[0]["run_id"]
    assert "on there" in shell("logs", run).out
    (found,) = shell("runs", "show", run, "--json").data["maps"]
    assert (found["map"], found["completed"]) == ("a/0", 2)


def test_a_process_that_runs_a_file_by_itself_has_the_labels_of_all_its_jobs(shell: Shell, home: Path) -> None:
    write(
        home,
        """
jobs:
  a: {runs-on: [gpu], steps: [{run: echo}]}
  b: {runs-on: fast-disk, steps: [{run: echo}]}
  c: {runs-on: any, steps: [{run: echo}]}
""",
    )
    said = shell("run", "flow.yaml", "--label", "gpu")
    assert (said.code, "pass --label fast-disk" in said.err) == (2, True)
    assert shell("run", "flow.yaml", "--label", "gpu", "--label", "fast-disk", "--label", "more").code == 0
    said = shell("worker", "flow.yaml", "--until-idle", "--label", "gpu")
    assert (said.code, "steps that ask for fast-disk are left to other workers" in said.err) == (0, True)


def test_vars_are_the_settings_and_a_run_keeps_those_that_it_began_with(shell: Shell, home: Path) -> None:
    settings = home / "holdfast.toml"
    settings.write_text('[vars]\nREGION = "eu"\n')
    (home / "where.yaml").write_text(
        """
        env: {AT: "${{ vars.region }}"}
        jobs:
          a: {runs-on: any, steps: [{run: "echo $AT, ${{ vars.REGION }}${{ vars.OTHER }}."}]}
        """
    )
    assert "a | eu, eu." in shell("run", "where.yaml").err
    begun = shell("run", "where.yaml", "--detach").out.strip()
    settings.write_text('[vars]\nREGION = "us"\n')
    assert "a | us, us." in shell("run", "where.yaml").err
    assert f"{begun[:18]} a | eu, eu." in shell("worker", "--yaml", "--until-idle").err
    settings.write_text('[vars]\n"no name" = "x"\n')
    refused = shell("run", "where.yaml")
    assert (refused.code, "vars" in refused.err) == (2, True)


def test_a_run_here_has_what_it_says_it_has_and_is_refused_what_it_has_not(shell: Shell, home: Path) -> None:
    (home / "choosy.yaml").write_text(
        "jobs: {a: {runs-on: gpu, resources: {gpus: 2, tags: [fast], cpu: 64000}, steps: [{run: exit 0}]}}"
    )
    refused = shell("run", "choosy.yaml", "--label", "gpu", "--gpus", "1")
    assert (refused.code, "pass --tag fast --gpus 2." in " ".join(refused.err.split())) == (2, True)
    words = ("--label", "gpu", "--tag", "fast", "--gpus", "2")
    assert shell("run", "choosy.yaml", *words, "--cpu-m", "64000").code == 0
    waits = shell("run", "choosy.yaml", *words, "--cpu-m", "63999")
    assert "waits for a worker that has gpu, fast, cpu_m=64000 and gpus=2" in waits.out + waits.err


def test_each_job_runs_where_its_labels_tags_and_gpus_are(shell: Shell, home: Path) -> None:
    journal = home / "journal"
    write(
        home,
        f"""
jobs:
  a: {{runs-on: gpu, resources: {{gpus: 1, tags: [fast]}}, steps: [{{run: echo a >> {journal}}}]}}
  b: {{runs-on: any, steps: [{{run: echo b >> {journal}}}]}}
  c: {{runs-on: zone=eu, needs: [a, b], steps: [{{run: echo c >> {journal}}}]}}
""",
    )
    run = shell("run", "flow.yaml", "--detach").out.strip()
    assert "waits for a worker that has gpu, fast and gpus=1." in shell("runs", "show", run).out
    assert "You can start one." in shell("runs", "explain", run).out

    def after(*words: str) -> list[str]:
        assert shell("worker", "--until-idle", *words).code == 0
        return journal.read_text().split()

    assert after("flow.yaml", "--label", "zone=eu") == ["b"]
    assert after("--yaml", "--label", "gpu", "--gpus", "1") == ["b"]
    assert after("--yaml", "--label", "gpu", "--tag", "fast") == ["b"]
    assert after("--yaml", "--label", "gpu", "--tag", "fast", "--gpus", "1") == ["b", "a"]
    assert after("--yaml", "--label", "zone=eu") == ["b", "a", "c"]
    assert shell("runs", "show", run, "--json").data["status"] == "completed"


def test_the_documents_example_runs_as_it_stands_and_its_outputs_go_where_it_says(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of the document, untouched; its four programs are scripts of this test, and `extract` puts out much."""
    programs = {
        "fetch-content": """printf 'result=%s' "$*" >> "$GITHUB_OUTPUT"; head -c 100000 /dev/zero | tr '\\0' x >> "$GITHUB_OUTPUT" """,
        "analyze": """printf 'result=%s of %s bytes\\n' "$4" "${#2}" >> "$GITHUB_OUTPUT" """,
        "summarize": """printf '%s bytes\\n' "${#2}" """,
        "aggregate": """printf '<%s>\\n' "$2" """,
    }
    (home / "bin").mkdir()
    for name, script in programs.items():
        (home / "bin" / name).write_text(f"#!/bin/bash\n{script}\n")
        (home / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    example = str(Path(__file__).with_name("content_pipeline.yaml"))
    with ObjectServer(buckets=["payloads"]) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("HOLDFAST_BLOBS", "s3://payloads")
        said = shell("run", example)
        assert said.code == 0, said.err
        assert said.data["jobs"]["analyze"]["outputs"] == {"analysis": "gpt-4 of 100042 bytes"}
        assert "aggregate | <gpt-4 of 100042 bytes>" in said.err
        # Of the jobs only `analyze` says s3. What the run itself puts out is large, and goes by its size.
        there = [json.loads(content) for content in server.objects["payloads"].values()]
    assert sorted(name for each in there for name in each.get("outputs", each)) == ["analysis", "jobs"]


def test_outputs_in_s3_need_a_bucket(shell: Shell, home: Path) -> None:
    write(home, "jobs: {a: {runs-on: any, outputs: {x: {value: y, storage: s3}}, steps: [{run: echo}]}}")
    said = shell("run", "flow.yaml")
    assert said.code == 2
    assert "HOLDFAST_BLOBS=s3://BUCKET" in said.err
    assert shell("validate", "flow.yaml").code == 0


def test_with_a_bucket_outputs_in_s3_are_no_reason_to_refuse(home: Path) -> None:
    document = load("jobs: {a: {runs-on: any, outputs: {x: {value: y, storage: s3}}, steps: [{run: echo}]}}", "flow")
    assert refusal.unstored(document, "s3://bucket/place") == []
    assert len(refusal.unstored(document, "store")) == 1


def test_a_graph_has_the_jobs_and_the_last_node(shell: Shell, home: Path) -> None:
    write(home, FLOW)
    drawn = shell("graph", "flow.yaml").out
    assert 'n1["say"]' in drawn
    assert "n1 --> n2" in drawn
    assert 'n3["run.end"]' in drawn


def test_an_edited_file_is_another_version_and_a_run_stays_with_its_own(shell: Shell, home: Path) -> None:
    run = shell("run", write(home, FLOW), "-i", '{"name": "Ada"}', "--detach").out.strip()
    write(home, FLOW.replace("Hello $", "Good day $"))
    assert "Good day" not in shell("worker", "flow.yaml", "--until-idle").err
    write(home, f"# a comment changes nothing\n{FLOW}")
    assert "Hello Ada" in shell("worker", "flow.yaml", "--until-idle").err
    assert shell("runs", "show", run, "--json").data["status"] == "completed"


def test_a_killed_run_is_finished_by_a_process_that_has_no_file(shell: Shell, home: Path, process: Callable[..., Fork]) -> None:
    journal = home / "journal"
    text = f"""
jobs:
  before: {{runs-on: any, steps: [{{run: echo before >> {journal}}}]}}
  work:
    runs-on: any
    needs: before
    steps: [{{run: 'echo begun >> {journal}; test "$(grep -c begun {journal})" = 2 || sleep 30'}}]
  after: {{runs-on: any, needs: work, steps: [{{run: 'echo "${{{{ inputs.word }}}}" >> {journal}'}}]}}
"""
    running = process("run", write(home, text), "-i", '{"word": "it\'s"}', HOLDFAST_LEASE_S="3")
    until_s = time.monotonic() + 60
    while not journal.exists() or "begun" not in journal.read_text():
        assert time.monotonic() < until_s
        time.sleep(0.01)
    running.kill()
    running.communicate()
    (home / "flow.yaml").unlink()
    said = shell("worker", "--yaml", "--until-idle")
    assert (said.code, "Worker on sqlite:///holdfast.db: workflows in YAML; 100 slots" in said.err) == (0, True), said.err
    assert journal.read_text().split() == ["before", "begun", "begun", "it's"]
    (run,) = shell("runs", "list", "--json").data
    assert run["status"] == "completed"


def test_a_worker_of_nothing_learns_how_to_be_one_of_something(shell: Shell, home: Path) -> None:
    for command in ("worker", "up"):
        said = shell(command)
        assert (said.code, "name a workflow, or pass --yaml" in said.err) == (2, True)


def test_a_killed_run_is_taken_up_and_a_step_that_runs_once_is_not_repeated(
    shell: Shell, home: Path, process: Callable[..., Fork]
) -> None:
    journal = home / "journal"
    text = f"""
jobs:
  work:
    runs-on: any
    steps:
      - {{effect: once, run: echo paid >> {journal}}}
      - {{run: 'echo begun >> {journal}; test "$(grep -c begun {journal})" = 2 || sleep 30'}}
"""
    running = process("run", write(home, text), HOLDFAST_LEASE_S="3")
    until_s = time.monotonic() + 60
    while not journal.exists() or "begun" not in journal.read_text():
        assert time.monotonic() < until_s
        time.sleep(0.01)
    running.kill()
    running.communicate()
    assert shell("worker", "flow.yaml", "--until-idle").code == 0
    assert journal.read_text().split() == ["paid", "begun", "begun"]
    (run,) = shell("runs", "list", "--json").data
    assert run["status"] == "completed"


def told(err: str) -> list[str]:
    """The lines about the run itself, without what its jobs print."""
    return [line for line in err.splitlines()[1:-1] if " | " not in line]


def test_the_terminal_tells_the_result_of_a_job_and_not_that_its_step_has_completed(shell: Shell, home: Path) -> None:
    text = """
jobs:
  bad: {runs-on: any, steps: [{run: exit 1}]}
  after: {runs-on: any, needs: bad, steps: [{run: echo}]}
  spared: {runs-on: any, continue-on-error: true, steps: [{run: exit 2}]}
  good: {runs-on: any, needs: spared, steps: [{run: echo}]}
"""
    said = shell("run", write(home, text))
    lines = told(said.err)
    assert "bad failed: step '1': It ended with exit code 1." in lines
    assert "spared failed, which its job allows: step '1': It ended with exit code 2." in lines
    assert "after skipped" in lines
    assert "good completed" in lines
    assert not [line for line in lines if line in ("bad completed", "after completed", "spared completed")]


def test_a_job_resumes_after_its_combinations_and_a_failed_job_gets_another_attempt(shell: Shell, home: Path) -> None:
    text = """
jobs:
  spread: {runs-on: any, strategy: {matrix: {n: [1, 2]}}, steps: [{run: 'test ${{ matrix.n }} = 1'}]}
  again:
    runs-on: any
    retry: {max: 1, delay-seconds: 0}
    steps: [{run: 'test -e OUTSIDE || { touch OUTSIDE; exit 1; }'}]
""".replace("OUTSIDE", str(home / "outside"))
    lines = told(shell("run", write(home, text)).err)
    assert {"spread started", "spread resumed", "again started", "again started (attempt 2)", "again completed"} <= {*lines}
    assert "spread failed: step '1': It ended with exit code 1." in lines
    assert not [line for line in lines if "attempt" in line and not line.startswith("again ")]


def test_a_run_that_waits_for_an_undeclared_pool_says_so_with_the_remedy(
    shell: Shell, home: Path, process: Callable[..., Fork]
) -> None:
    write(home, "jobs: {a: {runs-on: any, pools: {API: 1}, steps: [{run: echo}]}}")
    run = shell("run", "flow.yaml", "--detach").out.strip()
    worker = process("worker", "flow.yaml")
    shown = ""
    for _ in range(200):
        shown = shell("runs", "show", run).out
        if "does not exist" in shown:
            break
    assert "It asks for 1 of the pool API, which does not exist. Create it: holdfast pools set API --slots 1" in shown
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=60)


def test_the_follower_of_a_run_gets_one_notice_of_its_undeclared_pool(
    shell: Shell, home: Path, process: Callable[..., Fork]
) -> None:
    flow = write(home, "jobs: {a: {runs-on: any, pools: {API: 1}, steps: [{run: echo}]}}")
    shell("run", flow, "--detach")
    worker, run = process("worker", flow), process("run", "flow")  # which only follows what the worker does
    late = threading.Timer(60, run.kill)
    late.start()
    assert run.stderr is not None
    seen: list[str] = []
    for line in run.stderr:
        seen.append(line.strip())
        if "does not exist" in line:
            break
    late.cancel()
    words = r"It asks for 1 of the pool API, which does not exist\. Create it: holdfast pools set API --slots 1"
    assert re.fullmatch(rf"\S+/a#1 has waited for .*\. {words}", seen[-1]), seen
    assert shell("pools", "set", "API", "--slots", "2").code == 0
    _, rest = run.communicate(timeout=120)
    assert (run.returncode, "does not exist" in rest) == (0, False), rest
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=60)
