-- `due` is the time the next firing is for, `look` when somebody should look at it (later, after a failure).
-- Both are null when nothing more comes, `look` alone when it is paused or broken.
create table schedule (
    part text not null check (part <> ''),
    name text not null check (name <> ''),
    cron text not null,
    zone text not null,
    catch_up text not null check (catch_up in ('none', 'latest', 'all')),
    data {json} not null,
    paused {bigint} not null check (paused in (0, 1)),
    due {bigint},
    look {bigint} check (look is null or (due is not null and paused = 0)),
    fired {bigint},
    failures {bigint} not null,
    error text not null,
    primary key (part, name)
) {strict};

create index schedule_look on schedule (part, look) where look is not null;
