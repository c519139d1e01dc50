package hook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// modeVar makes the test binary a hook that behaves as its value says.
const modeVar = "DRUMBEAT_TEST_HOOK"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVar); mode != "" {
		behave(mode)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// behave is the hook. A mode is a word, and perhaps a path.
func behave(mode string) {
	mode, path, _ := strings.Cut(mode, " ")
	in := bufio.NewReaderSize(os.Stdin, 4<<20)
	hang := func() { <-time.After(time.Hour) }
	switch mode {
	case "mute":
		hang()
	case "owner":
		own(path)
		hang()
	}
	if mode == "exits" {
		return
	}
	if _, err := in.ReadBytes('\n'); err != nil {
		return
	}
	if mode == "once" { // greets in its first life only
		if _, err := os.Stat(path); err == nil {
			return
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			panic(err)
		}
	}
	if mode == "old" {
		fmt.Println(`{"hook":0}`)
		hang()
	}
	fmt.Println(`{"hook":1,"want":["headers","body","text","links"]}`)
	if mode == "talks" {
		fmt.Println(`{"id":1}`)
	}
	if mode == "stays" { // after the end of its input
		if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			panic(err)
		}
	}
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if mode == "stays" {
				hang()
			}
			return
		}
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		answer(mode, n, &r, hang)
	}
}

// own is a program with a hook that stays. It says when it has asked it.
func own(path string) {
	self, err := os.Executable()
	if err == nil {
		err = os.Setenv(modeVar, "stays "+path)
	}
	if err != nil {
		panic(err)
	}
	p, err := Open(context.Background(), Options{Command: []string{self}, Procs: 1, Timeout: time.Minute})
	if err != nil {
		panic(err)
	}
	_, o := p.Ask(context.Background(), &Request{URL: "http://a.test/"})
	fmt.Println("outcome", o)
}

// answer writes the answer to the nth request.
func answer(mode string, n int, r *Request, hang func()) {
	say := func(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
	switch mode {
	case "hangs":
		hang()
	case "third":
		if n == 3 {
			os.Exit(3)
		}
		say(`{"id":%d}`, r.ID)
	case "once":
		os.Exit(1)
	case "garbage":
		say("%s", "\x00\xff{]")
	case "endless":
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
				os.Exit(1)
			}
		}
	case "wrongid":
		say(`{"id":%d}`, r.ID+1)
	case "half":
		fmt.Fprintf(os.Stdout, `{"id":%d`, r.ID)
		os.Exit(0)
	case "score":
		say(`{"id":%d,"score":1.5}`, r.ID)
	case "loud":
		for i := range 1000 {
			fmt.Fprintln(os.Stderr, i, strings.Repeat("noise ", 1000))
		}
		say(`{"id":%d}`, r.ID)
	default:
		fields, err := json.Marshal(map[string]any{"mime": r.MIME, "body": len(r.Body), "text": r.Text,
			"pid": os.Getpid()})
		if err != nil {
			panic(err)
		}
		say(`{"id":%d,"keep":false,"follow":false,"score":0.25,"links":["/a",%q],"fields":%s,"more":1}`, r.ID,
			r.URL+"b", fields)
	}
}

// notes collects what a pool notes.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(warn bool, message string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintln(warn, message, args))
}

func (n *notes) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, "")
}

// open opens a pool of processes of a mode. The notes are complete once the test has called Close.
func open(t *testing.T, mode string, opt Options) (*Pool, *notes, error) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	t.Setenv(modeVar, mode)
	n := new(notes)
	opt.Command, opt.Note = []string{self}, n.add
	if opt.Procs == 0 {
		opt.Procs = 1
	}
	if opt.Timeout == 0 {
		opt.Timeout = time.Minute // a loaded machine is slow
	}
	p, err := Open(t.Context(), opt)
	return p, n, err
}

func mustOpen(t *testing.T, mode string, opt Options) (*Pool, *notes) {
	t.Helper()
	p, n, err := open(t, mode, opt)
	must(t, err)
	t.Cleanup(p.Close)
	return p, n
}

// TestAnswers: requests and answers arrive whole, from several processes at once.
func TestAnswers(t *testing.T) {
	p, _ := mustOpen(t, "answers", Options{Procs: 3})
	if w := p.Wants(); w != (Wants{true, true, true, true}) {
		t.Errorf("wants %+v", w)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	pids := map[float64]bool{}
	for i := range 60 {
		wg.Go(func() {
			body := bytes.Repeat([]byte{byte(i), 0xff}, i*5000)
			r := Request{URL: fmt.Sprintf("http://a.test/%d?<&>\u2028", i), Status: 200, MIME: "text/html", Body: body,
				Text: "a\nb\"\xff", Headers: [][2]string{{"A", "\x80"}}}
			a, outcome := p.Ask(t.Context(), &r)
			if outcome != Answered {
				t.Errorf("request %d: outcome %d", i, outcome)
				return
			}
			var f struct {
				MIME, Text string
				Body       int
				PID        float64
			}
			if err := json.Unmarshal(a.Fields, &f); err != nil {
				t.Error(err)
			}
			if a.Keep || a.Follow || !a.Scored || a.Score != 0.25 ||
				!slices.Equal(a.Links, []string{"/a", r.URL + "b"}) || f.MIME != "text/html" ||
				f.Text != "a\nb\"\ufffd" || f.Body != len(body) {
				t.Errorf("request %d: %+v, fields %s", i, a, a.Fields)
			}
			mu.Lock()
			pids[f.PID] = true
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(pids) == 0 || len(pids) > 3 || p.TakeRestarts() != 0 {
		t.Errorf("%d processes answered, or restarts", len(pids))
	}
}

// TestBadProcesses: whatever a process does, each request has its outcome, and another process takes over.
func TestBadProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for mode, tt := range map[string]struct {
		want     string // outcomes by their first letters: Answered, Timed out, Failed, Refused, Unasked
		restarts bool
		note     string
	}{
		"hangs":   {"TT", true, errTimeout.Error()},
		"third":   {"AAFAAFAAFAA", true, errEnded.Error()},
		"garbage": {"FF", true, "its answer"},
		"endless": {"FF", true, errLong.Error()},
		"wrongid": {"FF", true, "lacks the id"},
		"half":    {"FF", true, errEnded.Error()},
		"score":   {"RRRR", false, "score 1.5"},
		"loud":    {"AA", false, "the hook says [text 0 noise"},
	} {
		t.Run(mode, func(t *testing.T) {
			opt := Options{firstRest: time.Microsecond}
			if mode == "hangs" {
				opt.Timeout = 2 * time.Second
			}
			p, n, err := open(t, mode, opt)
			must(t, err)
			got := ""
			for len(got) < len(tt.want) {
				a, outcome := p.Ask(t.Context(), &Request{URL: "http://a.test/"})
				if (a != nil) != (outcome == Answered) {
					t.Fatalf("answer %v with outcome %d", a, outcome)
				}
				if outcome != Unasked { // rests for a moment
					got += string("ATFRUC"[outcome])
				}
			}
			restarts := p.TakeRestarts()
			p.Close()
			if got != tt.want || restarts > 0 != tt.restarts || !strings.Contains(n.text(), tt.note) {
				t.Errorf("outcomes %s, %d restarts, notes:\n%.2000s", got, restarts, n.text())
			}
			if lines := strings.Count(n.text(), "\n"); lines > notesBurst+10 {
				t.Errorf("%d notes", lines)
			}
		})
	}
}

// TestBadStart: a command that does not greet fails the start, with a reason.
func TestBadStart(t *testing.T) {
	for mode, want := range map[string]string{"exits": errEnded.Error(), "mute": errTimeout.Error(),
		"old": "version 0"} {
		opt := Options{}
		if mode == "mute" {
			opt.startTimeout = 100 * time.Millisecond
		}
		if p, _, err := open(t, mode, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v", mode, p, err)
		}
	}
	says := Options{Command: []string{"/bin/sh", "-c", "echo starts >&2; echo no such script >&2; exit 2"}}
	if _, err := Open(t.Context(), says); !errors.Is(err, errEnded) ||
		!strings.HasSuffix(err.Error(), `standard error: "no such script"`) {
		t.Errorf("a process that says why it ends: %v", err)
	}
	if _, err := Open(t.Context(), Options{Command: []string{"/nowhere/hook"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
	if _, err := Open(t.Context(), Options{Command: []string{"x"}, Procs: MaxProcs + 1}); err == nil {
		t.Error("too many processes")
	}
}

// TestRest: a process that fails without an answer rests; meanwhile nothing is asked, and nobody waits.
func TestRest(t *testing.T) {
	p, _ := mustOpen(t, "once "+filepath.Join(t.TempDir(), "life"), Options{firstRest: time.Hour})
	ask := func() Outcome { _, o := p.Ask(t.Context(), &Request{URL: "http://a.test/"}); return o }
	if o := ask(); o != Failed {
		t.Fatalf("outcome %d", o)
	}
	for p.resting.Load() == 0 { // the second life ends before its greeting
		if t.Context().Err() != nil {
			t.Fatal("the process does not rest")
		}
	}
	if o := ask(); o != Unasked {
		t.Errorf("outcome %d", o)
	}
	if n := p.TakeRestarts(); n != 1 {
		t.Errorf("%d restarts", n)
	}
	var last time.Duration
	for failures := range 100 {
		d := (&Pool{opt: Options{firstRest: firstRest}}).rest(failures)
		if d < last || d > maxRest {
			t.Fatalf("rest %v after %v", d, last)
		}
		last = d
	}
	if last != maxRest {
		t.Errorf("longest rest %v", last)
	}
}

// TestCancel: a context ends the wait for an answer.
func TestCancel(t *testing.T) {
	p, _ := mustOpen(t, "hangs", Options{Timeout: 2 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan Outcome)
	go func() {
		_, o := p.Ask(ctx, &Request{URL: "http://a.test/"})
		first <- o
	}()
	cancel()
	if o := <-first; o != Cancelled {
		t.Errorf("outcome %d", o)
	}
}

// TestEnd: Close ends a process that ignores the end of its input.
func TestEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	p, _, err := open(t, "stays "+file, Options{})
	must(t, err)
	if _, o := p.Ask(t.Context(), &Request{URL: "http://a.test/"}); o != Answered {
		t.Fatalf("outcome %d", o)
	}
	pid := readPID(t, file)
	p.Close()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v", pid, err)
	}
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	pid, err := strconv.Atoi(string(text))
	must(t, err)
	return pid
}

// TestOrphans: kill -9 of the program ends its hooks, even one that ignores the end of its input.
func TestOrphans(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), modeVar+"=owner "+file)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "outcome 0\n" {
		t.Errorf("the program said %q, %v", line, err)
	}
	pid := readPID(t, file)
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("the program was not killed")
	}
	for began := time.Now(); ; runtime.Gosched() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") { // or nobody has waited for it yet
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the hook still runs: %s", stat)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	kept := Answer{Keep: true, Follow: true}
	for line, want := range map[string]Answer{
		`{"id":7}`: kept,
		`{"id":7,"keep":null,"follow":null,"links":null,"score":null,"fields":null}`: kept,
		`{"id":7,"fields":{}}`:    kept,
		`{"id":7,"keep":false}`:   {Follow: true},
		`{"id":7,"follow":false}`: {Keep: true},
		`{"id":7,"score":0}`:      {Keep: true, Follow: true, Scored: true},
		"{\"id\":7,\"fields\": { \"a\" : [1,\t\"x\\n\"] }}\r": {Keep: true, Follow: true,
			Fields: []byte(`{"a":[1,"x\n"]}`)},
		`{"id":7,"links":["a"],"other":{"keep":false},"keep":1}`: {},
	} {
		a, err := parseAnswer([]byte(line), 7)
		if strings.Contains(line, `"keep":1`) {
			if err == nil {
				t.Errorf("%s: no error", line)
			}
			continue
		}
		if err != nil || a.Keep != want.Keep || a.Follow != want.Follow || a.Score != want.Score ||
			a.Scored != want.Scored || len(a.Links) != 0 || string(a.Fields) != string(want.Fields) {
			t.Errorf("%s: got %+v, %v", line, a, err)
		}
	}
	links := `{"id":7,"links":["a"` + strings.Repeat(`,"a"`, MaxLinks-1) + `]}`
	if a, err := parseAnswer([]byte(links), 7); err != nil || len(a.Links) != MaxLinks {
		t.Errorf("%d links: %v", MaxLinks, err)
	}
	var over *limitError
	for _, line := range []string{strings.Replace(links, `"a"]`, `"a","a"]`, 1), `{"id":7,"score":-0.1}`,
		`{"id":7,"score":1.01}`, `{"id":7,"fields":[]}`, `{"id":7,"fields":"x"}`,
		"{\"id\":7,\"fields\":{\"a\":\"\xff\"}}", `{"id":7,"fields":{"a":"` + strings.Repeat("x", MaxFields) + `"}}`} {
		if _, err := parseAnswer([]byte(line), 7); !errors.As(err, &over) {
			t.Errorf("%.40s: %v", line, err)
		}
	}
	for _, line := range []string{"", "{}", "[]", "null", `{"id":8}`, `{"id":"7"}`, `{"id":7}{`, `{"id":7,"links":[1]}`,
		`{"id":7,"score":1e999}`} {
		if _, err := parseAnswer([]byte(line), 7); err == nil || errors.As(err, &over) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"id":7,"keep":false,"score":0.5,"links":["/a"],"fields":{"a":1}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := parseAnswer(line, 7)
		if err != nil {
			return
		}
		if len(a.Links) > MaxLinks || len(a.Fields) > MaxFields || a.Score < 0 || a.Score > 1 ||
			bytes.ContainsAny(a.Fields, "\n\r") {
			t.Errorf("%q: %+v", line, a)
		}
	})
}

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"python3 hook.py":          {"python3", "hook.py"},
		" a\t'b c'  \"d 'e'\"f\n":  {"a", "b c", "d 'e'f"},
		`a\ b "c\"d" '\' \\ \x ''`: {"a b", `c"d`, `\`, `\`, `\x`, ""},
		`sh -c 'a | b'`:            {"sh", "-c", "a | b"},
	} {
		if got, err := Words(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "  ", "'a", `a "b`, `""`, `'' a`} {
		if got, err := Words(text); err == nil {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

// BenchmarkAsk measures a request with a body, to a hook that does nothing.
func BenchmarkAsk(b *testing.B) {
	self, err := os.Executable()
	must(b, err)
	b.Setenv(modeVar, "third-party")
	for _, size := range []int{0, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("body=%dKiB", size>>10), func(b *testing.B) {
			p, err := Open(b.Context(), Options{Command: []string{self}, Procs: 1})
			must(b, err)
			defer p.Close()
			body := make([]byte, size)
			b.ReportAllocs()
			for b.Loop() {
				if _, o := p.Ask(b.Context(), &Request{URL: "http://a.test/", Body: body}); o != Answered {
					b.Fatal(o)
				}
			}
		})
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
