package cluster

import (
	"strings"
	"testing"
)

// TestReplaceValues: requests and answers come back as they were written; what no node can have written is refused.
func TestReplaceValues(t *testing.T) {
	table, err := NewTable([]float64{1, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	r := Replacement{Node: 1, Incarnation: 2, Identity: 3, Table: table.Sum(), Host: "h", Beat: 4}
	a := ReplaceAnswer{Node: 2, Of: 1, Bound: r.Bound(), Own: 1, Table: table.Sum(), Last: 9, Gone: Taken{Number: 8}}
	request := func(change func(r *Replacement)) error {
		r := r
		key := ReplaceKey(r.Node)
		change(&r)
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeReplacement(key, data, table)
		if err == nil && *got != r {
			t.Errorf("%+v became %+v", r, got)
		}
		return err
	}
	answer := func(change func(a *ReplaceAnswer)) error {
		a := a
		key := AnswerKey(a.Of, a.Node)
		change(&a)
		data, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		_, err = DecodeReplaceAnswer(key, data, table)
		return err
	}
	if err := request(func(*Replacement) {}); err != nil {
		t.Error(err)
	}
	if err := request(func(r *Replacement) { r.Done, r.Table = true, r.Table+1 }); err != nil {
		t.Errorf("done, and the table has changed since: %v", err)
	}
	if err := answer(func(*ReplaceAnswer) {}); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"another key":        request(func(r *Replacement) { r.Node = 2 }),
		"no incarnation":     request(func(r *Replacement) { r.Incarnation = 0 }),
		"too many":           request(func(r *Replacement) { r.Incarnation = maxIncarnation + 1 }),
		"no identity":        request(func(r *Replacement) { r.Identity = 0 }),
		"another table":      request(func(r *Replacement) { r.Table++ }),
		"later version":      request(func(r *Replacement) { r.V = Version + 1 }),
		"answer: key":        answer(func(a *ReplaceAnswer) { a.Node = 0 }),
		"answer: more gone":  answer(func(a *ReplaceAnswer) { a.Gone.Number = 10 }),
		"answer: gone > out": answer(func(a *ReplaceAnswer) { a.Gone.Totals.Links.N = 1 }),
		"answer: negative":   answer(func(a *ReplaceAnswer) { a.Taken.Totals.Edges.N = -1 }),
		"answer: no node":    answer(func(a *ReplaceAnswer) { a.Abandoned = []int{3} }),
		"answer: table":      answer(func(a *ReplaceAnswer) { a.Table++ }),
		"answer: life":       answer(func(a *ReplaceAnswer) { a.Own = maxIncarnation + 1 }),
	} {
		if err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	if _, err := DecodeReplacement("resync.1", []byte(strings.Repeat(" ", maxReplaceBytes+1)), table); err == nil {
		t.Error("a value without a limit was accepted")
	}
}

// TestBind: a node accepts later incarnations only, and one identity of each. Copies of the intake stay as they are.
func TestBind(t *testing.T) {
	var in Intake
	bind := func(life, identity uint64) bool {
		return in.Bind(&Replacement{Node: 1, Incarnation: life, Identity: identity}, 3)
	}
	if !bind(2, 7) || in.BoundOf(1) != (Bound{2, 7}) {
		t.Errorf("bound to %+v", in.BoundOf(1))
	}
	was := in
	if bind(2, 8) || bind(1, 9) || bind(2, 7) || in.BoundOf(1) != (Bound{2, 7}) {
		t.Errorf("bound again to %+v", in.BoundOf(1))
	}
	if !bind(3, 8) || was.BoundOf(1) != (Bound{2, 7}) || in.BoundOf(0) != (Bound{}) {
		t.Errorf("the copy is bound to %+v", was.BoundOf(1))
	}
}
