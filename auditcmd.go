package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/crawl"
	"drumbeat/disk"
)

// Run reads a stopped crawl and prints the balance.
func (c *auditCmd) Run(a *app) error {
	p := &auditProgress{out: a.stderr, began: time.Now(), terminal: isTerminal(a.stderr)}
	opt := crawl.AuditOptions{FS: disk.OS(), Dirs: clean(c.Dir), Out: clean(c.Out), RAMBytes: int64(c.RAM), TempDir: c.Tmp,
		Progress: p.show}
	if c.Deep {
		rep, err := crawl.AuditDeep(opt)
		p.clear()
		if err != nil {
			return err
		}
		return c.deep(a, rep)
	}
	rep, err := crawl.AuditBalance(opt)
	p.clear()
	if err != nil {
		return err
	}
	if c.JSON {
		if err := writeJSON(a.stdout, auditOf(rep)); err != nil {
			return err
		}
	} else if err := printBalance(a.stdout, rep, p); err != nil {
		return err
	}
	return balanced(rep.Balanced())
}

// deep prints what AuditDeep found. Damage has an exit code of its own.
func (c *auditCmd) deep(a *app, rep *crawl.DeepReport) error {
	if c.JSON {
		if err := writeJSON(a.stdout, deepOf(rep)); err != nil {
			return err
		}
	} else {
		if err := rep.Write(a.stdout); err != nil {
			return err
		}
		printRefused(a.stdout, rep.Refused)
	}
	if rep.DamageCount > 0 {
		return &ended{code: exitDamage, why: "files of the crawl are damaged", quiet: true}
	}
	return balanced(rep.Balanced())
}

func balanced(yes bool) error {
	if !yes {
		return &ended{code: exitFailure, why: "the crawl does not balance", quiet: true}
	}
	return nil
}

func printBalance(w io.Writer, rep *crawl.AuditReport, p *auditProgress) error {
	if err := rep.Write(w); err != nil {
		return err
	}
	printRefused(w, rep.Refused)
	_, err := fmt.Fprintf(w, "read %s in %v, %s/s\n", bytesOf(p.last.Done), p.last.Elapsed.Round(10*time.Millisecond),
		bytesOf(int64(float64(p.last.Done)/max(p.last.Elapsed.Seconds(), 1e-3))))
	return err
}

func printRefused(w io.Writer, refused map[string]int64) {
	names := make([]string, 0, len(refused))
	for name := range refused {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(w, "refused %s: %s\n", name, humanize.Comma(refused[name]))
	}
}

func bytesOf(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && terminalWidth(f) > 0
}

// auditProgress prints how far a reading of files is: on a terminal a line that is written anew, elsewhere one now and then.
type auditProgress struct {
	out      io.Writer
	terminal bool
	began    time.Time
	printed  time.Time
	last     crawl.AuditProgress
}

func (p *auditProgress) show(now crawl.AuditProgress) {
	p.last = now
	if !p.terminal && (now.Elapsed < logEvery || time.Since(p.printed) < logEvery) {
		return
	}
	p.printed = time.Now()
	rate := float64(now.Done) / max(now.Elapsed.Seconds(), 1e-3)
	text := fmt.Sprintf("%s of %s, %s/s", bytesOf(now.Done), bytesOf(max(now.Total, now.Done)), bytesOf(int64(rate)))
	if now.Total > now.Done && rate > 0 {
		text += fmt.Sprintf(", %v left", time.Duration(float64(now.Total-now.Done)/rate*1e9).Round(time.Second))
	}
	if now.What != "" {
		text += ": " + now.What
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
		return
	}
	fmt.Fprintln(p.out, text)
}

// clear leaves the terminal's line to what comes.
func (p *auditProgress) clear() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// The JSON forms of the reports; a number that isn't known is left out.
type auditJSON struct {
	Crawl      string           `json:"crawl"`
	Checkpoint uint64           `json:"checkpoint"`
	Balanced   bool             `json:"balanced"`
	Unique     placeJSON        `json:"unique"`
	Places     []placeJSON      `json:"places"`
	Refused    map[string]int64 `json:"refused"`
	Bad        []string         `json:"bad"`
}

type placeJSON struct {
	Place   string `json:"place"`
	Files   *int64 `json:"files,omitempty"`
	Account int64  `json:"account"`
	Keys    string `json:"keys"` // sum of the keys by account
	OK      bool   `json:"ok"`
}

type deepJSON struct {
	auditJSON
	Structures []structureJSON `json:"structures"`
	Damages    []damageJSON    `json:"damages"`
	Damaged    int64           `json:"damaged_pieces"`
	NotSeen    int64           `json:"keys_not_in_urlseen"`
	Twice      int64           `json:"keys_more_than_once"`
	Nowhere    int64           `json:"keys_in_no_place"`
	Examples   []string        `json:"examples"`
	Output     outputJSON      `json:"output"`
	Unnamed    int64           `json:"files_left_over"`
	Bytes      int64           `json:"bytes_read"`
	Seconds    float64         `json:"seconds"`
}

type structureJSON struct {
	Name    string `json:"name"`
	Records int64  `json:"records"`
	Lost    int64  `json:"lost"`
	Damages int64  `json:"damages"`
}

type damageJSON struct {
	Structure string `json:"structure"`
	File      string `json:"file,omitempty"`
	Offset    int64  `json:"offset"`
	Want      string `json:"want,omitempty"`
	Got       string `json:"got"`
}

type outputJSON struct {
	Checked       bool  `json:"checked"`
	Records       int64 `json:"records"`
	Responses     int64 `json:"responses"`
	IndexLines    int64 `json:"index_lines"`
	AbsentFiles   int64 `json:"absent_warc_files"`
	AbsentIndexes int64 `json:"absent_indexes"`
	LogLines      int64 `json:"log_lines"`
	StoredAll     bool  `json:"all_fetched_known"`
	RefusedAll    bool  `json:"all_refused_known"`
	Disagree      int64 `json:"log_lines_that_disagree"`
}

func placeOf(r *crawl.AuditRow) placeJSON {
	p := placeJSON{Place: r.Place, Account: r.Account.N, Keys: fmt.Sprintf("%016x%016x", r.Account.Hi, r.Account.Lo), OK: r.OK()}
	if !r.Ended {
		p.Files = &r.Files.N
	}
	return p
}

func auditOf(rep *crawl.AuditReport) auditJSON {
	j := auditJSON{Crawl: rep.Crawl, Checkpoint: rep.Checkpoint, Balanced: rep.Balanced(), Unique: placeOf(&rep.Unique),
		Refused: rep.Refused, Bad: append([]string{}, rep.Bad...)}
	for i := range rep.Rows {
		j.Places = append(j.Places, placeOf(&rep.Rows[i]))
	}
	return j
}

func deepOf(rep *crawl.DeepReport) deepJSON {
	o := &rep.Output
	j := deepJSON{auditJSON: auditOf(&rep.AuditReport), Damaged: rep.DamageCount, NotSeen: rep.Keys.NotSeen, Twice: rep.Keys.Twice,
		Nowhere: rep.Keys.Nowhere, Examples: append([]string{}, rep.Keys.Examples...), Unnamed: rep.UnnamedCount, Bytes: rep.Bytes,
		Seconds: rep.Elapsed.Seconds(), Damages: []damageJSON{}, Output: outputJSON{Checked: o.Checked, Records: o.WARC.Records,
			Responses: o.WARC.Captures, IndexLines: o.WARC.Lines, AbsentFiles: o.WARC.AbsentFiles, AbsentIndexes: o.WARC.AbsentIndexes,
			LogLines: o.LogLines, StoredAll: o.StoredAll, RefusedAll: o.RefusedAll, Disagree: o.Disagree}}
	j.Balanced = rep.Balanced()
	for _, s := range rep.Structures {
		j.Structures = append(j.Structures, structureJSON{s.Name, s.Records, s.Lost, s.Damages})
	}
	for _, d := range rep.Damages {
		j.Damages = append(j.Damages, damageJSON{d.Structure, d.File, d.Offset, d.Want, d.Got})
	}
	return j
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
