-- name: create_session
insert into {schema:state}sessions (
    project_id, session_id, agent_id, actor_id, turns, history, budget, forked_from, created_at, updated_at
) values (:project, :session, :agent, :actor, :turns, :history, :budget, :forked_from, {now}, {now})
on conflict (project_id, session_id) do nothing

-- name: lock_session
select * from {schema:state}sessions where project_id = :project and session_id = :session {for_update}

-- name: get_session
select * from {schema:state}sessions where project_id = :project and session_id = :session

-- name: list_sessions
select * from {schema:state}sessions where project_id = :project and (:agent = '' or agent_id = :agent)
order by updated_at desc, session_id limit :limit offset :skip

-- name: change_session
update {schema:state}sessions set history = :history, budget = :budget
where project_id = :project and session_id = :session

-- name: add_turn
insert into {schema:state}session_turns (
    project_id, session_id, position, agent_turn_id, context_box_id, output_box_id
) values (:project, :session, :position, :turn, :context_box, :output_box)

-- name: count_turn
update {schema:state}sessions set turns = turns + 1, updated_at = {now}
where project_id = :project and session_id = :session

-- name: copy_turns
insert into {schema:state}session_turns (
    project_id, session_id, position, agent_turn_id, context_box_id, output_box_id
)
select project_id, :session, position, agent_turn_id, context_box_id, output_box_id
from {schema:state}session_turns
where project_id = :project and session_id = :origin and position <= :last

-- name: turns_of
select position, agent_turn_id, context_box_id, output_box_id from {schema:state}session_turns
where project_id = :project and session_id = :session and position >= :low and position < :high
order by position

-- The session that a turn was sent to has its actor; forks have another one.

-- name: session_of_turn
select t.session_id from {schema:state}session_turns as t
join {schema:state}sessions as s on s.project_id = t.project_id and s.session_id = t.session_id
where t.project_id = :project and t.agent_turn_id = :turn
order by (case when s.actor_id = :actor then 0 else 1 end), s.created_at limit 1

-- `|| ''` has PostgreSQL look up row by row: a plan made while the tables were small would read all of the project for each.

-- name: history
select t.position as turn, 0 as part, b.position as place, c.card_id, c.type, c.author_id, c.role, c.agent_turn_id,
    c.step_id, c.tool_call_id, c.function_name, c.content, c.tool_calls, c.metadata, c.created_at
from {schema:state}session_turns as t
join {schema:cardbox}box_cards as b on b.project_id = t.project_id || '' and b.box_id = t.context_box_id
join {schema:cardbox}cards as c on c.project_id = b.project_id || '' and c.card_id = b.card_id
where t.project_id = :project and t.session_id = :session and t.position >= :low and t.position < :high
    and c.type <> 'sys.session'
union all
select t.position as turn, 1 as part, b.position as place, c.card_id, c.type, c.author_id, c.role, c.agent_turn_id,
    c.step_id, c.tool_call_id, c.function_name, c.content, c.tool_calls, c.metadata, c.created_at
from {schema:state}session_turns as t
join {schema:cardbox}box_cards as b on b.project_id = t.project_id || '' and b.box_id = t.output_box_id
join {schema:cardbox}cards as c on c.project_id = b.project_id || '' and c.card_id = b.card_id
where t.project_id = :project and t.session_id = :session and t.position >= :low and t.position < :high
    and c.type <> 'sys.summary'
order by 1, 2, 3

-- name: last_summary
select c.card_id, c.type, c.author_id, c.role, c.agent_turn_id, c.step_id, c.tool_call_id, c.function_name, c.content,
    c.tool_calls, c.metadata, c.created_at
from {schema:state}session_turns as t
join {schema:cardbox}cards as c
    on c.project_id = t.project_id || '' and c.agent_turn_id = t.agent_turn_id and c.agent_turn_id <> ''
where t.project_id = :project and t.session_id = :session and t.position <= :position and c.type = 'sys.summary'
order by t.position desc, c.created_at desc limit 1

-- A session that is deleted: its turns, unless a fork has them too, with their cards, unless another box has them.

-- name: unfinished
select agent_turn_id from {schema:state}agent_inbox
where project_id = :project and agent_id = :actor and status in ('queued', 'pending', 'deferred', 'processing')
union all
select active_agent_turn_id as agent_turn_id from {schema:state}agent_state_head
where project_id = :project and agent_id = :actor and active_agent_turn_id is not null
limit 1

-- name: unpublished
select agent_turn_id from {schema:state}outbox where agent_turn_id {in:turns} and project_id = :project
    and sequence is null limit 1

-- name: only_here
select t.agent_turn_id, t.context_box_id, t.output_box_id from {schema:state}session_turns as t
where t.project_id = :project and t.session_id = :session and not exists (
    select 1 from {schema:state}session_turns as o
    where o.project_id = t.project_id and o.agent_turn_id = t.agent_turn_id and o.session_id <> t.session_id
)

-- name: cards_of_boxes
select distinct card_id from {schema:cardbox}box_cards where project_id = :project and box_id {in:boxes}

-- name: drop_turns
delete from {schema:state}session_turns where project_id = :project and session_id = :session

-- name: drop_session
delete from {schema:state}sessions where project_id = :project and session_id = :session

-- name: drop_outbox
delete from {schema:state}outbox where project_id = :project and agent_turn_id {in:turns}

-- name: drop_inbox
delete from {schema:state}agent_inbox where project_id = :project and agent_turn_id {in:turns}

-- name: drop_steps
delete from {schema:state}agent_steps where project_id = :project and agent_turn_id {in:turns}

-- name: drop_edges
delete from {schema:state}execution_edges
where project_id = :project and (source_agent_turn_id {in:turns} or target_agent_turn_id {in:turns})

-- name: drop_box_cards
delete from {schema:cardbox}box_cards where project_id = :project and box_id {in:boxes}

-- name: drop_boxes
delete from {schema:cardbox}card_boxes where project_id = :project and box_id {in:boxes}

-- name: drop_cards
delete from {schema:cardbox}cards where project_id = :project and card_id {in:cards} and not exists (
    select 1 from {schema:cardbox}box_cards as b
    where b.project_id = {schema:cardbox}cards.project_id and b.card_id = {schema:cardbox}cards.card_id
)

-- name: drop_account
delete from {schema:state}turn_budgets where project_id = :project and account = :account

-- name: drop_pointers
delete from {schema:state}agent_state_pointers where project_id = :project and agent_id = :actor

-- name: drop_head
delete from {schema:state}agent_state_head where project_id = :project and agent_id = :actor

-- name: drop_actor
delete from {schema:resource}project_agents where project_id = :project and agent_id = :actor
