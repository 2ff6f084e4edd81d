-- Which of the first messages is next when waiting raises them: by one level for each `aging` they have waited; of
-- equals the older one.
local function eldest(heads, at, aging)
  local best, rank
  for _, head in ipairs(heads) do
    local level = math.min(3, 4 - head.index + math.floor((at - head.time) / aging))
    if not best or level > rank or (level == rank and head.time < best.time) then
      best, rank = head, level
    end
  end
  return best
end
