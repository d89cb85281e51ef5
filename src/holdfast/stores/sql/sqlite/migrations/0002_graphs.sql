-- The graphs of workflows in a table of their own. They stood among the blobs, for no tenant and no month; but every
-- process needs them, wherever large payloads are kept, and they go when no run follows them, not by the month.

create table graphs (
    graph_hash text primary key,
    definition blob not null
) strict;

insert into graphs (graph_hash, definition)
select sha256, content from blobs join blob_homes using (sha256) where tenant = '' and month = '';

delete from blob_homes where tenant = '' and month = '';

delete from blobs where sha256 not in (select sha256 from blob_homes);
