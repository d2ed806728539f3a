-- The hot requests, as a Java client sends them. KIND is list, beat, register or again.
local kind = os.getenv("KIND") or "list"
local services = tonumber(os.getenv("SERVICES") or "100")
local per = tonumber(os.getenv("PER") or "10")
local prefix = os.getenv("PREFIX") or "bench"
-- In place of PREFIX-0, PREFIX-1 ...: names, separated by commas.
local names = {}
for given in (os.getenv("NAMES") or ""):gmatch("[^,]+") do
  names[#names + 1] = given
end
local thread_count = 0
local i = 0

function setup(thread)
  thread:set("thread", thread_count)
  thread_count = thread_count + 1
end

local function name(k)
  return "serviceName=DEFAULT_GROUP%40%40" .. (names[k + 1] or prefix .. "-" .. k) .. "&namespaceId=public"
end

local make = {}

function make.list()
  return wrk.format("GET", "/nacos/v1/ns/instance/list?" .. name(i % services) .. "&clusters=&udpPort=0&clientIP=127.0.0.1&healthyOnly=false")
end

function make.beat()
  local k = math.floor(i / services) % per
  return wrk.format("PUT", "/nacos/v1/ns/instance/beat?" .. name(i % services) .. "&clusterName=DEFAULT&ip=10.9." .. math.floor(k / 250) .. "." .. (k % 250 + 1) .. "&port=8080", nil, "")
end

-- Ever new instances, or with KIND=again the same PER ones over and over.
function make.register()
  local k = math.floor(i / services)
  if kind == "again" then k = k % per end
  local ip = "10." .. (thread or 0) .. "." .. (math.floor(k / 250) % 250) .. "." .. (k % 250 + 1)
  return wrk.format("POST", "/nacos/v1/ns/instance?" .. name(i % services) .. "&ip=" .. ip .. "&port=" .. (8000 + math.floor(k / 62500)) ..
    "&weight=1.0&enable=true&healthy=true&ephemeral=true&clusterName=DEFAULT&metadata=%7B%22zone%22%3A%22a%22%7D", nil, "")
end

function request()
  i = i + 1
  return make[kind]()
end

make.again = make.register

wrk.headers["User-Agent"] = "Nacos-Java-Client:v1.4.8"
if kind ~= "list" then wrk.headers["Content-Length"] = "0" end
