-- Helpers about tenants: what they use and what they may still use.
local hg = ...
local views, mirror, fleet, fitting, helpers = hg.views, hg.mirror, hg.fleet, hg.fitting, hg.helpers
local hidden, is_record, slot_for, sort = views.hidden, views.is_record, fitting.slot_for, table.sort

local function over(tenant, name, amount)
  local quota = tenant.quotas[name]
  if quota and (tenant.usage[name] or 0) + amount > quota then return "quota for " .. name .. " is used up" end
  return nil
end

local function over_for_job(tenant, slot)
  local columns, inner = mirror.columns, mirror.inner
  local why = over(tenant, "jobs", 1) or over(tenant, "units", columns.units[slot])
  if why then return why end
  local shape = inner.shape[slot]
  for i = 1, shape.n do
    why = over(tenant, shape.names[i], shape.values[i])
    if why then return why end
  end
  local vram = columns.estimated_vram[slot]
  return vram and not shape.amounts.vram and over(tenant, "vram", vram) or nil
end

-- check_quota(job), check_quota(tenant_id, vram) or check_quota(tenant_id, {units = 2, vram = 8 * GB}): true, or false and why.
function helpers.check_quota(who, need)
  local slot = is_record(who) and slot_for(who) or nil
  local id = slot and mirror.columns.tenant[slot] or (is_record(who) and who.id) or who
  local tenant = fleet.by_tenant[id or false]
  if not tenant then return true, nil end
  local why
  if slot then
    why = over_for_job(tenant, slot)
  elseif type(need) == "table" then
    local names, amounts = {}, is_record(need) and hidden(need) or need
    for name, amount in next, type(amounts) == "table" and amounts or {} do
      if type(name) == "string" and type(amount) == "number" then names[#names + 1] = name end
    end
    sort(names)
    for _, name in ipairs(names) do why = why or over(tenant, name, need[name]) end
  elseif type(need) == "number" then
    why = over(tenant, "vram", need)
  end
  if why then return false, why end
  return true, nil
end

function helpers.tenant_usage(id)
  local tenant = fleet.by_tenant[is_record(id) and id.id or id or false]
  return tenant and tenant.public.usage or nil
end
