package disk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// fio does what a setting says with its own code: one thread a job, pread and pwrite, no queue. Files are made and
// space is reserved before its clock starts, as with us; it reads the files that we wrote, and writes files of its own.

// fioStart is about what fio takes before and after its measurement.
const fioStart = 350 * time.Millisecond

// runFio makes one measurement of a group by fio.
func (g group) runFio(ctx context.Context, program string, s setting) (n int64, span time.Duration, err error) {
	args := []string{"--output-format=json", "--eta=never"}
	for i, t := range g.targets {
		if s.op != opWrite {
			if err := t.drop(s); err != nil {
				return 0, 0, err
			}
		}
		args = append(args, t.fioJobs(s, strconv.Itoa(i))...)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	if err := g.removeFio(s); err != nil {
		return 0, 0, err
	}
	if ctx.Err() != nil {
		return 0, 0, ctx.Err()
	}
	if runErr != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return 0, 0, fmt.Errorf("bench: disk: %s: %w: %s", program, runErr, first)
	}
	return fioResult(stdout.Bytes())
}

// fioFiles are the files that fio makes for a setting.
func fioFiles(s setting) (names []string) {
	switch s.op {
	case opRead:
		return nil
	case opMixed:
		return []string{"fb"}
	}
	for _, name := range s.files() {
		names = append(names, "f"+name)
	}
	return names
}

// fioJobs are the arguments of the jobs in one directory.
func (t *target) fioJobs(s setting, name string) (args []string) {
	t.made = append(t.made, fioFiles(s)...)
	fallocate, direct, endSync := "none", "0", "0"
	if s.prealloc {
		fallocate = "keep" // as disk.File.Preallocate: the length stays
	}
	if s.direct {
		direct = "1"
	}
	if s.syncs() {
		endSync = "1"
	}
	job := func(op, file string, size int64) {
		args = append(args, "--name="+name+op, "--directory="+strings.ReplaceAll(t.dir, ":", `\:`), "--thread", "--ioengine=psync",
			"--rw="+op, "--bs="+strconv.Itoa(s.chunk), "--size="+strconv.FormatInt(size, 10), "--direct="+direct,
			"--fallocate="+fallocate, "--end_fsync="+endSync)
		if s.limit > 0 {
			args = append(args, "--runtime="+strconv.FormatInt(max(1, s.limit.Milliseconds()), 10)+"ms")
		}
		if s.streams == 1 {
			args = append(args, "--filename="+t.base(file))
			return
		}
		order := "roundrobin"
		if op == opRead {
			order = "sequential"
		}
		args = append(args, "--nrfiles="+strconv.Itoa(s.streams), "--filename_format="+t.base(file)+"$filenum",
			"--file_service_type="+order)
	}
	file := "a"
	if s.streams > 1 {
		file = "s"
	}
	switch s.op {
	case opWrite:
		job(opWrite, "f"+file, s.fileBytes()*int64(s.streams))
	case opRead:
		job(opRead, file, t.size*int64(s.streams))
	case opMixed:
		half := t.size / 2 / int64(s.chunk) * int64(s.chunk)
		job(opRead, "a", half)
		job(opWrite, "fb", half)
	}
	return args
}

// removeFio deletes what fio wrote.
func (g group) removeFio(s setting) (err error) {
	for _, t := range g.targets {
		for _, name := range fioFiles(s) {
			if e := t.fs.Remove(t.path(name)); e != nil && !errors.Is(e, os.ErrNotExist) {
				err = errors.Join(err, fmt.Errorf("bench: disk: remove %s: %w", t.path(name), e))
			}
		}
	}
	return err
}

// fioResult reads what fio reports: the bytes of all jobs and the time of the slowest.
func fioResult(out []byte) (n int64, span time.Duration, err error) {
	if i := bytes.IndexByte(out, '{'); i > 0 {
		out = out[i:] // remarks come first
	}
	type side struct {
		Bytes  int64 `json:"io_bytes"`
		Millis int64 `json:"runtime"`
	}
	var r struct {
		Jobs []struct {
			Error       int
			Read, Write side
		}
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, 0, fmt.Errorf("bench: disk: output of fio: %w", err)
	}
	for _, j := range r.Jobs {
		if j.Error != 0 {
			return 0, 0, fmt.Errorf("bench: disk: fio ended with error %d", j.Error)
		}
		n += j.Read.Bytes + j.Write.Bytes
		span = max(span, time.Duration(max(j.Read.Millis, j.Write.Millis))*time.Millisecond)
	}
	if n == 0 || span == 0 {
		return 0, 0, fmt.Errorf("bench: disk: fio moved %d bytes in %v: too few to compare", n, span)
	}
	return n, span, nil
}
