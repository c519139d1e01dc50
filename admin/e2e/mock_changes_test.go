package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

func (c *crawl) limits() object {
	c.mu.Lock()
	defer c.mu.Unlock()
	or := func(v, otherwise string) string {
		if v == "" {
			return otherwise
		}
		return v
	}
	now, _ := json.Marshal(c.settings)
	changed := object{}
	_ = json.Unmarshal(now, &changed)
	return object{"rate": or(c.settings.Rate, "none"), "bandwidth": or(c.settings.Bandwidth, "none"),
		"connections": or(c.settings.Connections, "2000"), "connectionsNow": 2000, "slots": 2000, "changed": changed}
}

func (c *crawl) listChanges() object {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.changes)
	slices.Reverse(list)
	if list == nil {
		list = []object{}
	}
	return object{"changes": list}
}

func (c *crawl) lastChange() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.changes)
}

func (c *crawl) changesSince(n int) []object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.changes[min(n, len(c.changes)):])
}

// change makes a change: it needs the token.
func (c *crawl) change(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		c.answer(w, r, problem{http.StatusNotFound, "no such operation"})
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+mockToken {
		problem{http.StatusUnauthorized, "this needs the token; it is in the file admin-token of the crawl's first " +
			"directory, new at each start"}.write(w)
		return
	}
	body := object{}
	data, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	_ = json.Unmarshal(data, &body)
	op := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	change := object{"time": stamp(time.Now()), "who": "dashboard", "op": op}
	answer := object{}
	c.mu.Lock()
	switch parts := strings.Split(op, "/"); {
	case op == "pause" || op == "resume":
		c.settings.Paused = op == "pause"
	case op == "drain":
		c.settings.Drain, _ = body["on"].(bool)
	case op == "limits":
		c.limit(body, change)
	case parts[0] == "hosts" && len(parts) == 3:
		c.hostDelay(r.Method, parts[1], body, change)
	case op == "blocks":
		c.block(r, body, change)
	case op == "budget":
		c.function(r.Method, body, change)
		answer["moves"] = 5_650_112_004
	case op == "priority":
		if list, ok := body["weights"].([]any); ok && len(list) != 4 {
			c.mu.Unlock()
			problem{http.StatusUnprocessableEntity, "the crawl has 4 lanes: want 4 weights"}.write(w)
			return
		}
		c.priority(r.Method, body, change)
		answer["moves"] = 1_234
	case parts[0] == "plds" && len(parts) == 3:
		c.budget(r.Method, parts[1], body, change)
	case op == "seeds":
		answer = seeds(body, change)
	case op != "checkpoint" && op != "stop":
		c.mu.Unlock()
		problem{http.StatusNotFound, "no such operation"}.write(w)
		return
	}
	change["seq"] = len(c.changes) + 1
	if len(c.changes) < 100 {
		c.changes = append(c.changes, change)
	}
	c.mu.Unlock()
	answer["change"] = change
	c.answer(w, r, answer)
}

func (c *crawl) limit(body, change object) {
	for name, at := range map[string]*string{"rate": &c.settings.Rate, "bandwidth": &c.settings.Bandwidth,
		"connections": &c.settings.Connections} {
		if v, ok := body[name].(string); ok {
			*at = v
			change[name] = v
		}
	}
}

func (c *crawl) hostDelay(method, host string, body, change object) {
	change["host"] = host
	if method == http.MethodDelete {
		change["op"] = "host-normal"
		delete(c.settings.HostDelays, host)
		return
	}
	change["op"], change["delay"] = "host-delay", body["delay"]
	c.settings.HostDelays[host], _ = body["delay"].(float64)
}

func (c *crawl) block(r *http.Request, body, change object) {
	if r.Method == http.MethodDelete {
		rule := r.FormValue("rule")
		change["op"], change["rule"] = "unblock", rule
		c.settings.Blocked = slices.DeleteFunc(c.settings.Blocked,
			func(have string) bool { return strings.TrimPrefix(have, "- ") == rule })
		return
	}
	rule, _ := body["rule"].(string)
	change["op"], change["rule"] = "block", rule
	c.settings.Blocked = append(c.settings.Blocked, "- "+rule)
}

func (c *crawl) budget(method, pld string, body, change object) {
	change["pld"] = pld
	if method == http.MethodDelete {
		change["op"] = "budget-free"
		delete(c.settings.Budgets, pld)
		return
	}
	n, _ := body["budget"].(float64)
	change["op"], change["budget"] = "budget", n
	c.settings.Budgets[pld] = int(n)
}

func (c *crawl) function(method string, body, change object) {
	change["op"] = "function"
	c.settings.Function = nil
	if method != http.MethodDelete {
		c.settings.Function = object{"name": body["function"], "default": body["default"], "max": body["max"]}
		change["function"] = c.settings.Function
	}
}

func (c *crawl) priority(method string, body, change object) {
	change["op"] = "priority"
	c.settings.Priority = nil
	if method != http.MethodDelete {
		c.settings.Priority = object{"name": body["priority"]}
		if weights, ok := body["weights"]; ok {
			c.settings.Priority["weights"] = weights
		}
		change["priority"] = c.settings.Priority
	}
}

func seeds(body, change object) object {
	list, _ := body["seeds"].([]any)
	refused := []object{}
	for _, v := range list {
		if line, _ := v.(string); strings.ContainsAny(line, " <>") {
			refused = append(refused, object{"line": line, "why": "it is no URL or host"})
		}
	}
	change["count"] = len(list) - len(refused)
	return object{"accepted": len(list) - len(refused), "refused": refused}
}
