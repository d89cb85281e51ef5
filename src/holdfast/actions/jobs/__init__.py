"""Workflows in YAML at work: a checked document as a Workflow, and what its jobs and their steps do.

    workflow    document -> Workflow: a node for each job, and a last one that says how the run ended
    identity    what of a document makes two workflows the same
    placement   what a job asks of the place where it runs
    restoration a workflow from the graph that it has left in the store
    refusal     what a file asks for that cannot be done here, yet
    decision    whether a job runs
    job         one job: its combinations, and what becomes of them
    matrix_job  one combination of a job: its steps one after the other
    progress    how far a combination has come
    attempt     what a job uses of the attempt in which it runs
    runner      runs a combination's scripts in a directory of this machine, and removes it
    remote      or in one at a connected worker
    step        one step: whether it runs, what it is given, what its ending means
    once        a step that is never run twice, under the ledger
    context     what expressions see
    log         what steps print, and what they say to their runner by that

Never here: reading a file, the meaning of an expression, starting a process, the store.
"""
