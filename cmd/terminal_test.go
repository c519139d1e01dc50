package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// checkTerminal fails if text contains a control sequence for terminals.
func checkTerminal(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) {
		t.Errorf("%s prints %q", what, text)
	}
}

// TestTerminalIsSafe: no command prints control sequences from a file, an argument or a line of input.
func TestTerminalIsSafe(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;x\x07\r\x00\x7f\u009b31m\u2028\u202e\x9b\xff"
	file := filepath.Join(t.TempDir(), "f")
	text := "User-agent: *" + evil + "\nDisallow: /" + evil + "*\nSitemap: http://x/" + evil +
		"\nCrawl-delay: " + evil +
		"\n<base href='http://" + evil + ".test/" + evil + "'><meta charset='" + evil + "'><a href='/" + evil +
		"'><a href='http://h" + evil + "/'>"
	must(t, os.WriteFile(file, []byte(text), 0o600))
	line, err := json.Marshal(map[string]string{"robots": evil, "url": evil, "base": evil, "ref": evil, "host": evil,
		"html": evil, "agent": evil})
	must(t, err)
	dir := filepath.Join(t.TempDir(), "c")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "drumbeat-dir.json"), []byte(evil), 0o600))
	seeds := filepath.Join(t.TempDir(), "seeds")
	must(t, os.WriteFile(seeds, []byte("http://bad host"+evil+"/\nx:"+evil+"\n"+evil+"\n"), 0o600))
	crawl := []string{"crawl", "--contact=a@b.test", "--resolver=127.0.0.1:1", "--ram=192MiB", "--linger=0s",
		"--max-time=3s", "--host-delay=1ms"}
	for _, c := range []struct {
		input string
		args  []string
	}{
		{"", []string{"explain", "robots", file, "/" + evil, "http://x/" + evil}},
		{string(line), []string{"explain", "robots"}}, {"", []string{"explain", "url", evil, "http://x/" + evil,
			"http://" + evil, "--base", "http://x/" + evil}}, {string(line), []string{"explain", "url"}},
		{"", []string{"explain", "links", file, "--content-type", evil}}, {string(line), []string{"explain", "links"}},
		{"", []string{"explain", "links", file + evil}}, {evil + "\n", []string{"explain", "links"}},
		{"", []string{"explain", "pld", "x" + evil}}, {string(line), []string{"explain", "pld"}},
		{"", []string{"explain", "pld", "é.test"}}, {"", []string{"audit", dir}},
		{"", []string{"audit", "/no/" + evil}}, {"", []string{evil}}, {"", []string{"crawl", "--" + evil}},
		{"", append(crawl, "--seeds", seeds, "--dir", filepath.Join(t.TempDir(), "new"))},
		{"", append(crawl, "--seeds", "/no/"+evil, "--dir", filepath.Join(t.TempDir(), "new"))},
		{"", append(crawl, "--seeds", seeds, "--dir", dir)},
	} {
		_, out, errs := runApp(t, c.input, c.args...)
		if out+errs == "" {
			t.Errorf("%q prints nothing", c.args)
		}
		checkTerminal(t, strings.Join(c.args[:min(2, len(c.args))], " "), out)
		checkTerminal(t, "error of "+strings.Join(c.args[:min(2, len(c.args))], " "), errs)
	}
}
