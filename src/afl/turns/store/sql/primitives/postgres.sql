-- What is one call on PostgreSQL; see sql/functions.

-- name: move
select state.move_3(:move::jsonb) as moved

-- name: enqueue
select state.enqueue_3(:message::jsonb, :edges::jsonb) as enqueued

-- name: send
select state.send_3(
    :message::jsonb, :edges::jsonb, :cards::jsonb, :context, :output, :targets::text[], :owner, :lease_ms, :step
) as sent

-- name: begin
select state.begin_3(:targets::text[], :owner, :limit, :lease_ms, :step) as begun

-- name: report
select state.report_3(:message::jsonb, :edges::jsonb, :card) as written

-- name: dispatch_next
select state.dispatch_next_3(:project, :agent)::text as next

-- name: open_boxes
select cardbox.open_boxes_3(:project, :context, :output, :cards::jsonb, '')
