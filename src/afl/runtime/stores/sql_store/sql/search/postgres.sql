-- name: add_words
insert into afl_search (workflow_id, words) values (:workflow_id, array_to_tsvector(string_to_array(:words, ' ')))
on conflict (workflow_id) do update set words = excluded.words
-- name: forget_runs
delete from afl_search where workflow_id {in:ids}
-- name: search
select id, workflow_id from afl_search where words @@ :query::tsquery and id + 0 < :below order by id + 0 desc limit :limit
