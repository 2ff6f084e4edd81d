-- A lease that expires is not a death, and a claim may last as long as its owner's process.

alter table afl_tasks add column expiries {bigint} not null default 0;
alter table afl_tasks add column while_alive {bigint} not null default 0;
