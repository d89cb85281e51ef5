-- Where the history of a run is that has been archived: in a blob of its tenant and month, up to `seq`. Without a hash it
-- was removed for good. In `events` a row of the run '' and of seq -1 says up to where the order of commits has gaps, so that
-- its places are not given twice either.
create table archives (
    run text primary key,
    tenant text not null,
    seq integer not null,
    sha256 text,
    stored_bytes integer not null,
    archived_at_ms integer not null,
    pruned_at_ms integer
) strict, without rowid;
