-- Where lists go on, and their order.

-- name: runs_before
-- Older than this run.
runs.run < {}

-- name: runs_order
-- Newest first.
runs.run desc

-- name: gates_after
-- Opened after this one.
place > (select place from holdfast.gates where gate = {})

-- name: gates_order
-- As they were opened.
place

-- name: effects_after
-- Intended after this call of a run.
place > (select place from holdfast.effects where run = {} and call = {})

-- name: effects_order
-- As they were intended.
place
