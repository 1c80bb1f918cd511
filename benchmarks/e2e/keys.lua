-- Sends a key with every request: counting up to KEYS and over again, each
-- thread on from a place of its own. KEYS=0 never repeats one.
local keys = tonumber(os.getenv("KEYS"))
local start = tonumber(os.getenv("START") or "0")
local threads = 0

function setup(thread)
	thread:set("offset", threads)
	threads = threads + 1
end

function init()
	n = start + offset * (keys > 0 and keys / 2 or 1e9)
end

function request()
	n = n + 1
	local key = keys > 0 and n % keys or n
	return wrk.format(nil, nil, { ["X-Key"] = string.format("key-%d", key) })
end
