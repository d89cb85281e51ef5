-- Where lists go on, their order, and what SQLite says in words of its own. Each index ends with the row's id.

-- name: runs_before
-- Older than this run.
id < (select id from runs where run = {})

-- name: runs_order
-- Newest first.
id desc

-- name: runs_waiting_for
-- With one of these texts in what they wait for, which no run does that has ended.
ended_at_ms is null and exists (select 1 from json_each({}) as sought where instr(waiting_for, sought.value) > 0)

-- name: gates_after
-- Opened after this one.
id > (select id from gates where gate = {})

-- name: gates_order
-- As they were opened.
id

-- name: gates_after_due
-- Due after this one; those without a deadline come last.
(coalesce(due_at_ms, 9223372036854775807), id) > (
    select coalesce(due_at_ms, 9223372036854775807), id from gates where gate = {}
)

-- name: gates_order_due
-- By deadline.
coalesce(due_at_ms, 9223372036854775807), id

-- name: gates_after_closed
-- Closed before this one.
(changed_at_ms, id) < (select changed_at_ms, id from gates where gate = {})

-- name: gates_order_closed
-- Those that were closed last first.
changed_at_ms desc, id desc

-- name: effects_after
-- Intended after this call of a run.
id > (select id from effects where run = {} and call = {})

-- name: effects_order
-- As they were intended.
id
