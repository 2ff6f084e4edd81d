-- What agents of the reference do not know of a run. Of those that are queued already it is found by the keys of the JSON, in
-- which a quote within a text is escaped.
alter table fleet_runs add column needs text not null default '';
update fleet_runs set needs = 'what its file says'
where status in ('PENDING', 'WAITING') and (
    workflow like '%"Ray":{%' or workflow like '%"env":{%' or workflow like '%"timeout":%' or workflow like '%"retries":{%'
    or workflow like '%"allow_failure":true%' or workflow like '%"always":true%' or workflow like '%"max_parallel":%'
    or workflow like '%"working_directory":"%');
drop index fleet_runs_queue;
create index fleet_runs_queue on fleet_runs (number, needs) where status = 'PENDING' and incarnation = '';
