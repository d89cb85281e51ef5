-- Conditions of lists, and their order: NAME_CRITERION is of the list NAME, and each `{}` is the value of the criterion.

-- --- Runs, as RunFilter names what they are selected by --------------------------------------------------------------

-- name: runs_run
-- One run.
runs.run = {}

-- name: runs_ids
-- With one of these ids.
runs.run = any({}::uuid[])

-- name: runs_prefix
-- Between the first and the last id with this beginning.
runs.run between {} and {}

-- name: runs_tenant
-- Of this tenant.
tenant = {}

-- name: runs_workflow
-- Of this workflow.
workflow = {}

-- name: runs_version
-- Of this version of their workflow.
version = {}

-- name: runs_status
-- With this status.
status = {}

-- name: runs_statuses
-- With one of these.
status = any({})

-- name: runs_key
-- Started under this key.
start_key = {}

-- name: runs_parent
-- Children of this run.
runs.run in (select child from holdfast.children where parent = {})

-- name: runs_root
-- Below this run, however far.
runs.run in (select child from holdfast.children where root = {})

-- name: runs_since_ms
-- Started since.
started_at_ms >= {}

-- name: runs_until_ms
-- Started before.
started_at_ms < {}

-- name: runs_in_doubt
-- With money in doubt.
in_doubt_nanousd > 0

-- name: runs_label
-- With this label, by its key and value. It finds the index.
runs.run in (select run from holdfast.run_labels where key = {} and value = {})

-- name: runs_labels
-- With all of these labels, each KEY=VALUE, as many as are given.
(
    select count(*) from holdfast.run_labels
    where run_labels.run = runs.run and key || '=' || value = any({}::text[])
) = {}

-- name: runs_text
-- Something by which people know them has these letters in it.
strpos(lower(concat_ws(
    chr(10), workflow, start_key, started_by,
    (select string_agg(value, chr(10)) from holdfast.run_labels where run_labels.run = runs.run)
)), lower({}::text)) > 0

-- name: runs_cost_from_nanousd
-- Have spent as much for certain.
settled_nanousd >= {}

-- name: runs_cost_to_nanousd
-- Have spent no more for certain.
settled_nanousd <= {}

-- name: runs_score_from
-- With a score of this name that counts, of at least this value.
runs.run in (
    select s.run from holdfast.scores s
    where s.name = {} and s.value >= {} and not exists (
        select 1 from holdfast.scores later where later.run = s.run and later.number > s.number
            and later.name = s.name and later.given_by = s.given_by
    )
)

-- name: runs_score_to
-- With a score of this name that counts, of at most this value.
runs.run in (
    select s.run from holdfast.scores s
    where s.name = {} and s.value <= {} and not exists (
        select 1 from holdfast.scores later where later.run = s.run and later.number > s.number
            and later.name = s.name and later.given_by = s.given_by
    )
)

-- --- Gates -----------------------------------------------------------------------------------------------------------

-- name: gates_gate
-- One gate.
gate = {}

-- name: gates_run
-- Of this run.
run = {}

-- name: gates_below
-- Of this run, or of one below it.
(run = {} or run in (select child from holdfast.children where root = {}))

-- name: gates_tenant
-- Of runs of this tenant.
(select tenant from holdfast.runs where runs.run = gates.run) = {}

-- name: gates_open
-- That wait for a decision.
state in ('open', 'escalated')

-- name: gates_closed
-- That wait for no decision any more.
state not in ('open', 'escalated')

-- name: gates_risk_levels
-- Of one of these risk levels.
risk_level = any({})

-- --- Sign-ins --------------------------------------------------------------------------------------------------------

-- name: sign_ins_name
-- Of this token, key or person.
name = {}

-- name: sign_ins_tenant
-- Of callers that act for this tenant.
tenant = {}

-- name: sign_ins_id
-- With this id.
substr(hash, 1, 16) = {}

-- name: sign_ins_now_ms
-- That have not expired.
expires_at_ms > {}

-- name: sign_ins_after
-- Begun before this one, or with it.
(expires_at_ms, hash) < (select expires_at_ms, hash from holdfast.sign_ins where substr(hash, 1, 16) = {})

-- name: sign_ins_order
-- The last begun first.
expires_at_ms desc, hash desc

-- --- The audit log ---------------------------------------------------------------------------------------------------

-- name: audit_tenant
-- Of callers that act for this tenant.
tenant = {}

-- name: audit_name
-- Of this person or program.
(name = {} or client = {})

-- name: audit_actions
-- Of one of these commands.
action = any({})

-- name: audit_about
-- About what begins so.
about >= {} and about < {}

-- name: audit_since_ms
-- At this time or later.
at_ms >= {}

-- name: audit_until_ms
-- Before this time.
at_ms < {}

-- name: audit_after
-- Added after this one.
number > {}

-- name: audit_before
-- Added before this one.
number < {}

-- name: audit_order
-- As they were added.
number

-- name: audit_order_newest
-- Those that were added last first.
number desc

-- --- The ledger ------------------------------------------------------------------------------------------------------

-- name: effects_call
-- One line, of a run's call.
run = {} and call = {}

-- name: effects_run
-- Of this run.
run = {}

-- name: effects_tenant
-- Of runs of this tenant.
(select tenant from holdfast.runs where runs.run = effects.run) = {}

-- name: effects_state
-- In this state.
state = {}

-- --- Dead letters, as LetterFilter names what they are selected by ----------------------------------------------------

-- name: letters_run
-- Of this run.
run = {}

-- name: letters_tenant
-- Of this tenant.
tenant = {}

-- name: letters_workflow
-- Of this workflow.
workflow = {}

-- name: letters_node
-- Of this node.
node = {}

-- name: letters_error_class
-- That failed with this class of error.
error_class = {}

-- name: letters_open
-- That wait for a decision.
resolved_at_ms is null

-- name: letters_resolved
-- That are decided.
resolved_at_ms is not null

-- name: letters_since_ms
-- Last failed since.
last_at_ms >= {}

-- name: letters_until_ms
-- Last failed before.
last_at_ms < {}

-- name: letters_after
-- After this one.
(run, step) > ({}, {})

-- name: letters_order
-- The oldest run's first.
run, step

-- --- Deliveries of notifications, as DeliveryFilter names what they are selected by -----------------------------------

-- name: deliveries_prefix
-- Between the first and the last id with this beginning.
id between {} and {}

-- name: deliveries_tenant
-- Of this tenant.
tenant = {}

-- name: deliveries_run
-- About this run.
run = {}

-- name: deliveries_channel
-- Of this channel.
channel = {}

-- name: deliveries_state
-- In this state.
state = {}

-- name: deliveries_after
-- After this one.
(created_at_ms, id) < (select last.created_at_ms, last.id from holdfast.deliveries as last where last.id = {})

-- name: deliveries_order
-- The latest first.
created_at_ms desc, id desc
