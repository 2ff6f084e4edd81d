-- name: add_memory
insert into {schema:state}memories (project_id, scope, memory_id, text, agent_turn_id, created_at)
values (:project, :scope, :memory, :text, :turn, {now})

-- name: add_word
insert into {schema:state}memory_words (project_id, scope, word, memory_id)
values (:project, :scope, :word, :memory)

-- Those with most of the words first, of these the newest.

-- name: recall
select m.scope, m.text, m.created_at, count(*) as hits
from {schema:state}memory_words as w
join {schema:state}memories as m
    on m.project_id = w.project_id and m.scope = w.scope and m.memory_id = w.memory_id
where w.project_id = :project and w.scope {in:scopes} and w.word {in:words}
group by m.project_id, m.scope, m.memory_id, m.text, m.created_at
order by hits desc, m.created_at desc, m.memory_id desc limit :limit

-- name: latest
select scope, text, created_at from {schema:state}memories where project_id = :project and scope {in:scopes}
order by created_at desc, memory_id desc limit :limit

-- name: forget_words
delete from {schema:state}memory_words where project_id = :project and scope = :scope

-- name: forget_memories
delete from {schema:state}memories where project_id = :project and scope = :scope
