package sites

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	toml "github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"drumbeat/internal/human"
	"drumbeat/weburl"
)

// Limits of Parse.
const (
	MaxBytes       = 16 << 20
	MaxRules       = 100_000
	MaxFaults      = 100 // listed one by one; Parse only counts the rest
	MaxHeaders     = 32
	MaxHeaderBytes = 8 << 10   // names and values of a rule's headers
	MaxValueBytes  = 4 << 10   // of a header's value or a secret
	MaxConnections = 16        // to a host, as in package polite
	MaxPriority    = 7         // the last lane, as in package beast
	MaxBudget      = 1<<24 - 1 // as in package star
)

// Options are what Parse needs besides the text.
type Options struct {
	Suffixes    *weburl.Suffixes
	KeepEscapes bool // URLs keep the escapes of the pages
	// Agent and Contact must be part of a site's user-agent, unless the operator owns the site; "" need not.
	Agent, Contact string
	// Env and File return what a secret's reference stands for. If both are nil, Parse checks the references
	// and leaves the secrets empty.
	Env  func(name string) (value string, ok bool)
	File func(name string) ([]byte, error)
}

// rule is a table [[site]] of the file.
type rule struct {
	file     string
	line     int
	text     string // such as "host www.example.org"
	target   target
	own      Site
	settings []described
	secret   string // name of a setting that is secret; "": none
}

// described is a setting in words.
type described struct {
	has  Setting
	text string
}

// Parse compiles the text of a file. The error joins all faults.
func Parse(name string, text []byte, opt Options) (*Set, error) {
	p := &parser{Options: opt, name: name, suffixes: opt.Suffixes, keepEscapes: opt.KeepEscapes,
		jars: map[string]bool{}, budgets: map[string]uint32{},
		resolver: weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: !opt.KeepEscapes})}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%s: has %d bytes; the limit is %d", name, len(text), MaxBytes)
	}
	all := map[string]any{}
	var fault *toml.DecodeError
	if err := toml.Unmarshal(text, &all); errors.As(err, &fault) {
		line, column := fault.Position()
		return nil, fmt.Errorf("%s:%d:%d: %s", name, line, column, strings.TrimPrefix(fault.Error(), "toml: "))
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.places(text)
	list, ok := all["site"].([]any)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key != "site" {
			p.fault(p.top[key], "%.60q: want only tables [[site]]", key)
		} else if !ok {
			p.fault(p.top[key], "site: want tables with double brackets, [[site]]")
		}
	}
	if len(list) > MaxRules {
		p.fault(0, "more than %d tables [[site]]", MaxRules)
		list = nil
	}
	rules := make([]rule, 0, len(list))
	for i, one := range list {
		if r, ok := p.rule(i, one); ok {
			rules = append(rules, r)
		}
	}
	set := p.compile(rules)
	if len(p.faults) > 0 {
		if p.more > 0 {
			p.faults = append(p.faults, fmt.Errorf("and %s",
				human.Counted(p.more, "more fault", "more faults")))
		}
		return nil, errors.Join(p.faults...)
	}
	return set, nil
}

type parser struct {
	Options
	name        string
	suffixes    *weburl.Suffixes
	keepEscapes bool
	resolver    *weburl.Resolver
	faults      []error
	more        int
	sites       []place        // of the tables, in order
	top         map[string]int // lines of the other keys
	jars        map[string]bool
	budgets     map[string]uint32
}

// place has the lines of a table.
type place struct {
	line int
	keys []keyLine
}

type keyLine struct {
	key  string
	line int
}

// of returns the line of a key, or of the table.
func (l *place) of(key string) int {
	for _, k := range l.keys {
		if k.key == key {
			return k.line
		}
	}
	return l.line
}

// fault adds a fault; line 0 is the whole file.
func (p *parser) fault(line int, format string, args ...any) {
	if len(p.faults) >= MaxFaults {
		p.more++
		return
	}
	at := p.name
	if line > 0 {
		at = fmt.Sprintf("%s:%d", p.name, line)
	}
	p.faults = append(p.faults, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

// places finds the lines of the tables and keys of a valid document.
func (p *parser) places(text []byte) {
	p.top = map[string]int{}
	var u unstable.Parser
	u.Reset(text)
	line, at, inSite := 1, 0, false
	for u.NextExpression() {
		e := u.Expression()
		keys := e.Key()
		if !keys.Next() {
			continue
		}
		first := keys.Node()
		offset := int(first.Raw.Offset)
		line, at = line+bytes.Count(text[at:max(at, offset)], []byte("\n")), max(at, offset)
		name, second := string(first.Data), ""
		if keys.Next() {
			second = string(keys.Node().Data)
		}
		switch {
		case e.Kind == unstable.ArrayTable && name == "site" && second == "":
			p.sites, inSite = append(p.sites, place{line: line}), true
		case e.Kind == unstable.KeyValue && inSite:
			last := &p.sites[len(p.sites)-1]
			last.keys = append(last.keys, keyLine{name, line})
		case e.Kind != unstable.KeyValue && name == "site" && second != "" && len(p.sites) > 0:
			last := &p.sites[len(p.sites)-1]
			last.keys, inSite = append(last.keys, keyLine{second, line}), false
		default:
			inSite = inSite && e.Kind == unstable.KeyValue
			if p.top[name] == 0 {
				p.top[name] = line
			}
		}
	}
}

// rule converts table i. It returns false if the table names no site.
func (p *parser) rule(i int, value any) (r rule, ok bool) {
	at := place{line: p.top["site"]} // of tables in another form, such as site = [{…}]
	if i < len(p.sites) {
		at = p.sites[i]
	}
	table, ok := value.(map[string]any)
	if !ok {
		p.fault(at.line, "want a table, [[site]]")
		return r, false
	}
	r = rule{file: p.name, line: at.line}
	if !p.target(&r, &at, table) {
		return r, false
	}
	before := len(p.faults) + p.more
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if slices.Contains(selectors[:], key) {
			continue
		}
		if key == "headers" {
			continue
		}
		s, known := settings[key]
		switch {
		case !known:
			p.fault(at.of(key), "%.60q: want host, pld or surt, and settings: %s", key, knownSettings())
			continue
		case s.whole && !r.target.whole():
			p.fault(at.of(key), "%s: applies to a whole host; "+
				"want it under host, pld, or a surt without https, port and path", key)
			continue
		}
		text, err := s.set(p, &r, table[key])
		if err != nil {
			p.fault(at.of(key), "%s: %s", key, err)
			continue
		}
		r.own.Has |= s.has
		r.settings = append(r.settings, described{s.has, key + " = " + text})
	}
	if value, ok := table["headers"]; ok {
		p.headers(&r, &at, value)
	}
	if r.own.Has == 0 && before == len(p.faults)+p.more {
		p.fault(at.line, "%s: has no settings", r.text)
	}
	return r, true
}

// selectors are the keys that name a site.
var selectors = [...]string{"host", "pld", "surt"}

// target finds the site that a table names.
func (p *parser) target(r *rule, at *place, table map[string]any) bool {
	given := ""
	for _, key := range selectors {
		value, ok := table[key]
		if !ok {
			continue
		}
		if given != "" {
			p.fault(at.of(key), "%s: the table has %s already; want one of host, pld and surt", key, given)
			return false
		}
		given = key
		text, ok := value.(string)
		if !ok {
			p.fault(at.of(key), "%s: want a string in quotes", key)
			return false
		}
		parse := map[string]func(string) (target, error){
			"host": p.hostTarget, "pld": p.pldTarget, "surt": p.surtTarget}[key]
		var err error
		if r.target, err = parse(text); err != nil {
			p.fault(at.of(key), "%s %.100q: %s", key, text, err)
			return false
		}
		r.text = key + " " + text
	}
	if given == "" {
		p.fault(at.line, "the table names no site: want host, pld or surt")
	}
	return given != ""
}

// compile resolves which rules override which.
func (p *parser) compile(rules []rule) *Set {
	known := map[target]int{}
	anySecure := false
	for i := range rules {
		key := rules[i].target
		key.pld, key.suffix = false, false
		if first := known[key]; first > 0 {
			p.fault(rules[i].line, "%s: second table for this site; the first is on line %d", rules[i].text, first)
		} else {
			known[key] = rules[i].line
		}
		anySecure = anySecure || key.secure
	}
	// Shorter rules come before longer ones, and those for both schemes before those for https alone.
	order := make([]*rule, len(rules))
	for i := range rules {
		order[i] = &rules[i]
	}
	slices.SortStableFunc(order, func(a, b *rule) int {
		x, y := &a.target, &b.target
		n := cmp.Compare(min(x.form, originForm), min(y.form, originForm))
		if n == 0 && x.form == domainForm {
			n = cmp.Compare(strings.Count(x.host, "."), strings.Count(y.host, "."))
		}
		secure := func(t *target) int {
			if t.secure {
				return 1
			}
			return 0
		}
		return cmp.Or(n, cmp.Compare(x.port, y.port), strings.Compare(x.path, y.path),
			cmp.Compare(secure(x), secure(y)))
	})
	s := &Set{name: p.name, plain: p.table(order, false), jars: p.jars, budgets: p.budgets}
	for i := range rules {
		s.secrets = s.secrets || rules[i].secret != ""
		if r := &rules[i]; r.own.Has&HasPriority != 0 {
			if s.priorities == nil {
				s.priorities = map[string]int{}
			}
			s.priorities[r.text] = r.own.Priority
		}
	}
	if s.secure = s.plain; anySecure {
		s.secure = p.table(order, true)
	}
	s.stats = Stats{Rules: len(rules), Bytes: s.plain.bytes()}
	if anySecure {
		s.stats.Bytes += s.secure.bytes()
	}
	for i := range rules {
		s.stats.Bytes += rules[i].bytes()
	}
	return s
}

// table makes the table of a scheme. Owners are checked in the table of http, and rules for https alone in the
// other.
func (p *parser) table(order []*rule, secure bool) *table {
	t := &table{hosts: map[string]origins{}, domains: map[string]*Site{}}
	for _, r := range order {
		if r.target.secure && !secure {
			continue
		}
		site := t.add(r)
		t.sites++
		if r.target.secure == secure || !secure {
			p.checkOwner(r, site)
			p.checkSecrets(r, site)
		}
	}
	return t
}

// add adds a rule, whose shorter rules have been added.
func (t *table) add(r *rule) *Site {
	g := &r.target
	if g.form == domainForm {
		site := r.over(t.domain([]byte(g.host)))
		t.domains[g.host] = site
		t.deepest = max(t.deepest, 1+strings.Count(g.host, "."))
		return site
	}
	o, ok := t.hosts[g.host]
	if !ok {
		o.any = t.domain([]byte(g.host))
	}
	var site *Site
	if g.form == hostForm {
		o.any = r.over(o.any)
		site = o.any
	} else {
		site = o.add(r)
	}
	t.hosts[g.host] = o
	return site
}

// add adds the rule of an origin or a path, which sorts after all that were added.
func (o *origins) add(r *rule) *Site {
	port, path := r.target.port, r.target.path
	parent := int32(len(o.paths)) - 1
	if parent >= 0 && o.paths[parent].port == port && o.paths[parent].path == path { // for https alone, over both
		last := &o.paths[parent]
		last.site = r.over(last.site)
		return last.site
	}
	for parent >= 0 && (o.paths[parent].port != port || !strings.HasPrefix(path, o.paths[parent].path)) {
		parent = o.paths[parent].parent
	}
	above := o.any
	if parent >= 0 {
		above = o.paths[parent].site
	}
	site := r.over(above)
	o.paths = append(o.paths, pathRule{path, site, parent, port})
	return site
}
