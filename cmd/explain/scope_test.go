package explain

import (
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

func TestExplainScope(t *testing.T) {
	rules := cmdtest.File(t, "rules", "- prefix https://example.org/private/\n+ surt (org,example,\n# c\ndefault -\n")
	black := cmdtest.File(t, "black", "- pld spam.example\n+ net 192.0.2.64/28\n- net 192.0.2.0/24\n")
	out, _ := wantExit(t, term.ExitDone, "", "explain", "scope", "--rules", rules, "--blacklist", black,
		"--addr=192.0.2.1", "https://EXAMPLE.org/private/../x", "https://example.org/private/",
		"http://www.spam.example/")
	for _, want := range []string{"  rule       " + rules + ":2: + surt (org,example,\n",
		"  rule       " + rules + ":1: - prefix https://example.org/private/\n", "  blacklist  " + black +
			":1: - pld spam.example\n", "  blacklist  " + black + ":3: - net 192.0.2.0/24\n",
		"  rule       " + rules + ":4: default -\n", "  surt       https://(org,example,)/x\n",
		"  blacklisted: never contacted\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	in := `{"url":"http://example.org:8080/"}` + "\n" + `{"url":"http://a.example/","addr":"192.0.2.65"}` + "\n" +
		`{"url":"http://a.example/","addr":"x"}` + "\n" + `{"url":"mailto:x"}` + "\n{}\n"
	out, _ = wantExit(t, term.ExitDone, in, "explain", "scope", "--rules", rules, "--blacklist", black)
	want := strings.TrimPrefix(`
{"url":"http://example.org:8080/","surt":"http://(org,example,:8080)/","ruling":"include","rule":{"file":"RULES","line":2,"text":"+ surt (org,example,"},"blacklisted":false}
{"url":"http://a.example/","surt":"http://(example,a,)/","ruling":"exclude","rule":{"file":"RULES","line":4,"text":"default -"},"blacklisted":false,"blacklist_rule":{"file":"BLACK","line":2,"text":"+ net 192.0.2.64/28"}}
{"error":"\"x\" is not an IP address"}
{"error":"URL \"mailto:x\": weburl: scheme is neither http nor https"}
{"error":"no \"url\" is given"}
`, "\n")
	if out = strings.NewReplacer(rules, "RULES", black, "BLACK").Replace(out); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	wantExit(t, term.ExitUsage, "", "explain", "scope", "http://a.example/")
	out, errs := wantExit(t, term.ExitUsage, "", "explain", "scope", "--rules", black, "http://a.example/")
	if out != "" || !strings.Contains(errs, black+":2: net: ") || !strings.Contains(errs, black+":3: net: ") {
		t.Errorf("got %s%s", out, errs)
	}
}

// TestExplainScopeSites: the answer names the tables of --sites that apply, and no secret is needed for it.
func TestExplainScopeSites(t *testing.T) {
	file := cmdtest.File(t, "sites.toml", "[[site]]\npld = \"example.org\"\ndelay = \"9s\"\nbearer = "+
		"\"env:NOT_SET\"\ninsecure = false\n[[site]]\nsurt = \"(org,example,)/x\"\nmax-depth = 1\n")
	out, _ := wantExit(t, term.ExitDone, "", "explain", "scope", "--sites", file, "http://example.org/x/y",
		"http://other.example/")
	for _, want := range []string{"  settings   " + file + ":6: surt (org,example,)/x: max-depth = 1\n             " +
		file + ":1: pld example.org: bearer = env:NOT_SET, delay = 9s, insecure = false\n",
		"http://other.example/\n  undecided: --scope decides\n  url "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _ = wantExit(t, term.ExitDone, `{"url":"http://www.example.org/"}`+"\n", "explain", "scope", "--sites", file)
	if want := `"settings":[{"file":"` + file + `","line":1,"text":"pld example.org","settings":["bearer = ` +
		`env:NOT_SET","delay = 9s","insecure = false"]}]}`; !strings.Contains(out, want) {
		t.Errorf("no %s in %s", want, out)
	}
}
