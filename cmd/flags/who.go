package flags

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"strings"

	"drumbeat/cmd/term"
)

// Who identifies the crawler and its operator.
type Who struct {
	Agent     string `group:"manners" placeholder:"TOKEN" default:"${defaultAgent}" help:"Product token of User-Agent, which robots.txt groups are compared with: letters, - and _ (RFC 9309)."`
	Contact   string `group:"manners" placeholder:"WHO" help:"Mail address or URL of the person who answers for this crawl. Sent with every request. There is no default, and no crawl without it."`
	UserAgent string `group:"manners" placeholder:"TEXT" help:"User-Agent header in place of \"TOKEN/VERSION (+WHO)\". The token and the contact must stand in it."`
	From      string `group:"manners" placeholder:"MAIL" help:"Mail address for the From header (RFC 9110). none: no such header. Default: --contact if that is a mail address, else none."`
}

// maxUserAgent bounds --user-agent: servers cut or refuse longer ones.
const maxUserAgent = 512

// noFrom is the value of --from that sends none.
const noFrom = "none"

// Check returns the first fault.
func (w *Who) Check() error {
	w.Contact = strings.TrimSpace(w.Contact)
	if w.Contact == "" {
		return errors.New("--contact is missing: whoever runs a site must be able to reach whoever runs the crawl; " +
			"give a mail address or a URL, it is sent with every request")
	}
	if i := strings.IndexFunc(w.Contact, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()\"<>`, r) }); i >= 0 {
		return fmt.Errorf("--contact %q: %q can't stand in a header; give a mail address or a URL", w.Contact, w.Contact[i:i+1])
	}
	if err := checkAgent(w.Agent); err != nil {
		return err
	}
	if w.From != "" && w.From != noFrom && !isMail(w.From) {
		return fmt.Errorf("--from %q is no mail address such as crawl@example.org", w.From)
	}
	return w.checkUserAgent()
}

// checkAgent holds a product token against RFC 9309, 2.2.1.
func checkAgent(agent string) error {
	if agent == "" || strings.IndexFunc(agent, func(r rune) bool { return !inToken(r) }) >= 0 {
		return fmt.Errorf("--agent %q: a product token has letters, - and _ only (RFC 9309), or robots.txt can't name it", agent)
	}
	if strings.Contains(strings.ToLower(agent), "irlbot") {
		return fmt.Errorf("--agent %q: IRLbot was another crawler, of other people; sites have rules for it", agent)
	}
	return nil
}

// inToken tells the characters of a product token of robots.txt.
func inToken(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_'
}

// checkUserAgent: what robots.txt is compared with, and whom to ask, must be seen in the header.
func (w *Who) checkUserAgent() error {
	text := w.UserAgent
	switch {
	case text == "":
		return nil
	case len(text) > maxUserAgent || text != strings.TrimSpace(text) || strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) >= 0:
		return fmt.Errorf("--user-agent %.60q: want at most %d printable characters of ASCII, no blanks at the ends", text, maxUserAgent)
	case !hasWord(text, w.Agent):
		return fmt.Errorf("--user-agent %q doesn't name the token %s, which robots.txt is compared with (RFC 9309, 2.2.1); give --agent as well", text, w.Agent)
	case !strings.Contains(text, w.Contact):
		return fmt.Errorf("--user-agent %q doesn't name the contact %s", text, w.Contact)
	}
	return nil
}

// hasWord tells whether a token stands in text and isn't a part of a longer one.
func hasWord(text, token string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], token)
		if i < 0 {
			return false
		}
		begin, end := at+i, at+i+len(token)
		if (begin == 0 || !inToken(rune(text[begin-1]))) && (end == len(text) || !inToken(rune(text[end]))) {
			return true
		}
		at = begin + 1
	}
}

// Complete fills in what follows from the contact, and returns what the person should know about it.
func (w *Who) Complete() (note string) {
	if w.From == "" {
		w.From = noFrom
		if m := strings.TrimPrefix(w.Contact, "mailto:"); isMail(m) {
			w.From = m
		}
	}
	if w.UserAgent == "" {
		w.UserAgent = UserAgent(w.Agent, w.Contact)
	}
	if ContactLink(w.Contact) == "" {
		return fmt.Sprintf("--contact %s is neither a mail address nor a URL: site owners won't know what to do with it", w.Contact)
	}
	return ""
}

// FromHeader is the From header; "" for none.
func (w *Who) FromHeader() string {
	if w.From == noFrom {
		return ""
	}
	return w.From
}

// isMail tells whether s is a mail address without a name or anything else around it.
func isMail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && a.Name == "" && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// ContactLink is a URL for the contact: itself, or mailto: for a mail address; "" if it is neither.
func ContactLink(contact string) string {
	if m := strings.TrimPrefix(contact, "mailto:"); isMail(m) {
		return "mailto:" + m
	}
	if u, err := url.Parse(contact); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return contact
	}
	return ""
}

// UserAgent is the header that identifies the crawler and says where to complain. It is a product with its version and a comment, as RFC 9110
// (10.1.5) has it, and begins with the token of robots.txt. Browsers' "Mozilla/5.0 (compatible; …)" around it would add nothing
// true; --user-agent sets it anyway.
func UserAgent(agent, contact string) string {
	return fmt.Sprintf("%s/%s (+%s)", agent, term.Version, contact)
}
