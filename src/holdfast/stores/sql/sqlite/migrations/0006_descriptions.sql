-- What each process that executes has to offer, and what is placed with it: for people who ask why something waits.
alter table sessions add column described blob;
