-- uses: clock queue
-- A '1' or '0' for each token of 20 characters: held for longer, or unknown or too late.
local deadline, tokens, answers = digits(now + tonumber(ARGV[FIRST])), ARGV[FIRST + 1], {}
for start = 1, #tokens, 20 do
  local token = string.sub(tokens, start, start + 19)
  local held = redis.call('ZSCORE', DEADLINES, token)
  if held and tonumber(held) > now then
    redis.call('ZADD', DEADLINES, deadline, token)
    answers[#answers + 1] = '1'
  else
    answers[#answers + 1] = '0'
  end
end
return table.concat(answers)
