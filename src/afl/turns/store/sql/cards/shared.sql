-- name: save_card
insert into {schema:cardbox}cards (
    project_id, card_id, type, author_id, role, agent_turn_id, step_id, tool_call_id, function_name, content,
    tool_calls, metadata, created_at
)
values (
    :project, :card_id, :type, :author_id, :role, :turn, :step, :call, :function, :content, :tool_calls,
    :metadata, {now}
)

-- name: save_first
insert into {schema:cardbox}cards (
    project_id, card_id, type, author_id, role, agent_turn_id, step_id, tool_call_id, function_name, content,
    tool_calls, metadata, created_at
)
values (
    :project, :card_id, :type, :author_id, :role, :turn, :step, :call, :function, :content, :tool_calls,
    :metadata, {now}
)
on conflict do nothing
returning card_id, type, author_id, role, agent_turn_id, step_id, tool_call_id, function_name, content, tool_calls,
    metadata, created_at

-- name: find_cards
select card_id, type, author_id, role, agent_turn_id, step_id, tool_call_id, function_name, content, tool_calls,
    metadata, created_at
from {schema:cardbox}cards
where project_id = :project and card_id {in:ids}

-- name: result_card
select card_id, type, author_id, role, agent_turn_id, step_id, tool_call_id, function_name, content, tool_calls,
    metadata, created_at
from {schema:cardbox}cards
where project_id = :project and tool_call_id = :call and type = 'tool.result'

-- `|| ''` has PostgreSQL look up row by row: a plan made while the tables were small would read all of the project for each.

-- name: read_box
select b.position, c.card_id, c.type, c.author_id, c.role, c.agent_turn_id, c.step_id, c.tool_call_id,
    c.function_name, c.content, c.tool_calls, c.metadata, c.created_at
from {schema:cardbox}box_cards as b
join {schema:cardbox}cards as c on c.project_id = b.project_id || '' and c.card_id = b.card_id
where b.project_id = :project and b.box_id = :box and b.position > :after
order by b.position

-- name: box_info
select project_id, box_id, kind, length, writer, held, parent_box_id, created_at
from {schema:cardbox}card_boxes where project_id = :project and box_id = :box

-- name: create_box
insert into {schema:cardbox}card_boxes (
    project_id, box_id, kind, length, writer, held, parent_box_id, created_at
) values (:project, :box, :kind, :length, :writer, :held, :parent, {now})

-- name: put_card
insert into {schema:cardbox}box_cards (project_id, box_id, position, card_id, agent_turn_id)
values (:project, :box, :position, :card, :turn)

-- name: box_cards_known
select count(*) as known from {schema:cardbox}cards where project_id = :project and card_id {in:ids}

-- name: grow_box
update {schema:cardbox}card_boxes set length = length + :count
where project_id = :project and box_id = :box and writer = :turn and held = 1
returning length

-- name: acquire_box
update {schema:cardbox}card_boxes set writer = :turn, held = 1
where project_id = :project and box_id = :box and kind = 'output' and (held = 0 or writer = :turn)
returning box_id

-- name: fork_box
insert into {schema:cardbox}card_boxes (
    project_id, box_id, kind, length, writer, held, parent_box_id, created_at
)
select project_id, :fork, kind, length, :turn, 1, box_id, {now}
from {schema:cardbox}card_boxes where project_id = :project and box_id = :box and kind = 'output'

-- name: copy_box_cards
insert into {schema:cardbox}box_cards (project_id, box_id, position, card_id, agent_turn_id)
select r.project_id, :fork, r.position, r.card_id, :turn
from {schema:cardbox}box_cards as r
where r.project_id = :project and r.box_id = :box
    and r.position < (
        select length from {schema:cardbox}card_boxes where project_id = :project and box_id = :fork
    )

-- name: close_box
update {schema:cardbox}card_boxes set length = length + :count, held = 0
where project_id = :project and box_id = :box and writer = :turn and held = 1
returning length
