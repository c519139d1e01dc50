package admin

import (
	"encoding/json"
	"errors"
	"net/http"

	"drumbeat/crawl/operate"
	"drumbeat/state/changes"
)

// Problem is an error as RFC 9457 describes it.
type Problem struct {
	Type   string `json:"type" doc:"Always about:blank: the status is the kind."`
	Title  string `json:"title" doc:"The status in words."`
	Status int    `json:"status" doc:"The HTTP status code."`
	Detail string `json:"detail" doc:"The problem, in one sentence."`
}

func (p *Problem) Error() string { return p.Detail }

// problem returns an error with a status.
func problem(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// problemOf turns an error of a handler into a problem.
func problemOf(err error) *Problem {
	var p *Problem
	var full *changes.FullError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, operate.ErrNotRunning):
		return problem(http.StatusServiceUnavailable, err.Error())
	case changes.IsRefused(err):
		return problem(http.StatusUnprocessableEntity, err.Error())
	case errors.As(err, &full):
		return problem(http.StatusInsufficientStorage, err.Error())
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, err.Error())
	}
	return problem(http.StatusInternalServerError, err.Error())
}

// writeProblem answers with an error.
func writeProblem(w http.ResponseWriter, err error) {
	p := problemOf(err)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="drumbeat"`)
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		writeProblem(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client is gone
}
