-- KEYS: the fence, and what is written. ARGV: the holder's token, and the value.
-- Lua's numbers are exact to 2^53 only, so tokens are compared as texts.
local function lower(a, b) return #a < #b or (#a == #b and a < b) end
local last = redis.call('GET', KEYS[1])
if last and lower(ARGV[1], last) then
	return redis.error_reply('FENCED a later holder came first, with token ' .. last)
end
redis.call('SET', KEYS[1], ARGV[1])
return redis.call('SET', KEYS[2], ARGV[2]) -- your writes
