package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestBenchFetch: every client gets the page of the server's process in every form, and many slow exchanges at once leave
// nothing behind.
func TestBenchFetch(t *testing.T) {
	t.Setenv(childMode, "main")
	short := []string{"--time=2ms", "--repeat=1", "--goroutines=1", "--goroutines=3"}
	short = short[:len(short):len(short)]
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{append(short, "--schemes=http"), exitDone, []string{
			"BenchmarkFetch/scheme=http/conn=new/coding=identity/goroutines=3/client=ours",
			"scheme=http/conn=kept/coding=identity/goroutines=1/client=bare", "conn=new/coding=gzip/goroutines=3/client=fasthttp",
			"client=nethttp", "fetch with a new connection beside the bare loop's, goroutines=1"}},
		{append(short, "--schemes=https", "--schemes=https-rsa", "--codings=identity"), exitDone, []string{
			"scheme=https/conn=new/coding=identity/goroutines=1/client=ours", "scheme=https/conn=resumed/coding=identity/goroutines=3/client=bare",
			"scheme=https-rsa/conn=new/coding=identity/goroutines=3/client=nethttp", "scheme=https/conn=kept/coding=identity/goroutines=3",
			"CPU of our fetch by https-rsa with a full handshake"}},
		{[]string{"--schemes=http", "--conns=resumed"}, exitUsage, []string{"no form"}},
		{append(short, "--schemes=http", "--clients=ours", "--codings=gzip", "--page=1000"), exitDone, []string{"client=ours"}},
		{[]string{"--connections=50", "--check"}, exitDone, []string{"BenchmarkFetchMany/connections=50",
			"slow exchanges that got their page: 50.00", "goroutines left when the exchanges had ended: 0.000"}},
		{[]string{"--clients=curl"}, exitUsage, []string{`no client "curl"`}},
		{[]string{"--schemes=gopher"}, exitUsage, []string{`scheme "gopher"`}},
		{[]string{"--goroutines=0"}, exitUsage, []string{"0 goroutines"}},
		{[]string{"--page=1"}, exitUsage, []string{"page of 1 bytes"}},
		{[]string{"--connections=many"}, exitUsage, []string{"want a number"}},
	} {
		var out bytes.Buffer
		a := &app{stdout: &out, stderr: &out}
		if code := a.run(append([]string{"bench", "fetch", "-q"}, c.args...)); code != c.code {
			t.Errorf("%q: got exit code %d, want %d:\n%s", c.args, code, c.code, out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: want %q in\n%s", c.args, want, out.String())
			}
		}
	}
}
