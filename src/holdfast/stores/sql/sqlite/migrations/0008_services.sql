-- Who started a run: a service's runs may have a lane of their own. Of a run from before this it is told by its next event.
alter table runs add column started_by text;
