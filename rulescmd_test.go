package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drumbeat/internal/simweb"
	"drumbeat/weburl"
)

func ruleFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExplainScope(t *testing.T) {
	rules := ruleFile(t, "rules", "- prefix https://example.org/private/\n+ surt (org,example,\n# c\ndefault -\n")
	black := ruleFile(t, "black", "- pld spam.example\n+ net 192.0.2.64/28\n- net 192.0.2.0/24\n")
	out, _ := wantExit(t, exitDone, "", "explain", "scope", "--rules", rules, "--blacklist", black, "--addr=192.0.2.1",
		"https://EXAMPLE.org/private/../x", "https://example.org/private/", "http://www.spam.example/")
	for _, want := range []string{"  rule       " + rules + ":2: + surt (org,example,\n", "  rule       " + rules + ":1: - prefix https://example.org/private/\n",
		"  blacklist  " + black + ":1: - pld spam.example\n", "  blacklist  " + black + ":3: - net 192.0.2.0/24\n",
		"  rule       " + rules + ":4: default -\n", "  surt       https://(org,example,)/x\n", "  blacklisted: nothing is asked of it\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	in := `{"url":"http://example.org:8080/"}` + "\n" + `{"url":"http://a.example/","addr":"192.0.2.65"}` + "\n" +
		`{"url":"http://a.example/","addr":"x"}` + "\n" + `{"url":"mailto:x"}` + "\n{}\n"
	out, _ = wantExit(t, exitDone, in, "explain", "scope", "--rules", rules, "--blacklist", black)
	want := `{"url":"http://example.org:8080/","surt":"http://(org,example,:8080)/","ruling":"include","rule":{"file":"RULES","line":2,"text":"+ surt (org,example,"},"blacklisted":false}
{"url":"http://a.example/","surt":"http://(example,a,)/","ruling":"exclude","rule":{"file":"RULES","line":4,"text":"default -"},"blacklisted":false,"blacklist_rule":{"file":"BLACK","line":2,"text":"+ net 192.0.2.64/28"}}
{"error":"\"x\" is no address"}
{"error":"URL \"mailto:x\": weburl: scheme is neither http nor https"}
{"error":"no \"url\" is given"}
`
	if out = strings.NewReplacer(rules, "RULES", black, "BLACK").Replace(out); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	wantExit(t, exitUsage, "", "explain", "scope", "http://a.example/")
	out, errs := wantExit(t, exitUsage, "", "explain", "scope", "--rules", black, "http://a.example/")
	if out != "" || !strings.Contains(errs, black+":2: net: ") || !strings.Contains(errs, black+":3: net: ") {
		t.Errorf("got %s%s", out, errs)
	}
}

// TestCrawlWithRules: the flags reach the crawl, --print-config shows what is in force, and faults end it before it begins.
func TestCrawlWithRules(t *testing.T) {
	web, flags := smallWeb(t, nil)
	seeds := web.Seeds()
	out1, out2 := string(weburl.Split([]byte(seeds[0])).Host), string(weburl.Split([]byte(seeds[1])).Host)
	rules, black := ruleFile(t, "rules", "- host "+out1+"\n"), ruleFile(t, "black", "- host "+out2+"\n")
	flags = append(flags, "--seeds", seedFile(t, web), "--dir="+t.TempDir()+"/c", "--rules", rules, "--blacklist", black)
	out, _ := wantExit(t, exitDone, "", append(flags, "--print-config")...)
	for _, want := range []string{"--rules=" + rules + "\n", "--blacklist=" + black + "\n", "# rules: 1 rule (1 host, ", "# blacklist: 1 rule (1 host, "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, errs := wantExit(t, exitUsage, "", append(flags, "--rules", ruleFile(t, "bad", "x\n"), "--blacklist=no-such-file")...)
	if !strings.Contains(errs, "bad:1: ") || !strings.Contains(errs, "no-such-file") {
		t.Error(errs)
	}
	out, _ = wantExit(t, exitDone, "", flags...)
	if !strings.Contains(out, "by rules ") || !strings.Contains(out, "blacklisted ") {
		t.Errorf("no links by rules or blacklisted in\n%s", out)
	}
	fetches := web.Log().Fetches()
	for url := range fetches {
		if host := string(weburl.Split([]byte(url)).Host); host == out1 || host == out2 {
			t.Errorf("fetched %s", url)
		}
	}
	if len(fetches) < 50 {
		t.Errorf("%d URLs fetched", len(fetches))
	}
}

// TestCrawlReadsAgain: a hangup has a running crawl read its files again; faults are logged, all of them.
func TestCrawlReadsAgain(t *testing.T) {
	web, flags := smallWeb(t, func(o *simweb.Options) { o.Pages = 600 })
	rules := ruleFile(t, "rules", "default +\n")
	flags = append(flags, "--seeds", seedFile(t, web), "--dir="+t.TempDir()+"/c", "--rules", rules)
	var errs bytes.Buffer
	again, ended := make(chan struct{}), make(chan struct{})
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs, stopOnSignal: stopOnSignal,
		onHangup: func() (<-chan struct{}, func()) {
			go func() {
				send := func() {
					select {
					case again <- struct{}{}:
					case <-ended:
					}
				}
				send() // once this has been taken the crawl has read the files as they were
				if err := os.WriteFile(rules, []byte("- hots x\n- pld y\n"), 0o600); err != nil {
					t.Error(err)
				}
				send()
			}()
			return again, func() { close(ended) }
		}}
	if code := a.run(flags); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
	for _, want := range []string{"rules and blacklist stay as they were", "rules:1: ", "rules:2: "} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no %q in\n%s", want, errs.String())
		}
	}
}

// TestHangup: SIGHUP asks for the files to be read again, and doesn't end the program.
func TestHangup(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"=hangup")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"ready", "again"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
		if want == "again" {
			break
		}
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
