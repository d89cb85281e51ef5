-- Conversations: each as JSON, the run that is at its latest message, and whether somebody has something to do with it now,
-- whatever that run does. `revision` counts its changes, so that nobody overwrites what he has not seen.
create table conversations (
    tenant text not null,
    conversation text not null,
    revision integer not null,
    run text,
    is_pending integer not null,
    body blob not null,
    primary key (tenant, conversation)
) strict, without rowid;
create index conversations_active on conversations (run) where run is not null;
create index conversations_pending on conversations (tenant) where is_pending;
-- What was said in them: a message with its reply.
create table exchanges (
    tenant text not null,
    conversation text not null,
    number integer not null,
    body blob not null,
    primary key (tenant, conversation, number)
) strict, without rowid;
