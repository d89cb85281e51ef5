"""The scenarios of the case review, one after the other, and an account of what was done to the cases: `python -m
examples.case_review.demo`.

Each goes through a real run with a real model server and a real mail server. The end is a table, counted by the case system,
the model server and the mail server; it exits with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from examples.case_review import desk
from examples.case_review.workflow import ACTIONS, wf
from examples.show import Figures, Promise, Show, Verdict
from examples.stage import LOOPBACK, SOMEWHERE, Stage, StageError, environment, fresh_directory, until_terminated
from holdfast.core.views.trajectory import Trajectory
from holdfast.evaluation import evaluate
from holdfast.evaluation.playing import play
from holdfast.evaluation.suite import read
from holdfast.testing import model_server
from holdfast.testing.mail_sink import arrived, read_mail
from holdfast.testing.model_server import read_calls

HERE = Path(__file__).resolve().parent
SCENARIOS = read((HERE / "cases.yaml").read_text(encoding="utf-8"), "cases.yaml").scenarios
DISALLOWED = {each.name for each in ACTIONS}


async def review(directory: Path, show: Show) -> Verdict:
    """Play every scenario, and count."""
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(Stage(directory))
        mail, models = directory / "mail.jsonl", directory / "model-calls.jsonl"
        _, mail_port = await stage.serve("mail-server", "holdfast.testing.mail_sink", "--journal", str(mail))
        _, model_port = await stage.serve(
            "model-server", "holdfast.testing.model_server", "--journal", str(models), "--rules", str(HERE / "model_rules.json")
        )
        os.environ |= environment(
            "",
            SMTP_HOST=LOOPBACK,
            SMTP_PORT=str(mail_port),
            CASE_DESK=str(directory / "desk.db"),
            **model_server.environment(model_port),
        )
        paths, missed = [], []
        for scenario in SCENARIOS:
            path = await play(wf, scenario)
            found = evaluate(path, scenario.expect, scenario.id)
            paths.append(path)
            missed += [f"{scenario.id}: {each}" for each in found.misses]
            show.say(f"{scenario.id}: {path.status}, {' → '.join(path.nodes[-3:])}", "good" if found.passed else "kill")
        return account(paths, missed, len(arrived(read_mail(mail))), len(read_calls(models)))


def account(paths: Sequence[Trajectory], missed: Sequence[str], mails: int, calls: int) -> Verdict:
    """The verdict, from what the other side has in its books."""
    done = desk.done()
    asked = [each for path in paths for each in path.approvals if each.reason == "tool_approval"]
    approved = [each for each in asked if each.decision == "approve"]
    used = [use for path in paths for use in path.tools if use.tool in DISALLOWED and use.how == "called"]
    notices = sum(action == "send_notice" for action, _, _ in done)
    return Verdict(
        (
            Figures("actions taken on cases", str(len(done)), f"{len(approved)} approved of {len(asked)} asked"),
            Figures("notices sent", str(mails), str(notices)),
            Figures("model calls", str(calls), str(sum(path.model_calls for path in paths))),
        ),
        (
            Promise(
                "Every scenario went the way that was expected", not missed, "; ".join(missed) or f"{len(paths)} scenarios"
            ),
            Promise(
                "Nothing that cannot be taken back was done without an approval",
                len(done) == len(approved) == len(used),
                ", ".join(f"{action} of {case}" for action, case, _ in done),
            ),
            Promise(
                "Each approved action was done once",
                len({(case, action) for action, case, _ in done}) == len(done),
                "the case system's keys",
            ),
            Promise("Every notice that the books have was sent once", mails == notices, f"{mails} in the mail log"),
        ),
    )


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.case_review.demo", description=__doc__)
    parser.add_argument(
        "--keep",
        type=Path,
        nargs="?",
        const=SOMEWHERE,
        metavar="DIR",
        help="keep the books, the journals and the logs, in DIR or in a directory that is named at the end; the runs are on"
        " stores that each scenario throws away",
    )
    keep = parser.parse_args(words).keep
    directory, show = fresh_directory(keep), Show(Console(), what="cases")
    show.title(f"Holdfast: {len(SCENARIOS)} cases, a model that can be talked into anything")
    code = 1
    try:
        verdict = asyncio.run(until_terminated(review(directory, show)))
        show.verdict(verdict)
        code = 0 if verdict.kept else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        show.say("Stopped. Every process of the demo has ended.")
        code = 130
    except StageError as problem:
        show.say(str(problem), "kill")
    finally:
        if keep is not None or code == 1:
            show.say(
                f"The books, the journals and what each process said are in {directory}; no store is, for each scenario runs"
                " on one that is thrown away. To look at a run, start one: holdfast run examples/case_review/workflow.py:wf"
            )
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
