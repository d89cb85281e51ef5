-- Where lists go on, their order, and what PostgreSQL says in words of its own.

-- name: runs_before
-- Older than this run.
runs.run < {}

-- name: runs_order
-- Newest first.
runs.run desc

-- name: runs_waiting_for
-- With one of these texts in what they wait for, which no run has that has ended.
ended_at_ms is null and exists (select 1 from unnest({}::text[]) as sought (wait) where strpos(convert_from(waiting_for, 'UTF8'), sought.wait) > 0)

-- name: gates_after
-- Opened after this one.
place > (select place from holdfast.gates where gate = {})

-- name: gates_order
-- As they were opened.
place

-- name: gates_after_due
-- Due after this one; those without a deadline come last.
(coalesce(due_at_ms, 9223372036854775807), place) > (
    select coalesce(due_at_ms, 9223372036854775807), place from holdfast.gates where gate = {}
)

-- name: gates_order_due
-- By deadline.
coalesce(due_at_ms, 9223372036854775807), place

-- name: gates_after_closed
-- Closed before this one.
(changed_at_ms, place) < (select changed_at_ms, place from holdfast.gates where gate = {})

-- name: gates_order_closed
-- Those that were closed last first.
changed_at_ms desc, place desc

-- name: effects_after
-- Intended after this call of a run.
place > (select place from holdfast.effects where run = {} and call = {})

-- name: effects_order
-- As they were intended.
place
