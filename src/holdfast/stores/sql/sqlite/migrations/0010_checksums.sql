-- Which migrations the store has had, and with which text: one that was edited afterwards is noticed.
create table migrations (
    version integer primary key,
    name text not null,
    sha256 text not null
) strict;
