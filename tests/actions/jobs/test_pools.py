"""Scripts know what their job has of pools, and what they say that they have used is what its next runs take."""

from __future__ import annotations

from tests.actions.jobs.kit import done, workflow
from tests.engine.kit import bounded, opened

FILE = r"""
jobs:
  work:
    runs-on: any
    pools: {TPM: 90, browser/x: 4}
    strategy: {max-parallel: 2, matrix: {n: [1, 2, 3]}}
    steps:
      - run: |
          echo "$HOLDFAST_POOL_TPM $HOLDFAST_POOL_BROWSER_X"
          printf 'TPM=100\nTPM=20\nbrowser/x=%s\n' ${{ matrix.n }} >> "$HOLDFAST_USAGE"
      - {run: 'printf "TPM=7\nRPM=1\nTPM\n" >> "$HOLDFAST_USAGE"; exit 1', continue-on-error: true}
      - {run: 'rm "$HOLDFAST_USAGE"'}
      - {run: 'truncate -s 65537 "$HOLDFAST_USAGE"'}
"""


@bounded
async def test_a_script_sees_its_share_of_pools_and_its_reported_use_is_learned(store: str) -> None:
    made = workflow(FILE)
    async with opened(store, workflows=[made]) as engine:
        await engine.set_pool("TPM", rate=60_000, per_s=60, burst=2_000)
        await engine.set_pool("browser/x", slots=10)
        ended = await done(engine, await (await engine.start(made)).settled())
        assert ended.results == {"work": "success"}
        lines = ended.jobs["work"]["combinations"][0]["log"].splitlines()
        unread = "Of the usage file (HOLDFAST_USAGE) does not count: "
        assert lines == [
            "90 4",
            f"{unread}line 2: 'RPM' is no pool that the job takes of.",
            f"{unread}line 3: 'TPM' is not POOL=AMOUNT, with a whole number up to 1000000000000.",
            "step '2': It ended with exit code 1.",
            f"{unread}it is larger than 65536 bytes; none of it counts. Write large results to a file or a store and pass its name.",
        ]
    async with opened(store, execute=False) as engine:
        learned = {each.pool: each.amount for name in ("TPM", "browser/x") for each in await engine.pool_estimates(name)}
        assert learned == {"TPM": 127, "browser/x": 3}, "what one combination has used"


@bounded
async def test_an_amount_that_is_left_open_is_what_runs_before_have_said_that_they_used(store: str) -> None:
    made = workflow("""
    jobs:
      work:
        runs-on: any
        pools: {TPM: auto}
        steps: [{run: 'echo "$HOLDFAST_POOL_TPM"; echo TPM=700 >> "$HOLDFAST_USAGE"'}]
    """)
    said = []
    for _ in range(2):
        async with opened(store, workflows=[made]) as engine:
            await engine.set_pool("TPM", rate=60_000, per_s=60, burst=2_000, counts="tokens", of="openai")
            ended = await done(engine, await (await engine.start(made)).settled())
            said.append(ended.jobs["work"]["log"])
    assert said == ["2000", "700"], "first what the pool lets out at once, for a few thousand tokens are guessed"
