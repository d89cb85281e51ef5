-- Conversations: each as JSON, the run that is at its latest message, and whether somebody has something to do with it now,
-- whatever that run does. `revision` counts its changes, so that nobody overwrites what he has not seen.
create table holdfast.conversations (
    tenant text collate "C" not null,
    conversation text collate "C" not null,
    revision bigint not null,
    run uuid,
    is_pending boolean not null,
    body bytea not null,
    primary key (tenant, conversation)
);
create index conversations_active on holdfast.conversations (run) where run is not null;
create index conversations_pending on holdfast.conversations (tenant) where is_pending;
-- What was said in them: a message with its reply.
create table holdfast.exchanges (
    tenant text not null,
    conversation text not null,
    number bigint not null,
    body bytea not null,
    primary key (tenant, conversation, number)
);
