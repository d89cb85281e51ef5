-- Runs with money in doubt are asked for once a minute where a rule settles it, and there are few of them.
create index runs_in_doubt on holdfast.runs (run) where in_doubt_nanousd > 0;
