package main

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"drumbeat/crawl"
)

// planMachine are flags that leave nothing to the machine.
var planMachine = []string{"--ram=16GiB", "--disk=8TB", "--connections=2000", "--max-rate=4000", "--disk-rate=500MB", "--drum-workers=2", "--dir=/a", "--dir=/b"}

// TestPlanGolden: what plan prints for one machine.
func TestPlanGolden(t *testing.T) {
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs}
	if code := a.run(append([]string{"plan", "--pages=1e9"}, planMachine...)); code != 0 {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	const name = "testdata/plan.txt"
	if *update {
		if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("got\n%s\nwant %s", out.String(), name)
	}
}

// TestPlanIsTheCrawls: plan and crawl with the same flags have the same plan.
func TestPlanIsTheCrawls(t *testing.T) {
	seeds := t.TempDir() + "/seeds"
	if err := os.WriteFile(seeds, []byte("http://example.org/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{
		{"--ram=1GiB", "--disk=100GB"},
		{"--ram=96MiB", "--disk=10GB", "--connections=100"},
		{"--ram=300GiB", "--disk=80TB", "--dir=/a", "--dir=/b", "--dir=/c"},
		{"--ram=4GiB", "--disk=1TB", "--drum-buckets=64", "--drum-bucket=128MiB", "--drum-buffer=64KiB", "--drum-chunk=8MiB", "--drum-disk=40GB", "--drum-workers=3"},
		{"--ram=4GiB", "--disk=1TB", "--cache-ram=0", "--keep-free=1GB", "--queues-max=64"},
		{"--ram=4GiB", "--disk=1TB", "--cache-ram=100MB"},
	} {
		var c, p cli
		for _, parse := range []struct {
			c    *cli
			args []string
		}{{&c, append([]string{"crawl", "--seeds=" + seeds, "--contact=a@example.org", "--resolver=127.0.0.1:53"}, flags...)},
			{&p, append([]string{"plan"}, flags...)}} {
			parser, err := newParser(parse.c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(parse.args); err != nil {
				t.Fatal(err)
			}
		}
		m, err := thisMachine()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Crawl.complete(m); err != nil {
			t.Fatal(err)
		}
		crawlOpt := c.Crawl.options()
		planOpt, err := p.Plan.options()
		if err != nil {
			t.Fatal(err)
		}
		want, err1 := crawl.MakePlan(&crawlOpt)
		got, err2 := crawl.MakePlan(&planOpt)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, %v, the crawl has %+v, %v", flags, got, err2, want, err1)
		}
	}
}

// TestPlanCommand: what goes in and what comes out.
func TestPlanCommand(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--pages=1e9", "--disk=1TB"}, exitUsage, "--disk 1TB is too little: 1e9 pages take"},
		{[]string{"--ram=20MiB"}, exitUsage, "is too little for 2000 connections; the least that works is"},
		{[]string{"--drum-bucket=8GiB"}, exitUsage, "must be less than 4GiB"},
		{[]string{"--drum-buckets=100"}, exitUsage, "power of 2"},
		{[]string{"--drum-buffer=1000"}, exitUsage, "multiple of 4KiB"},
		{[]string{"--unique=1.5"}, exitUsage, "at most 1"},
		{[]string{"--pages=0"}, exitUsage, "--pages can't be 0"},
		{[]string{"--measure"}, exitUsage, "exclude each other"},
		{[]string{"--store=none", "--pages=1e10", "--cache-ram=0"}, 0, "1e10 pages"},
	} {
		var out bytes.Buffer
		a := &app{stdout: &out, stderr: &out}
		if code := a.run(append(append([]string{"plan"}, planMachine...), c.args...)); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: got code %d and\n%s\nwant code %d and %q", c.args, code, out.String(), c.code, c.want)
		}
	}
}

// TestPlanJSON: the same in a form for programs; --measure finds a rate and leaves nothing.
func TestPlanJSON(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs}
	if code := a.run([]string{"plan", "--json", "--pages=1e6", "--ram=1GiB", "--disk=1TB", "--measure", "--dir=" + dir + "/new"}); code != 0 {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	var p planned
	if err := json.Unmarshal(out.Bytes(), &p); err != nil || !p.Forecast.Fits || p.URLSeen.Buckets == 0 || p.Forecast.Load.DiskRate <= 0 {
		t.Errorf("got %+v, %v", p, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want an empty directory", left, err)
	}
}
