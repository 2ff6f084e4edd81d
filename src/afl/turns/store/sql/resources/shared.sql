-- name: put_agent
insert into {schema:resource}project_agents (
    project_id, agent_id, profile_box_id, worker_target, tags, display_name, owner_agent_id, status, metadata,
    created_at
) values (
    :project, :agent, :profile_box, :target, :tags, :display_name, :owner, :status, :metadata, {now}
) on conflict (project_id, agent_id) do update set
    profile_box_id = excluded.profile_box_id, worker_target = excluded.worker_target, tags = excluded.tags,
    display_name = excluded.display_name, owner_agent_id = excluded.owner_agent_id, status = excluded.status,
    metadata = excluded.metadata

-- name: get_agent
select * from {schema:resource}project_agents where project_id = :project and agent_id = :agent

-- name: list_agents
select * from {schema:resource}project_agents where project_id = :project order by agent_id

-- name: put_tool
insert into {schema:resource}tools (
    project_id, tool_name, description, parameters, target_subject, after_execution, options
) values (:project, :tool, :description, :parameters, :subject, :after, :options)
on conflict (project_id, tool_name) do update set
    description = excluded.description, parameters = excluded.parameters,
    target_subject = excluded.target_subject, after_execution = excluded.after_execution,
    options = excluded.options

-- name: get_tools
select * from {schema:resource}tools where project_id = :project order by tool_name

-- name: get_some_tools
select * from {schema:resource}tools where project_id = :project and tool_name {in:names} order by tool_name

-- name: put_profile
insert into {schema:resource}profiles (project_id, profile_box_id, name, worker_target, profile, updated_at)
values (:project, :box, :name, :target, :profile, {now})
on conflict (project_id, lower(name)) do update set
    profile_box_id = excluded.profile_box_id, name = excluded.name, worker_target = excluded.worker_target,
    profile = excluded.profile, updated_at = excluded.updated_at

-- name: get_profile
select * from {schema:resource}profiles where project_id = :project and profile_box_id = :box

-- name: find_profile
select * from {schema:resource}profiles where project_id = :project and lower(name) = lower(:name)
