package list

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type link = Link[element]

type element struct {
	link
	number int
}

type elements = List[element, *element]

// numbers returns the numbers of the elements from the front; it also checks the backward links.
func numbers(t *testing.T, l *elements) (all []int) {
	t.Helper()
	var last *element
	for e := l.Front(); e != nil; e = l.Next(e) {
		if l.Prev(e) != last {
			t.Fatalf("before element %d: got %v, want %v", e.number, l.Prev(e), last)
		}
		all, last = append(all, e.number), e
	}
	if l.Back() != last || l.Len() != len(all) {
		t.Fatalf("last element %v, length %d; want %v, %d", l.Back(), l.Len(), last, len(all))
	}
	return all
}

// TestModel compares two lists that exchange elements with slices.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var lists [2]elements
	var models [2][]int
	all := make([]element, 20)
	in := make([]int, len(all)) // 0: no list, otherwise the list's index + 1
	for i := range all {
		all[i].number = i
	}
	for range 10_000 {
		n := rng.IntN(len(all))
		e := &all[n]
		if at := in[n] - 1; at >= 0 {
			lists[at].Remove(e)
			models[at] = slices.DeleteFunc(models[at], func(m int) bool { return m == n })
			in[n] = 0
			if e.link != (link{}) {
				t.Fatalf("seed %d: element %d still has links", seed, n)
			}
		} else {
			at := rng.IntN(2)
			l, m := &lists[at], &models[at]
			switch where := rng.IntN(len(*m) + 2); where {
			case 0:
				l.PushFront(e)
				*m = slices.Insert(*m, 0, n)
			case len(*m) + 1:
				l.PushBack(e)
				*m = append(*m, n)
			default:
				l.InsertAfter(e, &all[(*m)[where-1]])
				*m = slices.Insert(*m, where, n)
			}
			in[n] = at + 1
		}
		for at := range lists {
			if got := numbers(t, &lists[at]); !slices.Equal(got, models[at]) {
				t.Fatalf("seed %d: list %d: got %v, want %v", seed, at, got, models[at])
			}
		}
	}
}

// TestAllocations: no operation allocates.
func TestAllocations(t *testing.T) {
	var l elements
	var a, b element
	if n := testing.AllocsPerRun(100, func() {
		l.PushBack(&a)
		l.PushFront(&b)
		l.Remove(&a)
		l.Remove(&b)
	}); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

func BenchmarkPushRemove(b *testing.B) {
	var l elements
	all := make([]element, 16)
	for i := range all {
		l.PushBack(&all[i])
	}
	for b.Loop() {
		e := l.Front()
		l.Remove(e)
		l.PushBack(e)
	}
}
