-- The debugger's line to the outside: frames on the one socket that the process has left. While a policy stands still nobody
-- else in this process runs, so the waiting is done here. When the other side is gone, the process ends.
local hg = ...
local codec = hg.codec
local ffi = require("ffi")
local M = {}
hg.link = M

ffi.cdef [[
  ssize_t send(int, const void *, size_t, int);
  ssize_t recv(int, void *, size_t, int);
  void _exit(int);
]]
local C, NO_SIGNAL, EAGAIN, EINTR = ffi.C, 0x4000, 11, 4
local fd, without_waiting = -1, 0
local char, floor, byte = string.char, math.floor, string.byte

function M.connect(socket, flag) fd, without_waiting = socket, flag end

local function send_all(data)
  local at, left = ffi.cast("const char *", data), #data
  while left > 0 do
    local n = tonumber(C.send(fd, at, left, NO_SIGNAL))
    if n > 0 then at, left = at + n, left - n
    elseif ffi.errno() ~= EINTR then C._exit(0) end
  end
end

local write
local function write_list(list)
  codec.array(#list)
  for i = 1, #list do write(list[i]) end
end
function write(value)
  local t = type(value)
  if t == "table" then write_list(value)
  elseif t == "number" then codec.number(value)
  elseif t == "boolean" then codec.bool(value)
  elseif t == "nil" then codec.none()
  else codec.bytes(value) end
end

-- Sends a list of texts, numbers, booleans and lists.
function M.send(kind, list)
  codec.begin()
  write_list(list)
  local body = codec.finish()
  local n = #body
  send_all(char(n % 256, floor(n / 256) % 256, floor(n / 65536) % 256, floor(n / 16777216)) .. kind .. body)
end

-- Reads exactly n bytes, never more: what follows belongs to somebody else. Nil where there is nothing and no wish to wait.
local function take(n, wait)
  local buffer, have = ffi.new("char[?]", n > 0 and n or 1), 0
  while have < n do
    local flag = (wait or have > 0) and 0 or without_waiting
    local got = tonumber(C.recv(fd, buffer + have, n - have, flag))
    local why = got < 0 and ffi.errno()
    if got > 0 then have = have + got
    elseif why == EAGAIN and flag ~= 0 then return nil
    elseif why ~= EINTR then C._exit(0) end
  end
  return ffi.string(buffer, n)
end

-- The next command: a list. Without `wait` nil when there is none.
function M.receive(wait)
  local head = take(5, wait)
  if not head then return nil end
  local a, b, c, d = byte(head, 1, 4)
  return codec.decode(take(a + b * 256 + c * 65536 + d * 16777216, true))
end
