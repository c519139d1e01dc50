package flags

import (
	"strings"
	"testing"

	"drumbeat/cmd/term"
)

func TestUserAgent(t *testing.T) {
	if got, want := UserAgent("drumbeat", "a@example.org"),
		"drumbeat/"+term.Version()+" (+a@example.org)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWho: identities that are refused, and the headers that follow from a contact.
func TestWho(t *testing.T) {
	const mail, page = "ops@example.org", "https://example.org/bot"
	for _, c := range []struct {
		flags Who
		fault string
		from  string
		ua    string
	}{
		{Who{Contact: mail}, "", mail, "drumbeat/" + term.Version() + " (+ops@example.org)"},
		{Who{Contact: "mailto:" + mail}, "", mail, "drumbeat/" + term.Version() + " (+mailto:ops@example.org)"},
		{Who{Contact: page}, "", "", "drumbeat/" + term.Version() + " (+https://example.org/bot)"},
		{Who{Contact: page, From: mail}, "", mail, ""},
		{Who{Contact: mail, From: "none"}, "", "", ""},
		{Who{Contact: "https://example.org/@me"}, "", "", ""},
		{Who{Contact: page, UserAgent: "Mozilla/5.0 (compatible; drumbeat/1; +https://example.org/bot)"}, "", "",
			"Mozilla/5.0 (compatible; drumbeat/1; +https://example.org/bot)"},
		{Who{}, "--contact is missing", "", ""},
		{Who{Contact: " \t"}, "--contact is missing", "", ""},
		{Who{Contact: "a\r\nX: y"}, "is not allowed in a header", "", ""},
		{Who{Contact: mail, Agent: "bot1"}, "product token", "", ""},
		{Who{Contact: mail, Agent: "IRLbot"}, "another crawler", "", ""},
		{Who{Contact: mail, From: "Me <ops@example.org>"}, "not a mail address", "", ""},
		{Who{Contact: mail, From: "ops"}, "not a mail address", "", ""},
		{Who{Contact: mail, From: "a@b\r\nX: y"}, "not a mail address", "", ""},
		{Who{Contact: mail, UserAgent: "Mozilla/5.0 (+ops@example.org)"}, "lacks the token drumbeat", "", ""},
		{Who{Contact: mail, UserAgent: "drumbeater/1 (+ops@example.org)"}, "lacks the token", "", ""},
		{Who{Contact: mail, UserAgent: "my-drumbeat/1 (+ops@example.org)"}, "lacks the token", "", ""},
		{Who{Contact: mail, UserAgent: "drumbeat/1"}, "lacks the contact", "", ""},
		{Who{Contact: mail, UserAgent: "drumbeat/1 (+ops@example.org)\r\nX: y"}, "printable", "", ""},
		{Who{Contact: mail, UserAgent: "drumbeat ops@example.org" + strings.Repeat("x", 512)}, "at most 512", "", ""},
	} {
		w := c.flags
		if w.Agent == "" {
			w.Agent = DefaultAgent
		}
		err := w.Check()
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: got %v, want an error with %q", c.flags, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.flags, err)
		}
		if note := w.Complete(); note != "" || w.FromHeader() != c.from || c.ua != "" && w.UserAgent != c.ua {
			t.Errorf("%+v: got From %q, User-Agent %q, note %q; want %q and %q", c.flags, w.FromHeader(), w.UserAgent,
				note, c.from, c.ua)
		}
	}
	odd := Who{Agent: DefaultAgent, Contact: "me"}
	if err := odd.Check(); err != nil || !strings.Contains(odd.Complete(), "neither") {
		t.Errorf("no warning of a contact that is no address: %v", err)
	}
}
