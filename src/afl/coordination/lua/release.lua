-- uses: clock queue state entry expiry
-- Back where they stood, without an attempt counted: a '1' or '0' for each token of 20 characters.
local tokens, answers, back = ARGV[FIRST], {}, 0
check_kinds()
for start = 1, #tokens, 20 do
  local token = string.sub(tokens, start, start + 19)
  local deadline = redis.call('ZSCORE', DEADLINES, token)
  if deadline and tonumber(deadline) > now then
    local priority, score, member, expires = read_hold(redis.call('HGET', RESERVED, token) or '')
    redis.call('HDEL', RESERVED, token)
    redis.call('ZREM', DEADLINES, token)
    if member then
      redis.call('ZADD', LINE[priority], score, member)
      if expires ~= '0' then redis.call('ZADD', EXPIRING, expires, member) end
      audit('released', member)
      back = back + 1
    end
    answers[#answers + 1] = member and '1' or '0'
  else
    answers[#answers + 1] = '0'
  end
end
if back > 0 then redis.call('PUBLISH', ARGV[1], digits(back)) end
return table.concat(answers)
