package doctor

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"drumbeat/botauth"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// published is a host on loopback with all that an operator publishes, and its name server. Tests change it before
// they ask.
type published struct {
	url   string
	files map[string]*answer
	names map[string]string // from the name for reverse DNS to the name of an address
	addrs map[string]string // from a name to its address
	keys  botauth.Keys
	file  string // the key file

	directory *botauth.Directory // instead of that of the keys; nil: none
	dns       netip.AddrPort
}

// answer is what the server sends for a path.
type answer struct {
	status int
	header http.Header
	body   string
}

func publishAll(t *testing.T) *published {
	t.Helper()
	p := &published{files: map[string]*answer{},
		names: map[string]string{"1.0.0.127.in-addr.arpa": "crawl1.example.org"},
		addrs: map[string]string{"crawl1.example.org": "127.0.0.1"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := p.files[r.URL.Path]
		if a == nil {
			http.NotFound(w, r)
			return
		}
		for name, values := range a.header {
			w.Header()[name] = values
		}
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL + "/bot/"
	key, err := botauth.NewKey(time.Now().Add(-time.Hour))
	must(t, err)
	p.keys = botauth.Keys{key}
	p.file = filepath.Join(t.TempDir(), "bot.key")
	must(t, botauth.CreateKeys(p.file, p.keys))

	p.put("/bot/", "text/html", `<style>x</style><p>Survey-Bot of <a href="mailto:ops@example.org">us</a>`+
		`<a href=ip-ranges.json>addresses</a>`)
	p.put("/bot/ip-ranges.json", "application/json",
		`{"creationTime":"`+time.Now().UTC().Format(time.RFC3339)+`","prefixes":[{"ipv4Prefix":"127.0.0.0/30"}]}`)
	p.put("/bot/agent-card.json", "application/json", `{"client_id":"`+p.url+`agent-card.json","jwks_uri":"`+
		server.URL+botauth.DirectoryPath+`","web_bot_auth":{"rfc9309-product-token":"Survey-Bot",`+
		`"rfc9309-compliance":true,"ips_uri":"`+p.url+`ip-ranges.json"}}`)
	p.sign(t, time.Now(), time.Hour)
	p.startDNS(t)
	return p
}

func (p *published) put(path, kind, body string) {
	p.files[path] = &answer{200, http.Header{"Content-Type": {kind}}, body}
}

// sign publishes the directory, signed at a time for a span.
func (p *published) sign(t *testing.T, at time.Time, life time.Duration) {
	t.Helper()
	directory := p.keys.Directory(time.Now())
	if p.directory != nil {
		directory = *p.directory
	}
	body, err := directory.Encode()
	must(t, err)
	host := strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/bot/")
	proof, err := p.keys.Prove(host, body, at, at.Add(life))
	must(t, err)
	p.put(botauth.DirectoryPath, botauth.DirectoryType, string(body))
	h := p.files[botauth.DirectoryPath].header
	h.Set("Content-Digest", proof.ContentDigest)
	h.Set("Signature-Input", proof.SignatureInput)
	h.Set("Signature", proof.Signature)
}

// startDNS answers queries for names and addresses by UDP.
func (p *published) startDNS(t *testing.T) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	p.dns = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if err := m.Unpack(buf[:n]); err != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
			m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
			head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}
			if to := p.names[name]; to != "" && q.Type == dnsmessage.TypePTR {
				m.Answers = []dnsmessage.Resource{{Header: head,
					Body: &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(to + ".")}}}
			}
			if to := p.addrs[name]; to != "" && q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: head,
					Body: &dnsmessage.AResource{A: netip.MustParseAddr(to).As4()}}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteToUDPAddrPort(out, from)
			}
		}
	}()
}

// args are the arguments for a check.
func (p *published) args(more ...string) []string {
	return append([]string{"doctor", "--identity=" + p.url, "--agent=Survey-Bot", "--contact=ops@example.org",
		"--addresses=127.0.0.1", "--resolver=" + p.dns.String(), "--sign=" + p.file}, more...)
}

// check runs the checks and returns the results by name.
func (p *published) check(t *testing.T, more ...string) (map[string]finding, *identityReport) {
	t.Helper()
	var c commands
	cmdtest.Parse(t, &c, p.args(more...)...)
	i, err := c.Doctor.newIdentity(term.NewApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}))
	must(t, err)
	defer i.close()
	i.say = func(string) {}
	r := i.report(t.Context())
	rows := map[string]finding{}
	for _, f := range r.Checks {
		rows[f.Check] = f
	}
	return rows, r
}

// TestIdentity: all that is published right is ok, and all rules that can be judged are met.
func TestIdentity(t *testing.T) {
	p := publishAll(t)
	rows, r := p.check(t)
	for _, name := range []string{"bot page", "agent card", "addresses for programs", "key directory", "key of --sign",
		"addresses in the ranges", "reverse DNS"} {
		if f, is := rows[name]; !is || f.Status != ok || f.Now == "" {
			t.Errorf("%s: got %+v", name, f)
		}
	}
	if r.Problems != 0 || r.Warnings != 1 || rows["https"].Status != warn {
		t.Errorf("got %+v, want a warning for http alone", r)
	}
	met := 0
	for _, rule := range r.Networks {
		switch rule.Verdict {
		case verdict(holds):
			met++
			if rule.Fix != "" {
				t.Errorf("got %+v, met with a fix", rule)
			}
		case verdict(fails):
			t.Errorf("got %+v", rule)
		}
	}
	if met < 10 {
		t.Errorf("%d rules are met: %+v", met, r.Networks)
	}
	if now := rows["reverse DNS"].Now; now != "crawl1.example.org" {
		t.Errorf("got the name %s", now)
	}
}

// identityFault is a change of what is published, and the row, cause and remedy that it must have.
type identityFault struct {
	name   string
	change func(*testing.T, *published)
	row    string
	want   status
	now    string
	fix    string
}

// body returns a change of the body of a file.
func body(path, text string) func(*testing.T, *published) {
	return func(_ *testing.T, p *published) { p.files[path].body = text }
}

// answers returns a change of the status of a file.
func answers(path string, code int) func(*testing.T, *published) {
	return func(_ *testing.T, p *published) {
		p.files[path].status = code
		p.files[path].header.Set("Location", "/elsewhere")
	}
}

// card returns a change of the agent card.
func card(from, to string) func(*testing.T, *published) {
	return func(_ *testing.T, p *published) {
		a := p.files["/bot/agent-card.json"]
		a.body = strings.Replace(a.body, from, to, 1)
	}
}

// ranges returns a list of addresses.
func ranges(created, prefixes string) func(*testing.T, *published) {
	return body("/bot/ip-ranges.json", `{"creationTime":"`+created+`","prefixes":`+prefixes+`}`)
}

// tenMB is a body that no file may have.
var tenMB = strings.Repeat("x", 10<<20)

// gzipped returns a text in gzip.
func gzipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // into RAM
	_ = w.Close()
	return b.Bytes()
}

// TestIdentityPage: each fault of the page and the agent card has its row, a cause and a remedy.
func TestIdentityPage(t *testing.T) {
	tryFaults(t, []identityFault{
		{"page absent", answers("/bot/", 404), "bot page", fail, "status 404", "bot-page"},
		{"page moved", answers("/bot/", 301), "bot page", fail, `redirect to "/elsewhere"`, "give the URL"},
		{"page of 10 MB", body("/bot/", tenMB), "bot page", fail, "more than 1.0 MiB", ""},
		{"page of another", body("/bot/", "ops@example.org"), "bot page", fail, "without the token", "--agent"},
		{"page without contact", body("/bot/", "Survey-Bot"), "bot page", fail, "without a contact", "--contact"},
		{"clock", func(_ *testing.T, p *published) {
			p.files["/bot/"].header.Set("Date", "Sun, 01 Nov 2026 00:00:00 GMT")
		}, "clocks", warn, "apart", "timedatectl"},
		{"no card", answers("/bot/agent-card.json", 404), "agent card", warn, "status 404", "bot-page"},
		{"card is HTML", body("/bot/agent-card.json", "<html>"), "agent card", fail, "not an agent card in JSON", ""},
		{"card of another", card("agent-card.json", "x.json"), "agent card", fail, "client_id is", ""},
		{"card for another", card("Survey-Bot", "Other"), "agent card", fail, "rfc9309-product-token", ""},
		{"card ignores robots", card("true", "false"), "agent card", fail, "rfc9309-compliance", ""},
		{"card with two", card(`"web_bot_auth"`, `"jwks":{"keys":[]},"web_bot_auth"`), "agent card", fail, "both", ""},
		{"card leads to a file", card(`"ips_uri":"http:`, `"ips_uri":"file:`), "agent card", fail, "ips_uri is", ""},
	})
}

// TestIdentityRanges: the same for faults of the list of addresses, of the addresses and of their names.
func TestIdentityRanges(t *testing.T) {
	const row = "addresses for programs"
	today := time.Now().UTC().Format(time.RFC3339)
	tryFaults(t, []identityFault{
		{"no ranges", answers("/bot/ip-ranges.json", 404), row, warn, "404", "--addresses"},
		{"ranges moved", answers("/bot/ip-ranges.json", 302), row, warn, "redirect", ""},
		{"ranges of 10 MB", body("/bot/ip-ranges.json", tenMB), row, warn, "more than 256 KiB", ""},
		{"ranges no JSON", body("/bot/ip-ranges.json", "127.0.0.1"), row, fail, "not a JSON object", ""},
		{"ranges cut", body("/bot/ip-ranges.json", `{"creationTime":`), row, fail, "JSON object: it ends early", ""},
		{"ranges without", body("/bot/ip-ranges.json", `{}`), row, fail, "missing", ""},
		{"ranges old", ranges("2026-01-01T00:00:00Z", `[]`), row, warn, "2026-01-01", "once a day"},
		{"ranges of the future", ranges("2100-01-01T00:00:00Z", `[]`), row, fail, "", "clock"},
		{"ranges local time", ranges("2026-01-01T00:00:00", `[]`), row, fail, "not a time in UTC", ""},
		{"both versions", ranges(today, `[{"ipv4Prefix":"127.0.0.0/8","ipv6Prefix":"::/0"}]`), row, fail, "either", ""},
		{"bits", ranges(today, `[{"ipv4Prefix":"127.0.0.1/8"}]`), row, fail, "did you mean", ""},
		{"other version", ranges(today, `[{"ipv4Prefix":"::/8"}]`), row, fail, "other IP version", ""},
		{"unlinked", body("/bot/", "Survey-Bot ops@example.org"), row, warn, "not linked", "link to"},
		{"address not listed", ranges(today, `[{"ipv4Prefix":"192.0.2.0/24"}]`), "addresses in the ranges", fail,
			"without 127.0.0.1", "--addresses"},
		{"no name", func(_ *testing.T, p *published) { p.names = nil }, "reverse DNS", warn, "has no name", "PTR"},
		{"name of another", func(_ *testing.T, p *published) {
			p.addrs["crawl1.example.org"] = "192.0.2.9"
		}, "reverse DNS", warn, "127.0.0.1 is crawl1.example.org, which has other addresses", "PTR"},
	})
}

// TestIdentityKeys: the same for faults of the directory of keys.
func TestIdentityKeys(t *testing.T) {
	const row, directory = "key directory", botauth.DirectoryPath
	tryFaults(t, []identityFault{
		{"no directory", answers(directory, 404), row, fail, "status 404", "--sign FILE"},
		{"directory moved", answers(directory, 308), row, fail, "redirect", ""},
		{"directory of 10 MB", body(directory, tenMB), row, fail, "more than", ""},
		{"directory no JSON", body(directory, "{"), row, fail, "JSON", ""},
		{"directory without keys", body(directory, `{"keys":[]}`), row, fail, "no keys", ""},
		{"private key", func(_ *testing.T, p *published) {
			p.files[directory].body = strings.Replace(p.files[directory].body, `"kty"`, `"d":"AA","kty"`, 1)
		}, row, fail, "private", ""},
		{"media type", func(_ *testing.T, p *published) {
			p.files[directory].header.Set("Content-Type", "application/json")
		}, row, fail, `media type "application/json"`, "Content-Type"},
		{"changed", func(_ *testing.T, p *published) { p.files[directory].body += " " }, row, fail,
			"Content-Digest", "compression"},
		{"expired", func(t *testing.T, p *published) { p.sign(t, time.Now().Add(-2*time.Hour), time.Hour) },
			row, fail, "expired", "once a day"},
		{"clock ahead", func(t *testing.T, p *published) { p.sign(t, time.Now().Add(time.Hour), time.Hour) },
			row, fail, "future", "clock"},
		{"expires soon", func(t *testing.T, p *published) { p.sign(t, time.Now().Add(-24*time.Hour), 30*time.Hour) },
			row, warn, "1 proven, the signature by ", "once a day"},
		{"last key expires", func(t *testing.T, p *published) {
			keys, err := p.keys.Rotate(time.Now(), time.Now().Add(24*time.Hour))
			must(t, err)
			p.directory = &botauth.Directory{Keys: keys.Directory(time.Now()).Keys[1:]}
			p.sign(t, time.Now(), time.Hour)
		}, row, warn, "the last key expires at ", "keys rotate"},
		{"directory in a file", card(`"jwks_uri":"http:`, `"jwks_uri":"file:`), "agent card", fail, "jwks_uri is", ""},
		{"gzip bomb", func(_ *testing.T, p *published) {
			p.files[directory].header.Set("Content-Encoding", "gzip")
			p.files[directory].body = string(gzipped(tenMB))
		}, row, fail, "JSON", ""},
		{"unsigned", func(_ *testing.T, p *published) { p.files[directory].header.Del("Signature") }, row,
			warn, "0 proven", "--nginx"},
		{"another key", func(t *testing.T, p *published) {
			key, err := botauth.NewKey(time.Now().Add(-time.Hour))
			must(t, err)
			p.keys = botauth.Keys{key}
			p.sign(t, time.Now(), time.Hour)
		}, "key of --sign", fail, "has no key", "same --sign"},
		{"next key not listed", func(t *testing.T, p *published) {
			keys, err := p.keys.Rotate(time.Now(), time.Now().Add(time.Hour))
			must(t, err)
			must(t, botauth.ReplaceKeys(p.file, keys))
		}, "key of --sign", warn, "not in the directory", "before that time"},
	})
}

func tryFaults(t *testing.T, faults []identityFault) {
	for _, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			p := publishAll(t)
			c.change(t, p)
			rows, _ := p.check(t)
			r, fix := rows[c.row], strings.Join(rows[c.row].Fix, " ")
			if r.Status != c.want || !strings.Contains(r.Now, c.now) || !strings.Contains(fix, c.fix) || fix == "" ||
				len(r.Now) > 400 {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestIdentityUnreachable: a host that does not answer, one without an address, and name servers that are silent are
// told apart. The rules that rest on them cannot be judged.
func TestIdentityUnreachable(t *testing.T) {
	p := publishAll(t)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for _, c := range []struct{ url, want string }{{closed.URL, "connection refused"},
		{secure.URL, "certificate"},
		{"https://none.example/", "none.example: the name has no address"}} {
		rows, r := p.check(t, "--identity="+c.url)
		if f := rows["bot page"]; f.Status != fail || !strings.Contains(f.Now, c.want) {
			t.Errorf("%s: got %+v", c.url, f)
		}
		if r.Problems == 0 {
			t.Errorf("%s: got %+v", c.url, r)
		}
	}
	silent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer silent.Close()
	p.dns = silent.LocalAddr().(*net.UDPAddr).AddrPort()
	p.files["/bot/ip-ranges.json"].status = 404
	rows, r := p.check(t)
	if f := rows["reverse DNS"]; f.Status != unknown || !strings.Contains(f.Now, "do not answer") {
		t.Errorf("got %+v", f)
	}
	for _, rule := range r.Networks {
		if rule.Network == "other sites" && rule.Verdict != verdict(unjudged) {
			t.Errorf("got %+v, want no verdict", rule)
		}
	}
}

// TestIdentityCommand: the command prints a table or JSON, and its exit code is 1 if a check fails. It sends nothing
// for wrong flags.
func TestIdentityCommand(t *testing.T) {
	p := publishAll(t)
	out, _ := cmdtest.WantExit[commands](t, term.ExitDone, "", p.args()...)
	for _, want := range []string{"Identity at " + p.url, "ok    bot page", "met  ", "Cloudflare", "1 warning: https"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	p.files["/bot/"].status = 500
	out, _ = cmdtest.WantExit[commands](t, term.ExitFailure, "", p.args("--json")...)
	var got struct {
		Identity string
		Problems int
		Checks   []struct{ Check, Status, Now string }
		Networks []struct{ Network, Asks, Verdict, Fix string }
	}
	must(t, json.Unmarshal([]byte(out), &got))
	if got.Identity != p.url || got.Problems == 0 || got.Checks[0].Status != "fail" || len(got.Networks) < 10 {
		t.Errorf("got %s", out)
	}
	for _, n := range got.Networks {
		if n.Asks == "public documentation" && (n.Verdict != "not met" || n.Fix == "") {
			t.Errorf("got %+v", n)
		}
	}
	must(t, os.Chmod(p.file, 0o644))
	for _, c := range []struct{ arg, want string }{{"--identity=bot", "is not the URL of a page"},
		{"--no-network", "sends requests"}, {"--contact=", "--contact is missing"},
		{"--identity=" + p.url, "chmod 600"}, {"--addresses=127.0.0.1/8", "did you mean"}} {
		_, errs := cmdtest.WantExit[commands](t, term.ExitUsage, "", p.args(c.arg)...)
		if !strings.Contains(errs, c.want) {
			t.Errorf("%s: got %s", c.arg, errs)
		}
	}
}

// TestSpread: at most 64 addresses of large ranges are looked up, and the others are counted.
func TestSpread(t *testing.T) {
	list, left := spread([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/31"), netip.MustParsePrefix("10.0.0.0/24"),
		netip.MustParsePrefix("2001:db8::/32")})
	if len(list) != 64 || left != 1<<30 || list[2].String() != "10.0.0.0" {
		t.Errorf("got %d addresses, %d left, %v", len(list), left, list[:3])
	}
	if list, left := spread(nil); list != nil || left != 0 {
		t.Errorf("got %v, %d", list, left)
	}
}

// TestReverseName: names for reverse DNS are those of RFC 1035 and RFC 3596.
func TestReverseName(t *testing.T) {
	for addr, want := range map[string]string{"192.0.2.7": "7.2.0.192.in-addr.arpa.",
		"2001:db8::567:89ab": "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa."} {
		if got := reverseName(netip.MustParseAddr(addr)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzReadRanges: any body is refused, or has prefixes without superfluous bits.
func FuzzReadRanges(f *testing.F) {
	f.Add(`{"creationTime":"2026-11-29T12:00:00Z","prefixes":[{"ipv4Prefix":"192.0.2.0/28"},{"ipv6Prefix":"::/48"}]}`)
	f.Add(`{"creationTime":"x","prefixes":[{}]}{`)
	f.Fuzz(func(t *testing.T, body string) {
		created, prefixes, err := readRanges([]byte(body))
		if err != nil {
			return
		}
		if created.IsZero() && !strings.Contains(body, "0001-01-01") {
			t.Errorf("no time from %q", body)
		}
		for _, p := range prefixes {
			if !p.IsValid() || p != p.Masked() {
				t.Errorf("got %v", p)
			}
		}
	})
}
