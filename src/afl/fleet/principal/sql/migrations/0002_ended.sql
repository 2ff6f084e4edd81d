-- Retention asks for the runs that ended first.
create index fleet_runs_ended on fleet_runs (ended_at, number) where ended_at is not null;
