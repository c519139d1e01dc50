package changes

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

const journalName = "/d/state/changes"

var testTime = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// newJournal opens a journal on a file system in RAM.
func newJournal(t *testing.T, fsys disk.FS, fed int64) *Journal {
	t.Helper()
	must(t, fsys.MkdirAll("/d/state"))
	j, err := Open(fsys, journalName, fed)
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// add appends a change that must be accepted.
func add(t *testing.T, j *Journal, c Change) Change {
	t.Helper()
	c, err := j.Append(c, testTime)
	must(t, err)
	return c
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestUndo: each change followed by its opposite leaves the settings as they were.
func TestUndo(t *testing.T) {
	j := newJournal(t, memfs.New(1), 0)
	before := toJSON(j.Settings())
	for _, c := range []Change{{Op: OpPause}, {Op: OpDrain},
		{Op: OpLimits, Rate: "5", Bandwidth: "1Mbit", Connections: "7"}, {Op: OpHostDelay, Host: "a.example", Delay: 5},
		{Op: OpBlock, Rule: "- pld b.example"}, {Op: OpBudget, PLD: "c.example", Budget: 500},
		{Op: OpFunction, Function: &Function{"linear", 5, 50}}} {
		add(t, j, c)
		during := toJSON(j.Settings())
		add(t, j, Change{Op: c.Op.Undo(), Host: c.Host, Rule: c.Rule, PLD: c.PLD})
		var s Settings
		must(t, json.Unmarshal([]byte(before), &s))
		got := *j.Settings()
		for _, m := range []any{&got, &s} { // an empty map is as good as none
			empty(m.(*Settings))
		}
		if toJSON(got) != toJSON(s) || during == before {
			t.Errorf("%s: before %s, during %s, after %s", c.Op, before, during, toJSON(got))
		}
	}
}

func empty(s *Settings) {
	if len(s.HostDelays) == 0 {
		s.HostDelays = nil
	}
	if len(s.Budgets) == 0 {
		s.Budgets = nil
	}
	if len(s.Blocked) == 0 {
		s.Blocked = nil
	}
	s.FunctionSeq = 0
}

// TestSurvivesCrash: what Append returned is there after a crash at any operation, and nothing else but the
// change under way.
func TestSurvivesCrash(t *testing.T) {
	for at := 1; ; at++ {
		fsys := memfs.New(uint64(at))
		must(t, fsys.MkdirAll("/d/state"))
		must(t, errors.Join(fsys.SyncDir("/"), fsys.SyncDir("/d")))
		fsys.CrashAfter(at)
		var done int64
		j, err := Open(fsys, journalName, 0)
		for i := int64(1); err == nil && i <= 20; i++ {
			if _, err = j.Append(Change{Op: OpHostDelay, Host: fmt.Sprint(i), Delay: 1}, testTime); err == nil {
				done = i
			}
		}
		crashed := fsys.Crash()
		must(t, crashed.MkdirAll("/d/state"))
		again, openErr := Open(crashed, journalName, 0)
		if openErr != nil {
			t.Fatalf("cut %d: %v", at, openErr)
		}
		if n := int64(len(again.Settings().HostDelays)); n != done && n != done+1 {
			t.Fatalf("cut %d: %d changes were accepted, %d are left", at, done, n)
		}
		add(t, again, Change{Op: OpPause})
		_ = again.Close()
		if done == 20 {
			return
		}
	}
}

// TestDamage: a flipped byte anywhere but in the last line is an error with its place, and no panic.
func TestDamage(t *testing.T) {
	fsys := memfs.New(1)
	j := newJournal(t, fsys, 0)
	for range 3 {
		add(t, j, Change{Op: OpPause, Who: "anna"})
	}
	data, err := disk.ReadFile(fsys, journalName)
	must(t, err)
	lastLine := strings.LastIndexByte(strings.TrimRight(string(data), "\n"), '\n') + 1
	for i := range data {
		bad := append([]byte(nil), data...)
		bad[i] ^= 0x40
		other := memfs.New(2)
		must(t, errors.Join(other.MkdirAll("/d/state"), disk.WriteFileAtomic(other, journalName, bad)))
		j, err := Open(other, journalName, 0)
		var corrupt *disk.CorruptError
		switch {
		case i >= lastLine && err == nil && j.seq == 2:
		case i < lastLine && errors.As(err, &corrupt):
		default:
			t.Fatalf("byte %d of %d flipped: error %v", i, len(data), err)
		}
		_ = j.Close()
	}
}

// TestCompact: a journal that starts over has the same settings, the last changes, and the seeds that have
// not been fed.
func TestCompact(t *testing.T) {
	fsys := memfs.New(1)
	j := newJournal(t, fsys, 0)
	line := "https://" + strings.Repeat("a", 200) + ".example/"
	var wanted []string
	for i := range 3300 {
		switch {
		case i == 2500:
			c := add(t, j, Change{Op: OpSeeds, Seeds: []string{line, "https://b.example/"}})
			wanted = append(wanted, fmt.Sprint(c.Seq))
		case i%3 == 0:
			add(t, j, Change{Op: OpBlock, Rule: "- host " + strings.Repeat("x", 300) + fmt.Sprint(i)})
		default:
			add(t, j, Change{Op: OpSeeds, Seeds: []string{line}})
		}
	}
	settings, last := toJSON(j.Settings()), j.Last(kept)
	if j.size < compactBytes {
		t.Fatalf("the journal has only %d bytes", j.size)
	}
	again := newJournal(t, fsys, 2500)
	size := again.size
	if size > j.size/2 || toJSON(again.Settings()) != settings || !reflect.DeepEqual(again.Last(kept), last) {
		t.Errorf("after it was rewritten: %d bytes (%d before), settings equal %v, changes equal %v", size, j.size,
			toJSON(again.Settings()) == settings, reflect.DeepEqual(again.Last(kept), last))
	}
	var fed []string
	for {
		c, ok, err := again.NextSeeds()
		must(t, err)
		if !ok {
			break
		}
		fed = append(fed, fmt.Sprint(c.Seq))
		again.Fed()
	}
	if len(fed) < 300 || fed[0] != wanted[0] || again.SeedsLeft() {
		t.Errorf("fed %d, first %v, want first %v", len(fed), fed[0], wanted[0])
	}
}

// TestRefused: changes outside of the bounds leave the journal as it is.
func TestRefused(t *testing.T) {
	j := newJournal(t, memfs.New(1), 0)
	for _, c := range []Change{{}, {Op: "reboot"}, {Op: OpHostDelay, Host: "a", Delay: -1}, {Op: OpHostDelay, Delay: 1},
		{Op: OpHostDelay, Host: "a\nb", Delay: 1}, {Op: OpUnblock, Rule: "- pld a"}, {Op: OpBlock},
		{Op: OpBudget, PLD: "a"}, {Op: OpSeeds}, {Op: OpSeeds, Seeds: []string{strings.Repeat("a", MaxSeedBytes)}},
		{Op: opSettings}, {Op: OpPause, Who: strings.Repeat("a", maxText+1)}} {
		if _, err := j.Append(c, testTime); !IsRefused(err) {
			t.Errorf("%+.100v: error %v", c, err)
		}
	}
	if len(j.Last(10)) != 0 || j.size != 0 {
		t.Errorf("the journal has %d bytes", j.size)
	}
}

// FuzzOpen: no content of the file causes a panic, and what opens can be opened again.
func FuzzOpen(f *testing.F) {
	j := []byte(header)
	for i, op := range []Op{OpPause, OpSeeds, OpBlock} {
		j = encode(j, &Change{Seq: int64(i + 1), Op: op, Rule: "- pld a", Seeds: []string{"a"}})
	}
	f.Add(j)
	f.Add([]byte(header))
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := memfs.New(1)
		must(t, errors.Join(fsys.MkdirAll("/d/state"), disk.WriteFileAtomic(fsys, journalName, data)))
		j, err := Open(fsys, journalName, 0)
		if err != nil {
			return
		}
		s := toJSON(j.Settings())
		for {
			if _, ok, err := j.NextSeeds(); err != nil {
				t.Fatal(err)
			} else if !ok {
				break
			}
			j.Fed()
		}
		must(t, j.Close())
		if j, err = Open(fsys, journalName, 0); err != nil || toJSON(j.Settings()) != s {
			t.Fatalf("opened again: %v", err)
		}
	})
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestManyRules: one change blocks many hosts, each once, also after a restart and a new beginning.
func TestManyRules(t *testing.T) {
	fsys := memfs.New(1)
	j := newJournal(t, fsys, 0)
	add(t, j, Change{Op: OpBlock, Rule: "- host h7.example"})
	var rules []string
	for i := range MaxBlocked {
		rules = append(rules, fmt.Sprintf("- host h%d.example", i))
	}
	made, err := j.Append(Change{Op: OpBlock, Rules: rules}, testTime)
	if err != nil || made.Count != MaxBlocked || len(j.Settings().Blocked) != MaxBlocked {
		t.Fatalf("%d rules of %d: %v", len(j.Settings().Blocked), made.Count, err)
	}
	if last := j.Last(1)[0]; last.Rules != nil || last.Count != MaxBlocked {
		t.Errorf("the last change has %d rules, count %d", len(last.Rules), last.Count)
	}
	must(t, j.Close())
	for range 2 { // the first Open rewrites the file
		j, err = Open(fsys, j.name, 0)
		must(t, err)
		if n := len(j.Settings().Blocked); n != MaxBlocked {
			t.Errorf("%d rules after a restart", n)
		}
		must(t, j.Close())
	}
	j = newJournal(t, fsys, 0)
	add(t, j, Change{Op: OpUnblock, Rule: "- host h9.example"})
	for _, c := range []Change{{Op: OpBlock, Rules: []string{"- host a", "b\nc"}}, {Op: OpBlock, Rules: []string{""}},
		{Op: OpBlock, Rule: "x", Rules: []string{"y"}}, {Op: OpUnblock, Rules: []string{"- host h1.example"}},
		{Op: OpBlock, Rules: []string{"- host one", "- host two"}}} {
		if _, err := j.Append(c, testTime); !IsRefused(err) || !IsRefused(j.Fits(c)) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// TestStamps: the last order about a rule wins, in whatever order they come, and survives a new start and a rewritten
// journal. A rule that was never blocked can be unblocked by an order.
func TestStamps(t *testing.T) {
	t.Parallel()
	fsys := memfs.New(1)
	j := newJournal(t, fsys, 0)
	take := func(op Op, stamp int64, rules ...string) {
		c := Change{Op: op, Stamp: stamp, Rules: rules, Who: "eve"}
		if len(rules) == 1 {
			c.Rule, c.Rules = rules[0], nil
		}
		add(t, j, c)
	}
	take(OpUnblock, 20, "- host a")
	take(OpBlock, 10, "- host a", "- host b", "- host c") // came late
	take(OpBlock, 30, "- host d")
	take(OpUnblock, 40, "- host c")
	take(OpBlock, 35, "- host c")
	check := func(what string) {
		t.Helper()
		s := j.Settings()
		if strings.Join(s.Blocked, ", ") != "- host b, - host d" || len(s.Orders) != 4 ||
			s.Orders["- host c"] != (Order{Stamp: 40, Who: "eve", Off: true}) || s.Orders["- host b"].Stamp != 10 {
			t.Errorf("%s: %+v", what, s)
		}
	}
	check("at first")
	must(t, j.compact())
	j = newJournal(t, fsys, 0)
	check("after a rewrite and a start")
}
