-- uses: clock queue state entry
-- Dead letters back into their lines with all attempts ahead of them: one id, or up to `most` from the oldest.
-- What cannot be read stays, and nothing goes beyond the queue's size. How many went.
local wanted, most, size = ARGV[FIRST], tonumber(ARGV[FIRST + 1]), tonumber(ARGV[3])
check_kinds()
local room = size - math.max(0, redis.call('HLEN', MESSAGES) - 1)
local mark = '{"dead_id":"' .. wanted .. '"'
local went, start = 0, 0

local function revive(letter)
  local priority = string.match(letter, ',"priority":([951]),"enqueued_at":%d+,"message":{')
  local is_read, parsed = pcall(cjson.decode, letter)
  if not priority or not is_read then return false end
  -- The message itself is cut out as it stands: parsed and written again it would not be the same.
  local _, found = string.find(letter, ',"message":{', 1, true)
  local body, id = string.sub(letter, found, -2), parsed.message.message_id
  local sequence, at = read_state()
  sequence = sequence + 1
  local member = string.format('%016d:', sequence) .. id
  redis.call('HSET', MESSAGES, '', digits(sequence) .. ' ' .. digits(at),
    member, '0 ' .. priority .. ' ' .. stamp .. ' 0 0\n' .. body)
  redis.call('ZADD', LINE[priority], digits(at), member)
  redis.call('SADD', QUEUES, ARGV[2])
  audit('requeued', member)
  return true
end

while went < most and went < room do
  local letter = redis.call('LINDEX', DEAD, start)
  if not letter then break end
  if wanted ~= '' and string.sub(letter, 1, #mark) ~= mark then
    start = start + 1
  elseif revive(letter) then
    redis.call('LREM', DEAD, 1, letter)
    went = went + 1
    if wanted ~= '' then break end
  else
    start = start + 1
  end
end
settle(redis.call('HLEN', MESSAGES))
if went > 0 then redis.call('PUBLISH', ARGV[1], digits(went)) end
return went
