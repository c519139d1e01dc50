package cluster

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestStatusForms: a status is read as it was written, also one of a version without leases or with fields
// that this one does not know. What is no status of the key's node is refused.
func TestStatusForms(t *testing.T) {
	is := Status{Node: 1, Time: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC), Pages: 7,
		Leases: &LeaseStatus{Held: 3, Wanted: 2, Longest: 1.5, URLs: 9,
			Taken: 8, HandedOver: 4, Lost: 1, Resting: true, Starting: true}}
	data, err := is.Encode()
	must(t, err)
	if got, err := DecodeStatus(StatusKey(1), data, 2); err != nil || !reflect.DeepEqual(*got, is) {
		t.Errorf("got %+v, %v, want %+v", got, err, is)
	}
	// Written before there were leases.
	const older = `{"node":1,"time":"2026-05-04T03:02:01Z","pages":7,"pagesPerSecond":0,"queued":0,"diskUsed":0,` +
		`"diskLimit":0,"checkpoint":0,` +
		`"waiting":0,"waitingBytes":0,"connects":0}`
	is.Leases = nil
	for _, form := range []string{older, strings.Replace(older, `"pages"`, `"leasez":{"held":"many"},"pages"`, 1)} {
		if got, err := DecodeStatus(StatusKey(1), []byte(form), 2); err != nil || !reflect.DeepEqual(*got, is) {
			t.Errorf("%s: got %+v, %v", form, got, err)
		}
	}
	for _, form := range []string{"", "null", "[]", `{"node":0}`, `{"node":1,"leases":{"held":"many"}}`,
		`{"node":1,"leases":[]}`} {
		if st, err := DecodeStatus(StatusKey(1), []byte(form), 2); err == nil ||
			!strings.Contains(err.Error(), "status.1") {
			t.Errorf("%s: %+v, %v", form, st, err)
		}
	}
	if _, err := DecodeStatus(StatusKey(1), make([]byte, maxStatusBytes+1), 2); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

// TestGivenUp: a node that one of the others has abandoned is not missing, and a node that is not there cannot be.
func TestGivenUp(t *testing.T) {
	now := time.Now()
	list := []*Status{{Time: now, Abandoned: []int{2}}, {Node: 1, Time: now, Abandoned: []int{2}}, nil,
		{Node: 3, Time: now.Add(-time.Hour)}}
	if o := Summarize(list, now); !reflect.DeepEqual(o.Abandoned, []int{2}) || !reflect.DeepEqual(o.Missing, []int{3}) {
		t.Errorf("abandoned %v, missing %v", o.Abandoned, o.Missing)
	}
	for _, form := range []string{`{"node":1,"givenUp":[2]}`, `{"node":1,"givenUp":[-1]}`,
		`{"node":1,"departed":[2]}`} {
		if st, err := DecodeStatus(StatusKey(1), []byte(form), 2); err == nil {
			t.Errorf("%s: %+v", form, st)
		}
	}
}
