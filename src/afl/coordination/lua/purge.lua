-- uses: clock queue
-- Dead letters away for good: one id, or all of them. How many.
local wanted = ARGV[FIRST]
local length = redis.call('LLEN', DEAD)
redis.call('HLEN', MESSAGES)
local gone = 0
if wanted == '' then
  gone = length
  redis.call('DEL', DEAD)
else
  local mark = '{"dead_id":"' .. wanted .. '"'
  for index = 0, length - 1 do
    local letter = redis.call('LINDEX', DEAD, index)
    if string.sub(letter, 1, #mark) == mark then
      gone = redis.call('LREM', DEAD, 1, letter)
      break
    end
  end
end
settle(redis.call('HLEN', MESSAGES))
return gone
