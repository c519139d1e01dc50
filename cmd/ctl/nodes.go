package ctl

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/bug"
	"drumbeat/internal/human"
)

const (
	// nodesAtOnce bounds the nodes that are asked at a time, and so the RAM for their answers.
	nodesAtOnce = 16
	// mostNodesFile bounds the bytes of a file of nodes: the 4096 nodes of a cluster, with 256 bytes each.
	mostNodesFile = 1 << 20
	// mostNodeName bounds the bytes of the name of a node, which begins each line of output.
	mostNodeName = 64
)

// target is a node of a file of nodes.
type target struct {
	name string
	Where
}

// readNodes reads the file of --nodes: in each line a name, and the URL of an admin server with a file of its token, or
// the first directory of a crawl on this machine. Paths are relative to the directory of the file. Empty lines and
// lines that begin with # count as none.
func readNodes(name string) ([]target, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--nodes: %w", err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostNodesFile+1))
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--nodes: %w", err))
	}
	if len(data) > mostNodesFile {
		return nil, term.Usage(fmt.Errorf("--nodes: %s has more than %s", name, human.Bytes(mostNodesFile)))
	}
	var list []target
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		t, err := targetOf(fields, filepath.Dir(name))
		for i := range list {
			if err == nil && (list[i].name == t.name || list[i].URL == t.URL && slices.Equal(list[i].Dir, t.Dir)) {
				err = fmt.Errorf("it has the name or the place of node %s", list[i].name)
			}
		}
		if err != nil {
			return nil, term.Usage(fmt.Errorf("--nodes: %s, line %d: %w", name, number, err))
		}
		list = append(list, t)
	}
	if len(list) == 0 {
		return nil, term.Usage(fmt.Errorf("--nodes: %s names no node: want lines of a name, a URL and a token file",
			name))
	}
	return list, nil
}

// targetOf reads the fields of a line. Paths are relative to dir.
func targetOf(fields []string, dir string) (t target, err error) {
	t.name = fields[0]
	path := func(name string) string {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name
	}
	isURL := len(fields) > 1 && strings.Contains(fields[1], "://")
	switch {
	case len(t.name) > mostNodeName || strings.ContainsFunc(t.name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	}):
		return t, fmt.Errorf("the name %q: want at most %d letters, digits, hyphens, underscores and dots", t.name,
			mostNodeName)
	case len(fields) == 1:
		return t, fmt.Errorf("node %s has no place: want a URL and a token file, or a directory", t.name)
	case !isURL && len(fields) > 2:
		return t, fmt.Errorf("node %s: %s after a directory, which needs no token", t.name, fields[2])
	case len(fields) > 3:
		return t, fmt.Errorf("node %s: %s after the token file: a path has no spaces", t.name, fields[3])
	case !isURL:
		t.Dir = []string{path(fields[1])}
		return t, nil
	}
	if t.URL = fields[1]; len(fields) == 3 {
		t.TokenFile = path(fields[2])
	}
	_, err = t.client() // the URL, and the token if it can be read
	return t, err
}

// checkNodes refuses flags that --nodes excludes.
func (c *Command) checkNodes(k *kong.Context) error {
	for _, flag := range []string{"dir", "url", "token-file"} {
		if flags.GivenHere(k, flag) {
			return fmt.Errorf("--nodes says where the crawls are: give no --%s", flag)
		}
	}
	if k.Selected() != nil && k.Selected().Name == "top" {
		return errors.New("ctl top shows one crawl: drumbeat cluster top shows all nodes")
	}
	return nil
}

// Several runs the selected command: once, or with --nodes on each node, on some at a time. Lines of output begin with
// the name of the node. A node that fails does not stop the others. The exit code is the highest one.
func (c *Command) Several(a *term.App, run func(a *term.App, binds ...any) error) error {
	if c.Nodes == "" {
		return run(a)
	}
	list, err := readNodes(c.Nodes)
	if err != nil {
		return err
	}
	g := &gang{app: a, json: c.JSON, run: run, in: sync.OnceValues(func() ([]byte, error) {
		return io.ReadAll(io.LimitReader(a.Stdin, maxListBytes+1))
	})}
	slots := make(chan struct{}, nodesAtOnce)
	var all sync.WaitGroup
	for i := range list {
		slots <- struct{}{}
		all.Add(1)
		go func() {
			defer bug.Fatal()
			defer func() { <-slots; all.Done() }()
			g.ask(&list[i])
		}()
	}
	all.Wait()
	if g.broken != nil {
		return g.broken
	}
	return g.conclude(len(list))
}

// conclude says on how many of some nodes the command is done. A node that is away gets an order that all nodes of the
// cluster carry out when it is back, so this is no failure.
func (g *gang) conclude(nodes int) error {
	slices.Sort(g.away)
	text := fmt.Sprintf("done on %d of %s", nodes-len(g.failed)-len(g.away), human.Counted(nodes, "node", "nodes"))
	if !g.everywhere && len(g.away) > 0 {
		g.worst = max(g.worst, term.ExitDirectory)
		g.failed, g.away = append(g.failed, g.away...), nil
	}
	slices.Sort(g.failed)
	if len(g.failed) > 0 {
		text += ", not on " + strings.Join(g.failed, ", ")
	}
	switch len(g.away) {
	case 0:
	case 1:
		text += "; " + g.away[0] + " gets it when it is back"
	default:
		text += "; " + strings.Join(g.away, ", ") + " get it when they are back"
	}
	if len(g.failed) > 0 {
		return &term.Ended{Code: g.worst, Why: text}
	}
	_, err := fmt.Fprintln(g.app.Stderr, text)
	return err
}

// gang runs a command on several nodes.
type gang struct {
	app  *term.App
	json bool
	run  func(a *term.App, binds ...any) error
	in   func() ([]byte, error) // standard input, read once, and no more than the longest list

	mu     sync.Mutex // guards the writers of app and what follows
	worst  int        // exit code
	failed []string
	broken error // of output: a full disk, a closed pipe
	// away are the nodes without a running crawl. everywhere: another node has taken the complete command as orders to
	// all nodes of the cluster.
	away       []string
	everywhere bool
}

// ask runs the command on a node, and prints its output when it has ended.
func (g *gang) ask(t *target) {
	var out, said bytes.Buffer
	a := *g.app
	a.Stdin, a.Stdout, a.Stderr = &sharedInput{g: g}, &out, &said
	w := t.Where
	w.JSON, w.several = g.json, true
	err := g.run(&a, &w)
	g.mu.Lock()
	defer g.mu.Unlock()
	code := a.Fail(err)
	switch {
	case code == term.ExitDone:
		g.everywhere = g.everywhere || w.everywhere > 0 && w.everywhere == w.changes
	case code == term.ExitDirectory && w.changes == 0:
		g.away = append(g.away, t.name)
	default:
		g.worst = max(g.worst, code)
		g.failed = append(g.failed, t.name)
	}
	if g.json {
		err = writeAnswer(g.app.Stdout, t.name, code, &out, &said)
	} else {
		err = errors.Join(prefix(g.app.Stdout, t.name, &out), prefix(g.app.Stderr, t.name, &said))
	}
	g.broken = cmp.Or(g.broken, err)
}

// prefix copies lines, each with a name before it.
func prefix(to io.Writer, name string, from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if _, err := fmt.Fprintf(to, "%s: %s\n", name, strings.TrimSuffix(line, "\n")); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // the end of a buffer
		}
	}
}

// answer is what a node has answered, with --json.
type answer struct {
	Node    string            `json:"node"`
	Code    int               `json:"exit_code"`
	Answers []json.RawMessage `json:"answers"` // one for each request that the command made
	Errors  string            `json:"errors,omitempty"`
}

// writeAnswer writes the answers of a node as one line of JSON.
func writeAnswer(to io.Writer, name string, code int, out, said *bytes.Buffer) error {
	v := answer{Node: name, Code: code, Answers: []json.RawMessage{}, Errors: strings.TrimSpace(said.String())}
	for d := json.NewDecoder(out); ; {
		var one json.RawMessage
		if err := d.Decode(&one); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		v.Answers = append(v.Answers, one)
	}
	return json.NewEncoder(to).Encode(&v)
}

// sharedInput reads the standard input from its beginning.
type sharedInput struct {
	g    *gang
	rest *bytes.Reader
}

func (s *sharedInput) Read(p []byte) (int, error) {
	if s.rest == nil {
		data, err := s.g.in()
		if err != nil {
			return 0, err
		}
		s.rest = bytes.NewReader(data)
	}
	return s.rest.Read(p)
}
