package cmd

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"drumbeat/cmd/term"
)

// TestReadmeCommands: each command of README works as it is printed, in its order, in an empty directory. Variables of
// the environment replace the web by a server on loopback, which has all hosts, and the delays by none.
func TestReadmeCommands(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	must(t, err)
	commands := shellCommands(string(page))
	if len(commands) < 7 {
		t.Fatalf("README has %d commands: %q", len(commands), commands)
	}
	readmeWeb(t)
	t.Chdir(t.TempDir())
	for _, args := range commands {
		wantExit(t, term.ExitDone, "", args...)
	}
	for _, name := range []string{"report.html", "my.example.html", "links", "drumbeat-crawl/warc", "example/warc",
		"my-site/state"} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("after the commands: %v", err)
		}
	}
}

// shellCommands returns the arguments of the lines of a page that run ./drumbeat.
func shellCommands(page string) (commands [][]string) {
	page = strings.ReplaceAll(page, "\\\n", " ")
	for line := range strings.Lines(page) {
		command, ok := strings.CutPrefix(line, "    ./drumbeat ")
		if !ok {
			continue
		}
		command, _, _ = strings.Cut(command, " #")
		commands = append(commands, shellWords(command))
	}
	return commands
}

// shellWord is a word of a command: characters, and parts in quotes.
var shellWord = regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`)

// shellWords splits a command at spaces that are not quoted.
func shellWords(command string) (args []string) {
	for _, word := range shellWord.FindAllString(command, -1) {
		args = append(args, strings.NewReplacer(`"`, "", "'", "").Replace(word))
	}
	return args
}

// readmeWeb serves every host by HTTP, HTTPS and DNS on loopback, and sets variables for crawls of it.
func readmeWeb(t *testing.T) {
	t.Helper()
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" && r.URL.Path != "/x" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<title>%s</title><p>Some text of the page.</p><a href="/x">x</a> <a href="/gone">gone</a>`,
			r.Host)
	})
	plain, secure := httptest.NewServer(pages), httptest.NewTLSServer(pages)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	port := func(url string) string { return url[strings.LastIndex(url, ":")+1:] }
	for name, value := range map[string]string{
		"MAP_PORT": "80=" + port(plain.URL) + ",443=" + port(secure.URL), "RESOLVER": loopbackNames(t),
		"ALLOW_NET": "127.0.0.1", "HOST_DELAY": "0s", "SERVER_DELAY": "0s", "PLD_DELAY": "0s", "LINGER": "0s",
		"CONNECTIONS": "8", "LOG_LEVEL": "warn",
	} {
		t.Setenv("DRUMBEAT_"+name, value)
	}
}

// loopbackNames starts a name server for which every name has the address 127.0.0.1.
func loopbackNames(t *testing.T) (addr string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60},
					Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

// TestShellCommands: the lines of a page that are commands, with quotes, comments and continued lines.
func TestShellCommands(t *testing.T) {
	got := shellCommands("text\n\n    ./drumbeat a --b 'c d' '' # e\n    ./drumbeat f \\\n        \"g h\" i\n" +
		"    other\n")
	if fmt.Sprintf("%q", got) != `[["a" "--b" "c d" ""] ["f" "g h" "i"]]` {
		t.Errorf("got %q", got)
	}
}
