package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type crawlCmd struct {
	webFlags
	Drumbeat  string        `required:"" help:"The binary."`
	HostDelay time.Duration `default:"5ms" help:"drumbeat's --host-delay."`
	Limit     time.Duration `default:"10m" help:"The crawl is stopped after so long."`
	Flags     []string      `sep:"none" help:"Further flags of drumbeat crawl; repeatable."`
}

// Run is the command crawl.
func (c crawlCmd) Run(ctx context.Context) (err error) {
	w, s, err := c.start(ctx)
	if err != nil {
		return err
	}
	open := true
	defer func() {
		if open {
			err = errors.Join(err, s.close())
		}
	}()
	k, err := newWalk(w)
	if err != nil {
		return err
	}
	k.print()
	if err := k.writeExpected(w.path("expected.ndjson")); err != nil {
		return err
	}
	u, err := c.crawl(ctx, s)
	if err != nil {
		return err
	}
	open = false
	if err := s.close(); err != nil {
		return err
	}
	return c.judge(k, s, u)
}

// crawl runs drumbeat, as a child that dies with this process.
func (c crawlCmd) crawl(ctx context.Context, s *servers) (*usage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	args := append([]string{"crawl", "--seeds", "-", "--dir", s.web.path("crawl"), "--contact", "realweb@example.org",
		"--host-delay", c.HostDelay.String(), "--server-delay", "0s", "--linger", "1s", "--crawl-log", "all"},
		s.crawlFlags()...)
	cmd := exec.CommandContext(ctx, c.Drumbeat, append(args, c.Flags...)...)
	cmd.Stdin = strings.NewReader(s.web.seed() + "\n")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	fmt.Println("\n$ " + strings.Join(cmd.Args, " "))
	began := time.Now()
	err := cmd.Run()
	u := &usage{wall: time.Since(began)}
	if cmd.ProcessState != nil {
		u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			u.rssBytes = r.Maxrss << 10
		}
	}
	fmt.Println()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("realweb: drumbeat did not end by itself in %v: %w", c.Limit, cmp.Or(err, ctx.Err()))
	}
	if err != nil {
		return nil, fmt.Errorf("realweb: drumbeat: %w", err)
	}
	return u, nil
}

// usage is what drumbeat took.
type usage struct {
	wall     time.Duration
	cpu      time.Duration // user and system
	rssBytes int64
}

// capture is a line of the CDXJ index.
type capture struct {
	URL       string `json:"url"`
	MIME      string `json:"mime"`
	Status    string `json:"status"`
	Truncated string `json:"truncated"`
	Redirect  string `json:"redirect"`
}

// readIndex reads every index of a crawl.
func readIndex(dir string) ([]capture, error) {
	names, err := filepath.Glob(filepath.Join(dir, "warc", "*.cdxj"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("realweb: no index in %s: %w", filepath.Join(dir, "warc"), cmp.Or(err, os.ErrNotExist))
	}
	if open, _ := filepath.Glob(filepath.Join(dir, "warc", "*.open")); len(open) > 0 {
		return nil, fmt.Errorf("realweb: a finished crawl has left %s", open[0])
	}
	var all []capture
	for _, name := range names {
		err := readLines(name, func(line string) error {
			i := strings.IndexByte(line, '{')
			if i < 0 {
				return errors.New("no JSON object")
			}
			var c capture
			if err := json.Unmarshal([]byte(line[i:]), &c); err != nil {
				return err
			}
			all = append(all, c)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readLines(name string, take func(line string) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if err := take(lines.Text()); err != nil {
			return fmt.Errorf("realweb: %s:%d: %w", name, n, err)
		}
	}
	return lines.Err()
}

// writeExpected writes a line for each URL of the walk: status, and SHA-1 of the body where it is a file. It is
// what scripts/checkwarc.mjs compares the WARC files with.
func (k *walk) writeExpected(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	sums := &fileSums{}
	for u, a := range k.fetched {
		line := map[string]string{"url": u, "status": strconv.Itoa(a.status)}
		if a.file != "" {
			if line["sha1"], err = sums.of(a.file); err != nil {
				return err
			}
		}
		text, err := json.Marshal(line)
		if err != nil {
			return err
		}
		out.Write(append(text, '\n')) // errors stay for Flush
	}
	return errors.Join(out.Flush(), f.Close())
}
