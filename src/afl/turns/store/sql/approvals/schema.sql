-- A tool call that a person must approve. The turn waits for it as for a tool's result, under the id of the approval, so
-- the row of the wait set says whether it can still be answered.
create table {schema:state}tool_approvals (
    approval_id text not null primary key check (approval_id <> ''),
    project_id text not null,
    agent_id text not null,
    agent_turn_id text not null,
    step_id text not null,
    tool_call_id text not null,
    tool_name text not null,
    description text not null,
    parameters {json} not null,
    arguments {json} not null,
    group_name text not null check (group_name <> ''),
    deadline {bigint},
    status text not null check (status in ('open', 'approved', 'rejected', 'expired', 'canceled')),
    answered_by text not null default '',
    answered_at {bigint},
    feedback text not null default '',
    answer {json},
    created_at {bigint} not null,
    check ((status in ('approved', 'rejected')) = (answered_at is not null))
) {without_rowid};

create index tool_approvals_open on {schema:state}tool_approvals (approval_id) where status = 'open';

create index tool_approvals_turn on {schema:state}tool_approvals (project_id, agent_turn_id);
