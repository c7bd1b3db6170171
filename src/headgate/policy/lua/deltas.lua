-- The stream from the engine: tagged records, applied in order. Tags are those of `deltas.py`.
local hg = ...
local codec, mirror, fleet, asking = hg.codec, hg.mirror, hg.fleet, hg.asking
local read = codec.read

local function with_id(f) return function() return f(read()) end end
local APPLY = {
  [1] = mirror.job_added,
  [2] = with_id(mirror.job_removed),
  [3] = mirror.job_changed,
  [4] = fleet.worker_set,
  [5] = with_id(fleet.worker_removed),
  [6] = fleet.pool_set,
  [7] = with_id(fleet.pool_removed),
  [8] = fleet.tenant_set,
  [9] = with_id(fleet.tenant_removed),
  [10] = fleet.model_set,
  [11] = with_id(fleet.model_removed),
  [12] = fleet.metrics_set,
  [13] = fleet.config_set,
  [14] = function()
    mirror.reset()
    fleet.reset()
  end,
  [15] = fleet.worker_changed,
  [16] = fleet.running_set,
  [17] = fleet.running_removed,
}
local QUESTION = 20

-- Applies a frame; the answer to the question at its end, if it has one, is returned.
function hg.feed(frame, who)
  codec.open(frame)
  local answer = ""
  while codec.more() do
    codec.array_size()
    local tag = read()
    if tag == QUESTION then answer = asking.ask(who)
    else APPLY[tag]() end
  end
  codec.close()
  return answer
end
