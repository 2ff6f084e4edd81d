-- What is one call on PostgreSQL; see sql/functions.

-- name: move
select state.move_1(:move::jsonb) as moved

-- name: enqueue
select state.enqueue_1(:message::jsonb, :edges::jsonb) as enqueued

-- name: send
select state.send_1(:message::jsonb, :edges::jsonb, :cards::jsonb, :context, :output) as sent

-- name: begin
select state.begin_1(:targets::text[], :owner, :limit, :lease_ms, :step) as begun

-- name: report
select state.report_1(:message::jsonb, :edges::jsonb, :card) as written

-- name: dispatch_next
select state.dispatch_next_1(:project, :agent)::text as next

-- name: open_boxes
select cardbox.open_boxes_1(:project, :context, :output, :cards::jsonb, '')
