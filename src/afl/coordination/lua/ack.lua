-- uses: clock queue
-- A '1' or '0' for each token of 20 characters: done, or unknown or too late.
local tokens, answers, gone = ARGV[FIRST], {}, 0
local count, EXPIRING = redis.call('HLEN', MESSAGES), KEYS[11]
if #tokens > 20 then redis.call('ZCARD', EXPIRING) end
for start = 1, #tokens, 20 do
  local token = string.sub(tokens, start, start + 19)
  local deadline = redis.call('ZSCORE', DEADLINES, token)
  local answer = '0'
  if deadline and tonumber(deadline) > now then
    local hold = redis.call('HGET', RESERVED, token) or ''
    local expires, member = string.match(hold, '^%d:[^:]+:(%d+):(.*)$')
    if member then
      if expires ~= '0' then redis.call('ZCARD', EXPIRING) end
      redis.call('ZREM', DEADLINES, token)
      local is_noted, problem = pcall(audit, 'acked', member)
      if not is_noted then
        redis.call('ZADD', DEADLINES, deadline, token)
        return problem
      end
      redis.call('HDEL', RESERVED, token)
      gone = gone + redis.call('HDEL', MESSAGES, member)
      if expires ~= '0' then redis.call('ZREM', EXPIRING, member) end
      answer = '1'
    end
  end
  answers[#answers + 1] = answer
end
if gone > 0 then settle(count - gone) end
return table.concat(answers)
