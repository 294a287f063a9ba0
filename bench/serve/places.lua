-- Requests for wrk: one after the other from a file of targets, which the environment names.
local requests = {}
for line in io.lines(os.getenv("DTOSS_TARGETS")) do
  requests[#requests + 1] = wrk.format("GET", line)
end
local i = math.random(#requests)
request = function()
  i = i % #requests + 1
  return requests[i]
end
