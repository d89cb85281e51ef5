-- The trace in which a request came that an event follows from, 32 hexadecimal digits (W3C Trace Context), so that whoever
-- looks on can tell what a request has caused. None where nobody named one, and in what was written before.
alter table holdfast.events add column trace_id text;
