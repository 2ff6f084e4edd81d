-- name: add_words
insert into afl_search (workflow_id, words) values (:workflow_id, array_to_tsvector(string_to_array(:words, ' ')))
on conflict (workflow_id) do update set words = excluded.words
-- name: forget_runs
delete from afl_search where workflow_id {in:ids}
-- name: search
select id, workflow_id from afl_search where words @@ :query::tsquery and id < :below order by id desc limit :limit
