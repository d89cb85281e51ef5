-- What a question proposes, of how risky a kind, when it expires, and who of several have approved. A question that stood before says
-- all that in its history only.
alter table holdfast.gates add column expires_at_ms bigint;
alter table holdfast.gates add column quorum integer;
alter table holdfast.gates add column risk_level text;
alter table holdfast.gates add column proposed_action text;
alter table holdfast.gates add column evidence_ids text;
alter table holdfast.gates add column approved_by text;
