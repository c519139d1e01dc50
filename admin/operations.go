package admin

import (
	"net/http"

	"drumbeat/state/changes"
)

// Operation is one operation of the interface.
type Operation struct {
	Method, Path string // as in http.ServeMux
	ID           string // of the OpenAPI description
	Summary      string
	Params       []Param
	Body         any // a value of the type of the body; nil for none
	Result       any // a value of the type of the result
	handle       func(*Server, *http.Request) (any, error)
}

// Changes reports whether an operation changes the crawl, and so needs the token.
func (op *Operation) Changes() bool { return op.Method != http.MethodGet }

// Param is a parameter of an operation.
type Param struct {
	Name, In, Summary string // In is path; "" for query
	Required          bool
	Integer           bool
	Enum              []string
}

var (
	hostParam  = Param{Name: "host", In: "path", Summary: "Name of a host.", Required: true}
	pldParam   = Param{Name: "pld", In: "path", Summary: "A PLD.", Required: true}
	limitParam = Param{Name: "limit", Summary: "Maximum number of entries; default 50.", Integer: true}
)

// yesOrNo are the values of a parameter that is a switch; the first one is the default.
var yesOrNo = []string{"false", "true"}

// operations is the table of all operations.
var operations = []Operation{
	{Method: "GET", Path: "/api/v1/status", ID: "status", Summary: "State of the crawl.", Result: Status{},
		handle: func(s *Server, _ *http.Request) (any, error) { return s.status() }},
	{Method: "GET", Path: "/api/v1/structures", ID: "structures", Summary: "Drums, queues and BEAST.",
		Result: Structures{}, handle: func(s *Server, _ *http.Request) (any, error) { return s.structures() }},
	{Method: "GET", Path: "/api/v1/cluster", ID: "cluster",
		Summary: "All nodes of a cluster, as they report themselves.", Result: Cluster{},
		handle: func(s *Server, _ *http.Request) (any, error) { return s.cluster() }},
	{Method: "GET", Path: "/api/v1/slots", ID: "slots", Summary: "Use of connection slots.", Result: Slots{},
		handle: func(s *Server, _ *http.Request) (any, error) { return s.slots() }},
	{Method: "GET", Path: "/api/v1/hosts", ID: "hosts", Summary: "Hosts with URLs in RAM, or hosts in trouble.",
		Result: Hosts{}, Params: []Param{{Name: "sort", Summary: "inram (default) or trouble.", Enum: hostOrders},
			limitParam}, handle: (*Server).hosts},
	{Method: "GET", Path: "/api/v1/hosts/{host}", ID: "host", Summary: "What the crawl knows about a host.",
		Result: Explanation{}, Params: []Param{hostParam},
		handle: func(s *Server, r *http.Request) (any, error) { return s.explainHost(r, r.PathValue("host")) }},
	{Method: "GET", Path: "/api/v1/plds", ID: "plds", Summary: "PLDs with the largest in-degrees, pages or bytes.",
		Result: PLDs{}, Params: []Param{{Name: "sort", Summary: "indegree (default), pages or bytes.", Enum: pldOrders},
			limitParam}, handle: (*Server).plds},
	{Method: "GET", Path: "/api/v1/plds/{pld}", ID: "pld", Summary: "What the crawl knows about a PLD.",
		Result: Explanation{}, Params: []Param{pldParam},
		handle: func(s *Server, r *http.Request) (any, error) { return s.explainHost(r, r.PathValue("pld")) }},
	{Method: "GET", Path: "/api/v1/explain", ID: "explain", Summary: "Explain a URL, a host, a PLD or an address.",
		Result: Explanation{}, Params: []Param{{Name: "url", Summary: "What to explain.", Required: true}},
		handle: (*Server).explain},
	{Method: "GET", Path: "/api/v1/limits", ID: "limits", Summary: "Limits and changes in force.", Result: Limits{},
		handle: func(s *Server, _ *http.Request) (any, error) { return s.limits() }},
	{Method: "GET", Path: "/api/v1/history", ID: "history", Summary: "Metrics over time, restarts included.",
		Result: History{},
		Params: []Param{{Name: "metrics",
			Summary: "Names as in /metrics without the prefix drumbeat_, separated by commas.", Required: true},
			{Name: "from", Summary: "RFC 3339; default one hour before to."},
			{Name: "to", Summary: "RFC 3339; default now."}, {Name: "points",
				Summary: "Maximum number of points; default 600.", Integer: true}}, handle: (*Server).history},
	{Method: "GET", Path: "/api/v1/log", ID: "log", Summary: "Last lines of the log.", Result: LogLines{},
		Params: []Param{{Name: "lines", Summary: "Maximum number of lines; default 200.", Integer: true}},
		handle: func(s *Server, r *http.Request) (any, error) {
			n, err := intParam(r, "lines", 200, tailLines)
			return LogLines{append([]Line{}, s.opt.Log.Last(n)...)}, err
		}},
	{Method: "GET", Path: "/api/v1/changes", ID: "changes", Summary: "Last changes of the operator, newest first.",
		Result: Changes{}, Params: []Param{limitParam}, handle: (*Server).changes},

	{Method: "POST", Path: "/api/v1/pause", ID: "pause", Summary: "Start no further requests.", Result: Change{},
		handle: simple(changes.OpPause)},
	{Method: "POST", Path: "/api/v1/resume", ID: "resume", Summary: "Continue after a pause.", Result: Change{},
		handle: simple(changes.OpResume)},
	{Method: "POST", Path: "/api/v1/checkpoint", ID: "checkpoint", Summary: "Write a checkpoint now.", Result: Change{},
		handle: simple(changes.OpCheckpoint)},
	{Method: "POST", Path: "/api/v1/enqueue", ID: "enqueue",
		Summary: "Fetch URLs before all others, as soon as politeness allows, even if fetched before.",
		Body:    Enqueue{}, Result: EnqueueTaken{}, handle: (*Server).enqueue},
	{Method: "GET", Path: "/api/v1/erase", ID: "erasures", Summary: "Requests to erase pages, those that wait first.",
		Result: EraseReport{}, handle: func(s *Server, _ *http.Request) (any, error) { return s.erasures() }},
	{Method: "POST", Path: "/api/v1/erase", ID: "erase",
		Summary: "Erase pages, and never fetch them again. The crawl pauses meanwhile.", Body: Erase{},
		Params: []Param{{Name: "order", Summary: "16 random hexadecimal digits: all nodes of the cluster carry out " +
			"the request, each once. Without it: this node alone."}}, Result: EraseTaken{}, handle: (*Server).erase},
	{Method: "POST", Path: "/api/v1/reload", ID: "reload",
		Summary: "Reload the files of rules, blacklist, sites and trusted PLDs, as on SIGHUP. If a file has an " +
			"error, nothing changes.", Body: Reload{}, Result: Reloaded{}, handle: (*Server).reload},
	{Method: "POST", Path: "/api/v1/drain", ID: "drain", Summary: "Queue no new links, or queue them again.",
		Body: Drain{}, Result: Change{}, handle: (*Server).drain},
	{Method: "POST", Path: "/api/v1/stop", ID: "stop", Summary: "Stop cleanly.", Result: Change{},
		handle: simple(changes.OpStop)},
	{Method: "PUT", Path: "/api/v1/limits", ID: "setLimits", Summary: "Change speed limits.", Body: LimitChange{},
		Result: Change{}, handle: (*Server).setLimits},
	{Method: "PUT", Path: "/api/v1/hosts/{host}/delay", ID: "setDelay", Summary: "Set the delay of a host.",
		Params: []Param{hostParam}, Body: Delay{}, Result: Change{}, handle: (*Server).setDelay},
	{Method: "DELETE", Path: "/api/v1/hosts/{host}/delay", ID: "clearDelay", Summary: "Remove the delay of a host.",
		Params: []Param{hostParam}, Result: Change{}, handle: func(s *Server, r *http.Request) (any, error) {
			return s.make(r, changes.Change{Op: changes.OpHostNormal, Host: r.PathValue("host")})
		}},
	{Method: "POST", Path: "/api/v1/seeds", ID: "addSeeds", Summary: "Add seeds. A text/plain body has one per line.",
		Body: Seeds{}, Result: SeedsTaken{}, handle: (*Server).addSeeds},
	{Method: "POST", Path: "/api/v1/blocks", ID: "block", Summary: "Block a host, a PLD or a network.", Body: Rule{},
		Result: Change{}, handle: (*Server).block},
	{Method: "DELETE", Path: "/api/v1/blocks", ID: "unblock",
		Summary: "Undo a block. URLs refused in the meantime stay refused.",
		Params:  []Param{{Name: "rule", Summary: "The rule as given.", Required: true}}, Result: Unblocked{},
		handle: (*Server).unblock},
	{Method: "PUT", Path: "/api/v1/plds/{pld}/budget", ID: "setBudget", Summary: "Fix the budget of a PLD.",
		Params: []Param{pldParam}, Body: Budget{}, Result: Change{}, handle: (*Server).setBudget},
	{Method: "DELETE", Path: "/api/v1/plds/{pld}/budget", ID: "clearBudget",
		Summary: "Return a PLD to the budget by its in-degree.",
		Params: []Param{pldParam, {Name: "requeue", Summary: "true: BEAST also places the URLs in its later queues " +
			"again.", Enum: yesOrNo}}, Result: Change{}, handle: (*Server).clearBudget},
	{Method: "PUT", Path: "/api/v1/budget", ID: "setFunction",
		Summary: "Change the budget function. URLs in BEAST's queues after the current one are placed again.",
		Body:    Function{}, Result: FunctionSet{}, handle: (*Server).setFunction},
	{Method: "DELETE", Path: "/api/v1/budget", ID: "clearFunction",
		Summary: "Return to the budget function set by flags.", Result: FunctionSet{},
		handle: func(s *Server, r *http.Request) (any, error) { return s.makeFunction(r, nil) }},
	{Method: "PUT", Path: "/api/v1/priority", ID: "setPriority",
		Summary: "Change which URLs go first. URLs in BEAST's queues after the current ones are placed again. Needs " +
			"a crawl with several lanes.", Body: Priority{}, Result: FunctionSet{}, handle: (*Server).setPriority},
	{Method: "DELETE", Path: "/api/v1/priority", ID: "clearPriority", Summary: "Return to the priority set by flags.",
		Result: FunctionSet{}, handle: func(s *Server, r *http.Request) (any, error) { return s.makePriority(r, nil) }},
}

// simple returns the handler of a change without parameters.
func simple(op changes.Op) func(*Server, *http.Request) (any, error) {
	return func(s *Server, r *http.Request) (any, error) { return s.make(r, changes.Change{Op: op}) }
}
