package audit

import (
	"fmt"

	"drumbeat/state/audit"
)

// The JSON forms of the reports. Unknown numbers are omitted.
type auditJSON struct {
	Crawl      string           `json:"crawl"`
	Checkpoint uint64           `json:"checkpoint"`
	Balanced   bool             `json:"balanced"`
	Unique     placeJSON        `json:"unique"`
	Places     []placeJSON      `json:"places"`
	Refused    map[string]int64 `json:"refused"`
	Bad        []string         `json:"bad"`
	Cluster    *audit.Cluster   `json:"cluster,omitempty"` // of a node of a cluster
}

type placeJSON struct {
	Place   string `json:"place"`
	Files   *int64 `json:"files,omitempty"`
	Account int64  `json:"account"`
	Keys    string `json:"keys"` // sum of the keys by account
	OK      bool   `json:"ok"`
}

// Report is the JSON form of a deep audit, and of the findings of a repair.
type Report struct {
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

	Remote        string `json:"remote,omitempty"`
	RemoteObjects int64  `json:"remote_objects,omitempty"`
	RemoteChecked int64  `json:"remote_checked,omitempty"`
	RemoteUnread  int64  `json:"remote_unread_warc_files,omitempty"`

	StoredAll  bool  `json:"all_fetched_known"`
	RefusedAll bool  `json:"all_refused_known"`
	Disagree   int64 `json:"log_lines_that_disagree"`
}

func placeOf(r *audit.Row) placeJSON {
	p := placeJSON{Place: r.Place, Account: r.Account.N, Keys: fmt.Sprintf("%016x%016x", r.Account.Hi, r.Account.Lo),
		OK: r.OK()}
	if !r.Ended {
		p.Files = &r.Files.N
	}
	return p
}

func auditOf(rep *audit.Report) auditJSON {
	j := auditJSON{Crawl: rep.Crawl, Checkpoint: rep.Checkpoint, Balanced: rep.Balanced(), Unique: placeOf(&rep.Unique),
		Refused: rep.Refused, Bad: append([]string{}, rep.Bad...), Cluster: rep.Cluster}
	for i := range rep.Rows {
		j.Places = append(j.Places, placeOf(&rep.Rows[i]))
	}
	return j
}

// ReportOf converts the report of audit.Deep.
func ReportOf(rep *audit.DeepReport) Report {
	o := &rep.Output
	j := Report{auditJSON: auditOf(&rep.Report), Damaged: rep.DamageCount, NotSeen: rep.Keys.NotSeen,
		Twice: rep.Keys.Twice, Nowhere: rep.Keys.Nowhere, Examples: append([]string{}, rep.Keys.Examples...),
		Unnamed: rep.UnnamedCount, Bytes: rep.Bytes, Seconds: rep.Elapsed.Seconds(), Damages: []damageJSON{},
		Output: outputJSON{Checked: o.Checked, Records: o.WARC.Records, Responses: o.WARC.Captures,
			IndexLines: o.WARC.Lines, AbsentFiles: o.WARC.AbsentFiles, AbsentIndexes: o.WARC.AbsentIndexes,
			Remote: o.Remote.Store, RemoteObjects: o.Remote.Objects, RemoteChecked: o.Remote.Checked,
			RemoteUnread: o.Remote.Unread, LogLines: o.LogLines, StoredAll: o.StoredAll, RefusedAll: o.RefusedAll,
			Disagree: o.Disagree}}
	j.Balanced = rep.Balanced()
	for _, s := range rep.Structures {
		j.Structures = append(j.Structures, structureJSON{s.Name, s.Records, s.Lost, s.Damages})
	}
	for _, d := range rep.Damages {
		j.Damages = append(j.Damages, damageJSON{d.Structure, d.File, d.Offset, d.Want, d.Got})
	}
	return j
}
