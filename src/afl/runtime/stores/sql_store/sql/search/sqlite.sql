-- name: has_fts
select 1 as found from pragma_module_list where name = 'fts5'
-- name: remove_words
delete from afl_search where rowid in (select id from afl_search_runs where workflow_id {in:ids})
-- name: add_run
insert into afl_search_runs (workflow_id) values (:workflow_id) on conflict (workflow_id) do nothing
-- name: add_words
insert into afl_search (rowid, words) select id, :words from afl_search_runs where workflow_id = :workflow_id
-- name: forget_runs
delete from afl_search_runs where workflow_id {in:ids}
-- name: search
select afl_search.rowid as id, s.workflow_id from afl_search join afl_search_runs s on s.id = afl_search.rowid
where afl_search match :query and afl_search.rowid < :below order by afl_search.rowid desc limit :limit
