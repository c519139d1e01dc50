package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"time"

	"drumbeat/internal/simweb"
)

// The web of bench crawl lies in a process of its own, so that getrusage of the crawler's process counts the crawler alone.
// The two speak lines of JSON: the options go in, crawlServerSays comes out; each further line that goes in is answered with
// the present state. The server ends when its input does.
type crawlServerSays struct {
	Error string           `json:",omitempty"`
	Port  uint16           `json:",omitempty"`
	DNS   netip.AddrPort   `json:",omitzero"`
	Root  []byte           `json:",omitempty"` // certificate of the authority
	State crawlServerState `json:",omitzero"`
}

// crawlServerState is what the server has done and used so far.
type crawlServerState struct {
	CPU time.Duration
	simweb.FlatCounts
}

// CrawlServer is the server's side of bench crawl.
func CrawlServer(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(in)
	write := json.NewEncoder(out)
	fail := func(err error) error { return errors.Join(err, write.Encode(crawlServerSays{Error: err.Error()})) }
	var opt simweb.FlatOptions
	if err := lines.Decode(&opt); err != nil {
		return fail(fmt.Errorf("bench: crawl: server: %w", err))
	}
	flat, err := simweb.NewFlat(opt)
	if err != nil {
		return fail(err)
	}
	s, err := flat.Start()
	if err != nil {
		return fail(err)
	}
	if err := write.Encode(crawlServerSays{Port: s.Port(), DNS: s.DNS(), Root: s.RootDER()}); err != nil {
		return errors.Join(err, s.Close())
	}
	asked := make(chan error, 1)
	go func() { // ends with the process's input, which is closed when the parent is gone
		for {
			var question int
			if err := lines.Decode(&question); err != nil {
				asked <- nil
				return
			}
			if err := write.Encode(crawlServerSays{State: crawlServerState{CPU: cpuTime(), FlatCounts: s.Counts()}}); err != nil {
				asked <- err
				return
			}
		}
	}()
	select {
	case err = <-asked:
	case <-ctx.Done():
	}
	return errors.Join(err, s.Close())
}

// crawlServer is the parent's end.
type crawlServer struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	says  crawlServerSays
	words tail
}

// startCrawlServer starts the process and waits until it listens.
func startCrawlServer(ctx context.Context, command []string, web *simweb.FlatOptions) (*crawlServer, error) {
	s := &crawlServer{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	s.cmd.WaitDelay = childGrace
	s.cmd.Stderr = &s.words
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("bench: crawl: server: %w", err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("bench: crawl: server: %w", err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: crawl: server: %w", err)
	}
	if s.says, err = s.ask(web); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// ask sends a line and reads the answer.
func (s *crawlServer) ask(question any) (says crawlServerSays, err error) {
	defer s.bound()()
	if err := json.NewEncoder(s.in).Encode(question); err != nil {
		return says, fmt.Errorf("bench: crawl: ask server: %w: %s", err, s.words.String())
	}
	line, err := s.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &says)
	}
	if err == nil && says.Error != "" {
		err = errors.New(says.Error)
	}
	if err != nil {
		return says, fmt.Errorf("bench: crawl: server: %w: %s", err, s.words.String())
	}
	return says, nil
}

// state asks for what the server has done.
func (s *crawlServer) state() (crawlServerState, error) {
	says, err := s.ask(0)
	return says.State, err
}

// serverPatience bounds an answer of the server, and its end: it only reads counters, or closes connections.
const serverPatience = 30 * time.Second

// bound kills a server that takes longer, so that waiting for it ends with an error; the function it returns lifts that.
func (s *crawlServer) bound() (lift func()) {
	timer := time.AfterFunc(serverPatience, func() { _ = s.cmd.Process.Kill() })
	return func() { timer.Stop() }
}

// close ends the process and waits for it.
func (s *crawlServer) close() error {
	defer s.bound()()
	s.in.Close() // it ends by that
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("bench: crawl: server: %w: %s", err, s.words.String())
	}
	return nil
}
