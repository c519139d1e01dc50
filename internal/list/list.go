// Package list is a doubly linked list whose elements embed their links.
//
// An element can be removed in constant time without a search, and no operation allocates. Package polite
// uses such lists for its queues, package health for its table of hosts.
//
// An element type embeds Link of itself. Link provides the method that List needs:
//
//	type host struct {
//		link // type link = list.Link[host]
//		name string
//	}
//
//	var line list.List[host, *host]
//	line.PushBack(&host{name: "example.org"})
//
// # Contract
//
// An element is in at most one list at a time. The list does not check this: inserting an element that is
// in a list, or removing one from a list that it is not in, corrupts both lists. The zero List is empty and
// ready for use; the zero Link is in no list. To remove elements in a loop, call Next before Remove.
//
// # Concurrency and cost
//
// A List is not safe for concurrent use. It takes 24 bytes, a Link 16. Each operation takes a few
// nanoseconds.
package list

// Link is the link of a T; T embeds it.
type Link[T any] struct{ prev, next *T }

// ListLink returns the link. Types that embed a Link get this method.
func (k *Link[T]) ListLink() *Link[T] { return k }

// Element is a pointer to a T that embeds a Link[T].
type Element[T any] interface {
	*T
	ListLink() *Link[T]
}

// List is a list of Ts; P is *T.
type List[T any, P Element[T]] struct {
	head, tail *T
	n          int
}

// Len returns the number of elements.
func (l *List[T, P]) Len() int { return l.n }

// Front returns the first element, nil for an empty list.
func (l *List[T, P]) Front() *T { return l.head }

// Back returns the last element, nil for an empty list.
func (l *List[T, P]) Back() *T { return l.tail }

// Next returns the element after x, nil if x is the last one.
func (l *List[T, P]) Next(x *T) *T { return P(x).ListLink().next }

// Prev returns the element before x, nil if x is the first one.
func (l *List[T, P]) Prev(x *T) *T { return P(x).ListLink().prev }

// PushBack inserts x as the last element.
func (l *List[T, P]) PushBack(x *T) { l.InsertAfter(x, l.tail) }

// PushFront inserts x as the first element.
func (l *List[T, P]) PushFront(x *T) { l.InsertAfter(x, nil) }

// InsertAfter inserts x after an element of the list, or as the first element if after is nil.
func (l *List[T, P]) InsertAfter(x, after *T) {
	k := P(x).ListLink()
	k.prev = after
	if after == nil {
		k.next, l.head = l.head, x
	} else {
		a := P(after).ListLink()
		k.next, a.next = a.next, x
	}
	if k.next == nil {
		l.tail = x
	} else {
		P(k.next).ListLink().prev = x
	}
	l.n++
}

// Remove removes x from the list.
func (l *List[T, P]) Remove(x *T) {
	k := P(x).ListLink()
	if k.prev == nil {
		l.head = k.next
	} else {
		P(k.prev).ListLink().next = k.next
	}
	if k.next == nil {
		l.tail = k.prev
	} else {
		P(k.next).ListLink().prev = k.prev
	}
	*k = Link[T]{}
	l.n--
}
