package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

type testJob struct{ Text string }

// childCommand returns the command that runs this test binary as a child of the given kind.
func childCommand(t *testing.T, kind string) []string {
	t.Setenv(childVar, kind)
	return []string{os.Args[0]}
}

// protocolChild is the test binary's part as a child with a job or as a server.
func protocolChild(kind string) error {
	switch kind {
	case "job":
		return Child(os.Stdin, os.Stdout, func(job *testJob, progress func(string)) (*testJob, error) {
			progress("begun")
			switch job.Text {
			case "fail":
				return nil, errors.New("no such text")
			case "die":
				fmt.Fprintln(os.Stderr, "it hurts")
				os.Exit(3)
			}
			return &testJob{job.Text + "!"}, nil
		})
	case "serve":
		n := 0
		return Serve(context.Background(), os.Stdin, os.Stdout, func(job *testJob) (any, error) {
			if job.Text == "fail" {
				return nil, errors.New("can't serve")
			}
			return job, nil
		}, func() any { n++; return n }, func() error { return nil })
	}
	return errUnknownKind
}

var errUnknownKind = errors.New("no such child")

// TestRunJob: a child gets a job; Run returns its result or its error.
func TestRunJob(t *testing.T) {
	command := childCommand(t, "job")
	for text, want := range map[string]string{"": "", "fail": "no such text", "die": "exit status 3: it hurts"} {
		var told []string
		got, _, err := Run[*testJob](t.Context(), command, testJob{text}, 0, func(s string) { told = append(told, s) })
		if want == "" && (err != nil || got.Text != "!" || len(told) != 1) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, %v, %q, want %q", text, got, err, told, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Run[*testJob](ctx, command, testJob{}, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, _, err := Run[*testJob](t.Context(), []string{"/bin/true"}, testJob{}, 0, nil); err == nil ||
		!strings.Contains(err.Error(), "without a result") {
		t.Errorf("got %v", err)
	}
}

// TestServer: a server says hello, answers every question, and ends on Close.
func TestServer(t *testing.T) {
	command := childCommand(t, "serve")
	var hello testJob
	s, err := Start(t.Context(), command, testJob{"hi"}, &hello)
	if err != nil || hello.Text != "hi" {
		t.Fatalf("got %v, %v", hello, err)
	}
	for want := 1; want < 4; want++ {
		var got int
		if err := s.State(&got); err != nil || got != want {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Start(t.Context(), command, testJob{"fail"}, &hello); err == nil ||
		!strings.Contains(err.Error(), "can't serve") {
		t.Errorf("got %v", err)
	}
	if _, err := Start(t.Context(), []string{"/nonexistent"}, testJob{}, &hello); err == nil {
		t.Error("a program that isn't there serves")
	}
}
