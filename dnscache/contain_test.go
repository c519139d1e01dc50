package dnscache

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"
)

// TestReplyThatPanics: a reply that makes the parser panic counts as unreadable, and other names are still
// answered. It once ended the process.
func TestReplyThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		opt := Options{Family: Family4, Sockets: 1}
		opt.reading = func(name string) {
			if strings.HasPrefix(name, "bad") {
				panic("made up")
			}
		}
		opt.Panicked = func(name string, value any, stack []byte) {
			if strings.Contains(string(stack), "contain_test.go") {
				told = append(told, name)
			}
		}
		r, _ := pipeResolver(t, opt, func(req *dns.Msg, _ bool) *dns.Msg {
			return replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", req.Question[0].Name))
		}, nil)
		if got := lookup(t, r, "bad.test"); got != "timeout" {
			t.Errorf("a name whose replies make the parser panic: got %q, want timeout", got)
		}
		if got := lookup(t, r, "good.test"); got != "192.0.2.1" {
			t.Errorf("another name: got %q", got)
		}
		if s := r.Stats(); len(told) != 3 || s.Lies != 3 {
			t.Errorf("told of %q, %d lies; want 3 of each", told, s.Lies)
		}
	})
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
