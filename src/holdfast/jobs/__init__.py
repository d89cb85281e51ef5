"""Workflows in YAML at work: a checked document as a Workflow, and what its jobs and their steps do.

    workflow    document -> Workflow: a node for each job, and a last one that says how the run ended
    identity    what of a document makes two workflows the same
    refusal     what a file asks for that cannot be done here, yet
    job         one job: whether it runs, its combinations, what becomes of them
    leg         one combination of a job: its workspace, its steps one after the other
    once        a step that is never run twice, under the ledger
    context     what expressions see
    log         what steps print, on its way to whoever looks

Never here: reading a file, the meaning of an expression, starting a process, the store.
"""
