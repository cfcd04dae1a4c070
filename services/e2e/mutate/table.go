package main

// mutation breaks one rule: in file, old becomes fresh, and also[0] becomes also[1] where it is given. Each must occur exactly
// once.
type mutation struct {
	rule  string
	file  string // below pkg
	old   string
	fresh string
	also  [2]string
}

const (
	foldFile    = "line/line.go"
	ledgerFile  = "line/ledger.go"
	leaderFile  = "line/leader.go"
	historyFile = "line/linetest/history.go"
	boundFile   = "queue/estimate.go"
	applyFile   = "redisline/lua/apply.lua"
	admitFile   = "redisline/lua/admit.lua"
	placesFile  = "redisline/lua/places.lua"
	slotsFile   = "line/slots.go"
	redrawFile  = "redisline/draw.go"
)

// inMemory are found by the histories on the memory line.
var inMemory = []mutation{
	// The fold.
	{rule: "records that do not follow what was applied change nothing", file: ledgerFile, old: `if follows != l.state.Seq {`, fresh: `if false {`},
	{rule: "every record uses up its ticket", file: ledgerFile, old: "	l.state.Seq = rec.Ticket\n", fresh: "	if rec.Kind != queue.Skipped {\n		l.state.Seq = rec.Ticket\n	}\n"},
	{rule: "a refresh moves back", file: foldFile, old: `if waits && (l.state.Reentry == queue.Keep || `, fresh: `if waits || (l.state.Reentry == queue.Keep || `},
	{rule: "the rule keep keeps the place", file: foldFile, old: `l.state.Reentry == queue.Keep || `, fresh: ``},
	{rule: "a retransmission is skipped", file: foldFile, old: ` || rec.Key != "" && l.keys[v] == rec.Key`, fresh: ``},
	{rule: "no key is no retransmission", file: foldFile, old: `rec.Key != "" && l.keys[v] == rec.Key`, fresh: `l.keys[v] == rec.Key`},
	{rule: "another key is a refresh", file: foldFile, old: `l.keys[v] == rec.Key`, fresh: `l.keys[v] != ""`},
	{rule: "an entry without a key forgets the key before", file: foldFile, old: "	} else {\n		delete(l.keys, v)\n	}\n	l.fall(v)", fresh: "	}\n	l.fall(v)"},
	{rule: "who is pending and stands still waits", file: foldFile, old: `	return ok && p.stands` + "\n", fresh: "	_, _ = p, ok\n	return false\n"},
	{rule: "who is pending and does not stand does not wait", file: foldFile, old: `	return ok && p.stands` + "\n", fresh: "	_ = p\n	return ok\n"},
	{rule: "leaving removes from the line", file: foldFile, old: "		l.leave(rec.Visitor)\n", fresh: ""},
	{rule: "leaving ends the standing of a pop", file: foldFile, old: "		l.fall(rec.Visitor)\n", fresh: ""},
	{rule: "a refresh ends the standing of a pop", file: foldFile, old: "	l.fall(v)\n}\n\n// draw", fresh: "}\n\n// draw"},
	{rule: "a claim sets the epoch", file: ledgerFile, old: "		l.state.Epoch = rec.Ticket\n", fresh: ""},
	{rule: "another epoch's admission is void", file: ledgerFile, old: `if rec.Epoch != l.state.Epoch {
		valid = nil // a zombie's`, fresh: `if false {
		valid = nil`},
	{rule: "a repeated admission is void", file: ledgerFile, old: `if p.Ticket <= served { // a repetition`, fresh: `if false { // a repetition`},
	{rule: "an admission raises served", file: ledgerFile, old: "	l.state.Served = served\n", fresh: ""},
	{rule: "an admission absorbs what the visitor entered before it", file: foldFile, old: "func (l *Line) out(v queue.Visitor) {\n	l.leave(v)\n", fresh: "func (l *Line) out(v queue.Visitor) {\n"},
	{rule: "an admission settles the pop", file: foldFile, old: "	l.unpend(v)\n	delete(l.keys, v)\n", fresh: "	delete(l.keys, v)\n"},
	{rule: "a pop is forgotten once served has reached it", file: foldFile, old: `if p.ticket > l.state.Served { // a pop whose`, fresh: `if true { // a pop whose`},
	{rule: "a void record forgets no pop", file: foldFile, old: `if p.ticket > l.state.Served { // a pop whose`, fresh: `if p.ticket > l.state.Served && rec.Epoch == l.state.Epoch { // a pop whose`},
	{rule: "a release ends the grant of its ticket", file: ledgerFile, old: "			g.released = true\n", fresh: ""},
	{rule: "a release of another ticket does not", file: ledgerFile, old: `ok && g.Ticket == rec.Of`, fresh: `ok`},
	// Handing out.
	{rule: "a fenced leader gets nobody", file: foldFile, old: `if ask.Epoch < max(l.fence, l.state.Epoch) {`, fresh: `if ask.Epoch < l.state.Epoch {`},
	{rule: "a leader whose claim is not the latest gets nobody", file: foldFile, old: `if ask.Epoch < max(l.fence, l.state.Epoch) {`, fresh: `if ask.Epoch < l.fence {`},
	{rule: "the same batch is the same people", file: foldFile, old: `if ask.Epoch != l.fence || ask.Batch != l.batch { // else`, fresh: `if true { // else`},
	{rule: "broken numbers wait for the leader's last record", file: foldFile, old: `if !unbroken && l.state.Seq < ask.AtLeast {`, fresh: `if false {`},
	{rule: "unbroken numbers run ahead of the projection", file: foldFile, old: `if !unbroken && l.state.Seq < ask.AtLeast {`, fresh: `if l.state.Seq < ask.AtLeast {`},
	{rule: "what is pending in vain is handed out again", file: foldFile, old: `if !unbroken && len(l.pending) > 0 {`, fresh: `if false {`},
	{rule: "an unbroken number hands out nobody again", file: foldFile, old: `if !unbroken && len(l.pending) > 0 {`, fresh: `if len(l.pending) > 0 {`},
	{rule: "a number of another epoch is broken", file: foldFile, old: `unbroken := ask.Epoch == l.fence && ask.Batch`, fresh: `unbroken := ask.Batch`},
	{rule: "a head that is itself pending stops the batch", file: foldFile, old: `if _, ok := l.pending[v]; ok { // re-entered`, fresh: `if false { // re-entered`},
	{rule: "people are handed out in ticket order", file: foldFile, old: `	slices.SortFunc(out, func(a, b queue.Person) int { return int(a.Ticket - b.Ticket) })`, fresh: `	slices.SortFunc(out, func(a, b queue.Person) int { return int(b.Ticket - a.Ticket) })`},
	// The leader's numbers.
	{rule: "an empty batch uses its number", file: leaderFile, old: "	case queue.Empty:\n		l.batch++\n", fresh: "	case queue.Empty:\n"},
	{rule: "an appended batch uses its number", file: leaderFile, old: "		l.held = nil\n		l.batch++\n", fresh: "		l.held = nil\n"},
	{rule: "the leader remembers its own last record", file: leaderFile, old: "	l.last = ticket\n	if l.held", fresh: "	if l.held"},
	// One claim a switch would do (the model says so); without any, Redis takes a batch number for a sign that its own batch is in
	// the log, and forgets people whom it had popped.
	{rule: "who changes the view claims anew", file: historyFile,
		old: "		is.direct = nil\n		h.claim(h.leader, queue.ModeRedis)\n", fresh: "		is.direct = nil\n",
		also: [2]string{"			h.claim(h.leader, queue.ModeDirect) // who changes the view that it pops from claims anew\n", ""}},
	// The draw, the end of the line, capacity.
	{rule: "a draw gives everybody another number", file: foldFile, old: `Ticket: l.state.Draw.Number(w.Ticket)`, fresh: `Ticket: w.Ticket`},
	{rule: "there is one draw", file: ledgerFile, old: `if l.leads(rec) && l.state.Draw.At == 0 {`, fresh: `if l.leads(rec) {`},
	{rule: "another epoch's draw is void", file: ledgerFile, old: `if l.leads(rec) && l.state.Draw.At == 0 {`, fresh: `if l.state.Draw.At == 0 {`},
	{rule: "a draw is among those above served", file: ledgerFile, old: `From: l.state.Served, `, fresh: ``},
	{rule: "who was popped draws as well", file: foldFile, old: "	clear(l.pending)\n	l.gone, l.fence", fresh: "	l.gone, l.fence"},
	{rule: "what changes the order breaks the numbers", file: leaderFile, old: "	l.batch += 2\n", fresh: "	l.batch++\n"},
	{rule: "the end empties the line", file: foldFile, old: "			l.clear()\n", fresh: ""},
	{rule: "the end raises served", file: ledgerFile, old: "			l.state.Served = rec.Ticket //", fresh: "			//"},
	{rule: "another epoch's end is void", file: ledgerFile, old: "if l.leads(rec) {\n			l.state.End = queue.End{", fresh: "if true {\n			l.state.End = queue.End{"},
	{rule: "who enters after the end takes no place", file: foldFile, old: "	if l.state.End.Over {\n		l.counts.Refused++\n		return\n	}\n", fresh: ""},
	{rule: "reopening takes people in again", file: ledgerFile, old: "			l.state.End.Over = false\n", fresh: ""},
	{rule: "a release frees a place", file: slotsFile, old: "	s.byTicket[i].gone = true\n	s.held--\n	return true", fresh: "	return true"},
	{rule: "an admission holds its place for the leeway after its end", file: slotsFile, old: `l.active.expire(nowMs - leewayMs)`, fresh: `l.active.expire(nowMs)`},
	{rule: "there is no room beyond the capacity", file: leaderFile, old: `most-active`, fresh: `most-active+1`},
	{rule: "a reading that has not met the leader's own record does not count", file: leaderFile, old: "	if seq < l.last {\n		return 0\n	}\n", fresh: ""},
	{rule: "a batch goes in parts where there is no room for all", file: historyFile, old: `is.part = min(len(people), room) // who`, fresh: `is.part = len(people) // who`},
	{rule: "a part does not use the number", file: leaderFile, old: `if l.held = l.held[n:]; len(l.held) == 0 {`, fresh: `if l.held = l.held[n:]; true {`},
	// What people are told.
	{rule: "who is being admitted counts as ahead", file: foldFile, old: `Ahead: int64(l.index.rank(t) + len(l.pending) - l.gone)}`, fresh: `Ahead: int64(l.index.rank(t))}`},
	{rule: "who fell while being admitted does not count", file: foldFile, old: `Ahead: int64(l.index.rank(t) + len(l.pending) - l.gone)}`, fresh: `Ahead: int64(l.index.rank(t) + len(l.pending))}`},
	{rule: "the bound by the log is not below the truth", file: boundFile, old: `int64(ticket)-1-int64(served)`, fresh: `int64(ticket)-2-int64(served)`},
}

// inRedis are found by the histories on a real Redis.
var inRedis = []mutation{
	{rule: "apply is compare-and-set", file: applyFile, old: `if seq ~= ARGV[1] then`, fresh: `if tonumber(seq) >= tonumber(ARGV[2]) then`},
	{rule: "a refresh moves back", file: applyFile, old: `  call('ZADD', LINE, unpack(ARGV, from, to))`, fresh: `  call('ZADD', LINE, 'NX', unpack(ARGV, from, to))`},
	{rule: "keep keeps the place", file: applyFile, old: `        call('ZADD', LINE, 'NX', ARGV[i], ARGV[i + 1])`, fresh: `        call('ZADD', LINE, ARGV[i], ARGV[i + 1])`},
	{rule: "keep: who is pending and stands still waits", file: applyFile, old: `if pendings == 0 or not stands(call('HGET', PENDING, ARGV[i + 1])) then`, fresh: `if true then`},
	{rule: "keep with a key keeps the place", file: applyFile, old: `if keep and (stands(p) or call('ZSCORE', LINE, visitor)) then`, fresh: `if keep and stands(p) then`},
	{rule: "a retransmission is skipped", file: applyFile, old: `if haskeys and call('HGET', KEYDIGESTS, visitor) == key then`, fresh: `if false then`},
	{rule: "an entry without a key forgets the key before", file: applyFile, old: `    call('HDEL', KEYDIGESTS, unpack(who))
  end
  if pendings > 0 then
    local ps`, fresh: `  end
  if pendings > 0 then
    local ps`},
	{rule: "a refresh ends the standing of a pop", file: applyFile, old: `      if p then fall(who[i], p) end`, fresh: ``},
	{rule: "a refresh with a key does so too", file: applyFile, old: `  haskeys = true
  if p then fall(visitor, p) end`, fresh: `  haskeys = true`},
	{rule: "leaving removes from the line", file: applyFile, old: `  call('ZREM', LINE, visitor)
  if haskeys`, fresh: `  if haskeys`},
	{rule: "leaving forgets the key", file: applyFile, old: `  if haskeys then call('HDEL', KEYDIGESTS, visitor) end
  local p`, fresh: `  local p`},
	{rule: "another epoch's admission is void", file: applyFile, old: `if of ~= epoch then`, fresh: `if false then`},
	{rule: "a repeated admission is void", file: applyFile, old: `if tonumber(ticket) > served then -- else a repetition`, fresh: `if true then -- else a repetition`},
	{rule: "an admission absorbs what the visitor entered before it", file: applyFile, old: `  call('ZREM', LINE, unpack(who)) -- absorbs`, fresh: `  -- absorbs`},
	{rule: "an admission settles the pop", file: applyFile, old: `    call('HDEL', PENDING, unpack(who))`, fresh: ``},
	{rule: "a pop is forgotten once served has reached it", file: applyFile, old: `if tonumber(ticket) <= served then
      if stands`, fresh: `if false then
      if stands`},
	{rule: "a claim sets the epoch", file: applyFile, old: `    epoch = ARGV[i + 1]`, fresh: ``},
	{rule: "the rule is the log's", file: applyFile, old: `    keep = ARGV[i + 1] == '1'`, fresh: ``},
	{rule: "who enters after the end takes no place", file: applyFile, old: "local function run(from, to)\n  if over then", fresh: "local function run(from, to)\n  if false then"},
	{rule: "so does who enters with a key", file: applyFile, old: "local function entered(ticket, visitor, key)\n  if over then", fresh: "local function entered(ticket, visitor, key)\n  if false then"},
	{rule: "the end empties the line", file: applyFile, old: `      call('UNLINK', LINE, KEYDIGESTS, PENDING)`, fresh: ``},
	{rule: "the end raises served", file: applyFile, old: `      served = tonumber(ARGV[i + 2])`, fresh: ``},
	{rule: "another epoch's end is void", file: applyFile, old: "    if ARGV[i + 1] == epoch then\n      ending, over = ARGV", fresh: "    if true then\n      ending, over = ARGV"},
	{rule: "reopening takes people in again", file: applyFile, old: `if ARGV[i + 1] == epoch and over then`, fresh: `if false then`},
	{rule: "a draw gives everybody another number", file: redrawFile, old: `d.people[i].Ticket = d.state.Draw.Number(d.people[i].Ticket)`, fresh: `_ = i`},
	{rule: "there is one draw", file: redrawFile, old: ` || m.Draw.At != 0`, fresh: ``},
	{rule: "another epoch's draw is void", file: redrawFile, old: `rec.Epoch != m.Epoch || `, fresh: ``},
	{rule: "a fenced leader gets nobody", file: admitFile, old: `math.max(tonumber(fence), tonumber(st[1] or '0'))`, fresh: `tonumber(st[1] or '0')`},
	{rule: "a leader whose claim is not the latest gets nobody", file: admitFile, old: `math.max(tonumber(fence), tonumber(st[1] or '0'))`, fresh: `tonumber(fence)`},
	{rule: "the same batch is the same people", file: admitFile, old: `local same = ARGV[1] == fence and ARGV[2] == last`, fresh: `local same = false`},
	{rule: "broken numbers wait for the leader's last record", file: admitFile, old: `if not unbroken and tonumber(call('GET', SEQ) or '0') < tonumber(ARGV[3]) then`, fresh: `if false then`},
	{rule: "what is pending in vain is handed out again", file: admitFile, old: `rehand = not unbroken and call('HLEN', PENDING) > 0`, fresh: `rehand = false`},
	{rule: "an unbroken number hands out nobody again", file: admitFile, old: `rehand = not unbroken and call('HLEN', PENDING) > 0`, fresh: `rehand = call('HLEN', PENDING) > 0`},
	{rule: "a head that is itself pending stops the batch", file: admitFile, old: `while free < #who and not ps[free + 1] do`, fresh: `while free < #who do`},
	{rule: "who is being admitted counts as ahead", file: placesFile, old: `out[#out + 1] = rank + standing`, fresh: `out[#out + 1] = rank`},
	{rule: "who fell while being admitted does not count", file: placesFile, old: `local standing = popped - tonumber(st[4] or '0')`, fresh: `local standing = popped`},
}
