-- The wire: msgpack in, msgpack out.
-- Reads only frames that the engine wrote; writes only values that `encode` has checked. The foreign function interface is used
-- here alone, as a local of trusted code: nothing that a policy can reach leads to it.
local hg = ...
local ffi = require("ffi")
local buffer = require("string.buffer")
local bit = require("bit")
local M = {}
hg.codec = M

ffi.cdef [[
  typedef union { uint8_t bytes[8]; double real; float single; } headgate_number;
  typedef struct { long tv_sec; long tv_nsec; } headgate_timespec;
  int clock_gettime(int, headgate_timespec *);
]]
local cast, to_string = ffi.cast, ffi.string
local number, spec = ffi.new("headgate_number"), ffi.new("headgate_timespec")
local bytes_pointer = ffi.typeof("const uint8_t *")

-- Microseconds of the monotonic clock; for budgets and timings only, a policy never sees it.
function M.clock_us()
  ffi.C.clock_gettime(1, spec)
  return tonumber(spec.tv_sec) * 1e6 + tonumber(spec.tv_nsec) / 1e3
end

local source, buf, pos, size = nil, nil, 0, 0

function M.open(frame)
  source, buf, pos, size = frame, cast(bytes_pointer, frame), 0, #frame
end
function M.close() source, buf = nil, nil end
function M.more() return pos < size end

-- Without loops: short inner loops keep LuaJIT from compiling the loops around them.
local function uint(n)
  local b, p = buf, pos
  pos = p + n
  if n == 1 then return b[p] end
  if n == 2 then return b[p] * 256 + b[p + 1] end
  local v = ((b[p] * 256 + b[p + 1]) * 256 + b[p + 2]) * 256 + b[p + 3]
  if n == 4 then return v end
  return v * 4294967296 + (((b[p + 4] * 256 + b[p + 5]) * 256 + b[p + 6]) * 256 + b[p + 7])
end

-- The sign belongs to the high half: the whole of a negative 64-bit number would lose its last digits in a double.
local int
function int(n)
  if n == 8 then
    local high = int(4)
    return high * 4294967296 + uint(4)
  end
  local v, top = uint(n), 2 ^ (8 * n - 1)
  if v >= top then v = v - 2 * top end
  return v
end

local function real(n)
  for i = 0, n - 1 do number.bytes[i] = buf[pos + n - 1 - i] end
  pos = pos + n
  if n == 8 then return tonumber(number.real) end
  return tonumber(number.single)
end

local function text(n)
  local s = to_string(buf + pos, n)
  pos = pos + n
  return s
end

local read
local function array(n)
  local t = {}
  for i = 1, n do t[i] = read() end
  return t
end
local function map(n)
  local t = {}
  for _ = 1, n do
    local k = read()
    t[k] = read()
  end
  return t
end

function read()
  local b = buf[pos]
  pos = pos + 1
  if b < 0x80 then return b end
  if b < 0x90 then return map(b - 0x80) end
  if b < 0xa0 then return array(b - 0x90) end
  if b < 0xc0 then return text(b - 0xa0) end
  if b == 0xc0 then return nil end
  if b == 0xc2 then return false end
  if b == 0xc3 then return true end
  if b >= 0xe0 then return b - 256 end
  if b == 0xcc then return uint(1) end
  if b == 0xcd then return uint(2) end
  if b == 0xce then return uint(4) end
  if b == 0xcf then return uint(8) end
  if b == 0xcb then return real(8) end
  if b == 0xd9 or b == 0xc4 then return text(uint(1)) end
  if b == 0xda or b == 0xc5 then return text(uint(2)) end
  if b == 0xdb or b == 0xc6 then return text(uint(4)) end
  if b == 0xd0 then return int(1) end
  if b == 0xd1 then return int(2) end
  if b == 0xd2 then return int(4) end
  if b == 0xd3 then return int(8) end
  if b == 0xca then return real(4) end
  if b == 0xdc then return array(uint(2)) end
  if b == 0xdd then return array(uint(4)) end
  if b == 0xde then return map(uint(2)) end
  if b == 0xdf then return map(uint(4)) end
  error("wire: byte " .. b .. " is not a value")
end
M.read = read

-- Length of the array that follows (the fields of one record).
function M.array_size()
  local b = buf[pos]
  pos = pos + 1
  if b >= 0x90 and b < 0xa0 then return b - 0x90 end
  if b == 0xdc then return uint(2) end
  error("wire: a record was expected")
end

-- Lua reads `pos` before it calls what moves it, so lengths are taken first.
local function hop(n) pos = pos + n end
local skip
local function skip_many(n) for _ = 1, n do skip() end end
function skip()
  local b = buf[pos]
  pos = pos + 1
  if b < 0x80 or b >= 0xe0 or (b >= 0xc0 and b <= 0xc3) then return end
  if b < 0x90 then return skip_many(2 * (b - 0x80)) end
  if b < 0xa0 then return skip_many(b - 0x90) end
  if b < 0xc0 then return hop(b - 0xa0) end
  if b == 0xd9 or b == 0xc4 then return hop(uint(1)) end
  if b == 0xda or b == 0xc5 then return hop(uint(2)) end
  if b == 0xdb or b == 0xc6 then return hop(uint(4)) end
  if b >= 0xcc and b <= 0xcf then return hop(bit.lshift(1, b - 0xcc)) end
  if b >= 0xd0 and b <= 0xd3 then return hop(bit.lshift(1, b - 0xd0)) end
  if b == 0xcb then return hop(8) end
  if b == 0xca then return hop(4) end
  if b == 0xdc then return skip_many(uint(2)) end
  if b == 0xdd then return skip_many(uint(4)) end
  if b == 0xde then return skip_many(2 * uint(2)) end
  if b == 0xdf then return skip_many(2 * uint(4)) end
  error("wire: byte " .. b .. " is not a value")
end

-- The undecoded bytes of the next value: nested maps of jobs are decoded when somebody looks.
function M.raw()
  local b = buf[pos]
  if b == 0x80 then pos = pos + 1 return "\128" end
  if b == 0xc0 then pos = pos + 1 return "\192" end
  local start = pos
  skip()
  return to_string(buf + start, pos - start)
end

-- Decodes bytes kept by `raw`; may be called while no frame is open.
function M.decode(raw)
  local s, b, p, n = source, buf, pos, size
  M.open(raw)
  local v = read()
  source, buf, pos, size = s, b, p, n
  return v
end

local out = buffer.new()
local char, floor = string.char, math.floor

local function put_uint32(v)
  out:put(char(floor(v / 16777216) % 256, floor(v / 65536) % 256, floor(v / 256) % 256, v % 256))
end

function M.text(s)
  local n = #s
  if n < 32 then out:put(char(0xa0 + n), s)
  elseif n < 256 then out:put("\217", char(n), s)
  else out:put("\219") put_uint32(n) out:put(s) end
end

-- Text that may not be UTF-8 travels as bytes.
function M.bytes(s)
  out:put("\198")
  put_uint32(#s)
  out:put(s)
end

function M.number(v)
  if v == floor(v) and v >= 0 and v < 4294967296 then
    if v < 128 then out:put(char(v)) else out:put("\206") put_uint32(v) end
    return
  end
  if v == floor(v) and v < 0 and v >= -32 then out:put(char(256 + v)) return end
  if v == floor(v) and v > 0 and v < 2 ^ 53 then
    out:put("\207")
    put_uint32(floor(v / 4294967296))
    put_uint32(v % 4294967296)
    return
  end
  number.real = v
  local b = number.bytes
  out:put("\203", char(b[7], b[6], b[5], b[4], b[3], b[2], b[1], b[0]))
end

function M.array(n)
  if n < 16 then out:put(char(0x90 + n)) else out:put("\221") put_uint32(n) end
end
function M.map(n)
  if n < 16 then out:put(char(0x80 + n)) else out:put("\223") put_uint32(n) end
end
function M.none() out:put("\192") end
function M.bool(v) out:put(v and "\195" or "\194") end
function M.begin() out:reset() end
function M.finish() return out:get() end
