-- uses: clock queue state entry expiry
-- "<came back> <looked at>\n<report>"; to be called again while as many as asked for were looked at.
local most = tonumber(ARGV[FIRST])
local back, looked = return_expired(most)
drop_lapsed(most)
settle(redis.call('HLEN', MESSAGES))
if back > 0 then redis.call('PUBLISH', ARGV[1], digits(back)) end
return back .. ' ' .. looked .. '\n' .. table.concat(buried, '\n')
