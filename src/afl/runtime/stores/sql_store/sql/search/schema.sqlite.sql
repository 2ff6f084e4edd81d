-- What runs are searched by. A run that is new, ended or got other tags is queued by the
-- commit that did it, which costs one small row; its words are indexed later, by whoever searches or by a runner.
create table afl_search_queue (
    workflow_id text primary key
) {without_rowid};

create table afl_search_runs (
    id integer primary key,
    workflow_id text not null unique
) {strict};

create virtual table afl_search using fts5 (words, detail = none, columnsize = 0, tokenize = 'ascii');

create trigger afl_runs_search_new after insert on afl_runs begin
    insert into afl_search_queue (workflow_id) select new.workflow_id
    where not exists (select 1 from afl_search_queue where workflow_id = new.workflow_id);
end;

create trigger afl_runs_search_changed after update of ended, tags on afl_runs
when old.ended <> new.ended or old.tags <> new.tags begin
    insert into afl_search_queue (workflow_id) select new.workflow_id
    where not exists (select 1 from afl_search_queue where workflow_id = new.workflow_id);
end;

create trigger afl_runs_search_gone after delete on afl_runs begin
    insert into afl_search_queue (workflow_id) select old.workflow_id
    where not exists (select 1 from afl_search_queue where workflow_id = old.workflow_id);
end;
