package admin

import (
	"net/http"
	"strings"

	"drumbeat/disk"
	"drumbeat/state/erase"
)

// erase takes a request to erase pages.
func (s *Server) erase(r *http.Request) (any, error) {
	var in Erase
	if err := readBody(r, &in); err != nil {
		return nil, err
	}
	src := erase.Source{Hosts: in.Hosts, PLDs: in.PLDs, URLs: in.URLs, ListName: "list"}
	if in.List != "" {
		src.List = strings.NewReader(in.List)
	}
	req, err := s.opt.Control.Erase(r.Context(), &erase.Ask{Who: who(r), Reason: in.Reason, Hide: in.Hide,
		Later: in.Later, Source: src, Order: r.URL.Query().Get("order")})
	if err != nil {
		return nil, err
	}
	return EraseTaken{req.Number, req.Digest, req.Hosts, req.PLDs, req.URLs,
		Everywhere{req.Order != "", req.Alone}}, nil
}

// erasures lists the requests. It reads files, as many as requests were ever made.
func (s *Server) erasures() (any, error) {
	waiting, err := erase.RequestsOf(disk.OS(), s.opt.Dirs)
	if err != nil {
		return nil, err
	}
	done, err := erase.RecordsOf(disk.OS(), s.opt.Dirs)
	if err != nil {
		return nil, err
	}
	out := EraseReport{Waiting: []EraseRow{}, Done: []EraseRow{}}
	for i := range waiting {
		w := &waiting[i]
		out.Waiting = append(out.Waiting, EraseRow{EraseTaken: EraseTaken{w.Number, w.Digest, w.Hosts, w.PLDs, w.URLs,
			Everywhere{Everywhere: w.Order != ""}},
			Time: w.Time, Later: w.Later, Error: w.Error})
	}
	for i := range done {
		d := &done[i]
		out.Done = append(out.Done, EraseRow{EraseTaken: EraseTaken{d.Number, d.Digest, d.Hosts, d.PLDs, d.URLs,
			Everywhere{Everywhere: d.Order != ""}},
			Time: d.Time, Ended: d.Ended, Captures: d.Erased.Captures, With: d.With})
	}
	return out, nil
}
