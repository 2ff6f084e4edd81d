-- What is one call on PostgreSQL; see sql/functions.

-- name: move
select state.move_2(:move::jsonb) as moved

-- name: enqueue
select state.enqueue_2(:message::jsonb, :edges::jsonb) as enqueued

-- name: send
select state.send_2(
    :message::jsonb, :edges::jsonb, :cards::jsonb, :context, :output, :targets::text[], :owner, :lease_ms, :step
) as sent

-- name: begin
select state.begin_2(:targets::text[], :owner, :limit, :lease_ms, :step) as begun

-- name: report
select state.report_2(:message::jsonb, :edges::jsonb, :card) as written

-- name: dispatch_next
select state.dispatch_next_2(:project, :agent)::text as next

-- name: open_boxes
select cardbox.open_boxes_2(:project, :context, :output, :cards::jsonb, '')
