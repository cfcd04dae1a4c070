-- Asks `soonbeon gate` whether a request may go in, and gives its answer where it may not. See docs/gate.md.
--
--   http-request lua.soonbeon http://127.0.0.1:8090/forward/main
--   http-response lua.soonbeon-session
--
-- The second hands the browser the session that --single-use gives for a token.
-- It fails closed: while the gate does not answer, the answer is a 503.

-- what the gate reads of a request; nothing else is sent to it
local sent = {
    "accept", "accept-language", "access-control-request-method", "authorization", "cookie", "origin", "soonbeon-token",
}

local function deny(txn, status, headers, body)
    local reply = txn:reply({ status = status })
    for name, values in pairs(headers or {}) do
        local n = name:lower()
        if n ~= "content-length" and n ~= "transfer-encoding" and n ~= "connection" then
            for _, value in pairs(values) do
                reply:add_header(name, value)
            end
        end
    end
    if txn.sf:method() ~= "HEAD" then
        reply:set_body(body or "")
    end
    txn:done(reply)
end

core.register_action("soonbeon", { "http-req" }, function(txn, url)
    -- a client does not say these itself
    txn.http:req_del_header("soonbeon-visitor")
    txn.http:req_del_header("soonbeon-ticket")

    local given, headers = txn.http:req_get_headers(), {}
    for _, name in ipairs(sent) do
        local values = given[name]
        if values then
            headers[name] = {}
            for i = 0, #values do
                table.insert(headers[name], values[i])
            end
        end
    end
    headers["x-forwarded-method"] = { txn.sf:method() }
    headers["x-forwarded-uri"] = { txn.sf:pathq() }

    local answer = core.httpclient():get({ url = url, headers = headers, timeout = 1000 })
    if not answer or not answer.status or answer.status == 0 then
        return deny(txn, 503, { ["Retry-After"] = { "5" } }, "The gate does not answer.\n")
    end
    if answer.status ~= 200 then
        return deny(txn, answer.status, answer.headers, answer.body)
    end
    for _, name in ipairs({ "soonbeon-visitor", "soonbeon-ticket" }) do
        local values = answer.headers[name]
        if values then
            txn.http:req_set_header(name, values[0] or values[1] or "")
        end
    end
    local session = answer.headers["set-cookie"]
    if session then
        txn:set_var("txn.soonbeon_session", session[0] or session[1])
    end
end, 1)

core.register_action("soonbeon-session", { "http-res" }, function(txn)
    local session = txn:get_var("txn.soonbeon_session")
    if session then
        txn.http:res_add_header("set-cookie", session)
    end
end)
