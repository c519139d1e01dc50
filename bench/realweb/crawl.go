package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drumbeat/internal/human"
)

type crawlCmd struct {
	webFlags
	Drumbeat  string        `required:"" help:"Binary of drumbeat."`
	HostDelay time.Duration `default:"5ms" help:"Value of drumbeat's --host-delay."`
	Limit     time.Duration `default:"10m" help:"Stop the crawl after this time."`
	Kills     int           `help:"Kill drumbeat (SIGKILL) N times, and resume it."`
	KillAfter time.Duration `default:"4s" help:"Mean time before a kill. Each is 0.5 to 1.5 times the mean."`
	Flags     []string      `sep:"none" help:"Further flags of drumbeat crawl. Repeatable."`
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
	kills, err := c.crawl(ctx, s)
	if err != nil {
		return err
	}
	open = false
	if err := s.close(); err != nil {
		return err
	}
	return c.evaluate(k, s, kills)
}

// crawl runs drumbeat to its end, and first kills it Kills times. It returns the number of kills.
func (c crawlCmd) crawl(ctx context.Context, s *servers) (kills int, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	seeds := s.web.path("seeds.txt")
	if err := os.WriteFile(seeds, []byte(s.web.seed()+"\n"), 0o644); err != nil {
		return 0, err
	}
	args := append([]string{"crawl", "--seeds", seeds, "--dir", s.web.path("crawl"), "--contact", "realweb@example.org",
		"--host-delay", c.HostDelay.String(), "--pld-delay", "0s", "--host-delay-factor", "0", "--server-delay", "0s",
		"--linger", "1s", "--crawl-log", "all", "--skip-extensions", "none", "--accept", "*/*"}, s.crawlFlags()...)
	if c.Kills > 0 { // otherwise a kill hits only the beginning
		args = append(args, "--checkpoint-every", "1s")
	}
	args = append(args, c.Flags...)
	for i := range c.Kills {
		life := time.Duration(float64(c.KillAfter) * (0.5 + rand.Float64()))
		ended, err := c.runOnce(ctx, args, life)
		if err != nil {
			return i, err
		}
		if ended {
			fmt.Printf("the crawl ended after %s\n", human.Counted(i, "kill", "kills"))
			return i, nil
		}
		fmt.Printf("killed after %s\n", human.Duration(life))
	}
	_, err = c.runOnce(ctx, args, 0)
	return c.Kills, err
}

// runOnce runs drumbeat as a child that dies with this process, and kills it after life unless that is 0. It
// reports whether drumbeat ended by itself.
func (c crawlCmd) runOnce(ctx context.Context, args []string, life time.Duration) (ended bool, err error) {
	cmd := exec.CommandContext(ctx, c.Drumbeat, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(cmd.Environ(), "SSL_CERT_FILE="+filepath.Join(c.Work, "ca.pem"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	fmt.Println("\n$ " + strings.Join(cmd.Args, " "))
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("realweb: start drumbeat: %w", err)
	}
	if life > 0 {
		defer time.AfterFunc(life, func() { cmd.Process.Kill() }).Stop()
	}
	err = cmd.Wait()
	fmt.Println()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("realweb: drumbeat did not end within %s: %w", human.Duration(c.Limit),
			cmp.Or(err, ctx.Err()))
	case life > 0 && status.Signal() == syscall.SIGKILL:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("realweb: drumbeat: %w", err)
	}
	return true, nil
}

// capture is a line of the CDXJ index.
type capture struct {
	URL       string `json:"url"`
	MIME      string `json:"mime"`
	Status    string `json:"status"`
	Truncated string `json:"truncated"`
	Type      string `json:"type"` // none for a page
}

// readIndex reads every index of a crawl. It leaves out robots.txt and answers of name servers.
func readIndex(dir string) ([]capture, error) {
	names, err := filepath.Glob(filepath.Join(dir, "warc", "*.cdxj"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("realweb: no index in %s: %w", filepath.Join(dir, "warc"), cmp.Or(err, os.ErrNotExist))
	}
	if open, _ := filepath.Glob(filepath.Join(dir, "warc", "*.open")); len(open) > 0 {
		return nil, fmt.Errorf("realweb: the finished crawl left %s", open[0])
	}
	var all []capture
	for _, name := range names {
		err := readLines(name, func(line string) error {
			i := strings.IndexByte(line, '{')
			if i < 0 {
				return errors.New("the line has no JSON object")
			}
			var c capture
			if err := json.Unmarshal([]byte(line[i:]), &c); err != nil {
				return err
			}
			if c.Type == "" && !strings.HasPrefix(c.URL, "dns:") {
				all = append(all, c)
			}
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

// writeExpected writes a line for each URL of the walk, with its status and the SHA-1 of the body if it is a
// file. scripts/checkwarc.mjs compares the WARC files with it.
func (k *walk) writeExpected(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	sums := map[string]string{} // of files that several hosts serve
	for u, a := range k.fetched {
		line := map[string]string{"url": u, "status": strconv.Itoa(a.status)}
		if a.file != "" {
			if sums[a.file] == "" {
				body, err := os.ReadFile(a.file)
				if err != nil {
					return err
				}
				sums[a.file] = fmt.Sprintf("%x", sha1.Sum(body))
			}
			line["sha1"] = sums[a.file]
		}
		text, err := json.Marshal(line)
		if err != nil {
			return err
		}
		out.Write(append(text, '\n')) // Flush returns its error
	}
	return errors.Join(out.Flush(), f.Close())
}
