package ctl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"drumbeat/admin"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

type seedsCmd struct {
	File string   `placeholder:"FILE"`
	Seed []string `arg:"" optional:""`
}

// The most seeds of one change, and their bytes.
const (
	seedsAtOnce = 10_000
	bytesAtOnce = 1 << 20
)

// Run adds the seeds, in changes of at most seedsAtOnce.
func (c seedsCmd) Run(a *term.App, w *Where) error {
	if c.File == "" && len(c.Seed) == 0 {
		return term.Usage(errors.New("no seed: give URLs, or --file"))
	}
	s := &seedSender{a: a, w: w}
	for _, line := range c.Seed {
		if err := s.add(line); err != nil {
			return err
		}
	}
	if c.File != "" {
		if err := c.sendFile(a, s); err != nil {
			return err
		}
	}
	if err := s.send(); err != nil {
		return err
	}
	if w.JSON {
		return nil
	}
	_, err := fmt.Fprintf(a.Stdout, "%s added, %s refused\n", human.Counted(s.accepted, "seed", "seeds"),
		human.Counted(s.refused, "line", "lines"))
	return err
}

func (c seedsCmd) sendFile(a *term.App, s *seedSender) error {
	in := a.Stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return term.Usage(fmt.Errorf("--file: %w", err))
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewReader(io.Reader(in))
	for {
		line, err := lines.ReadString('\n')
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "#") {
			if err := s.add(text); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", c.File, err)
		}
	}
}

// seedSender collects seeds and sends them.
type seedSender struct {
	a                 *term.App
	w                 *Where
	lines             []string
	bytes             int
	accepted, refused int
}

func (s *seedSender) add(line string) error {
	if len(s.lines) == seedsAtOnce || s.bytes+len(line)+1 > bytesAtOnce {
		if err := s.send(); err != nil {
			return err
		}
	}
	s.lines = append(s.lines, line)
	s.bytes += len(line) + 1
	return nil
}

func (s *seedSender) send() error {
	if len(s.lines) == 0 {
		return nil
	}
	body := admin.Seeds{Seeds: s.lines}
	s.lines, s.bytes = nil, 0
	return call(s.a, s.w, http.MethodPost, "/api/v1/seeds", body, func(answer json.RawMessage) error {
		var taken admin.SeedsTaken
		if err := json.Unmarshal(answer, &taken); err != nil {
			return err
		}
		s.accepted += taken.Accepted
		s.refused += len(body.Seeds) - taken.Accepted
		for _, bad := range taken.Refused {
			fmt.Fprintf(s.a.Stderr, "refused: %s: %s\n", bad.Line, bad.Why)
		}
		return nil
	})
}
