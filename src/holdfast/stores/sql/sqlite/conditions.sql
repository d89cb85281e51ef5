-- Where lists go on, and their order. Each index ends with the row's id.

-- name: runs_before
-- Older than this run.
id < (select id from runs where run = {})

-- name: runs_order
-- Newest first.
id desc

-- name: gates_after
-- Opened after this one.
id > (select id from gates where gate = {})

-- name: gates_order
-- As they were opened.
id

-- name: effects_after
-- Intended after this call of a run.
id > (select id from effects where run = {} and call = {})

-- name: effects_order
-- As they were intended.
id
