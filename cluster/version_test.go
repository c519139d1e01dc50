package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk/memfs"
)

// later is the version after this one, which these tests write and read.
const later = Version + 1

// TestCommon: a node writes what all read, and the first version while it does not know a node.
func TestCommon(t *testing.T) {
	t.Parallel()
	marks := func(reads ...int) (list []*Mark) {
		for node, n := range reads {
			list = append(list, &Mark{Node: node, ReadsTo: n})
			if n < 0 {
				list[node] = nil
			}
		}
		return list
	}
	for _, c := range []struct {
		own   int
		marks []*Mark // of nodes 0, 1 and 2; this node is node 1
		gone  int
		want  int
	}{
		{5, marks(5, -1, 5), -1, 5}, {5, marks(5, 0, 7), -1, 5}, {5, marks(3, 5, 4), -1, 3}, {4, marks(5, 5, 5), -1, 4},
		{5, marks(5, 5, 0), -1, FirstVersion}, {5, marks(5, 5, 1), -1, FirstVersion},
		{5, marks(5, 5, -1), -1, FirstVersion}, {5, marks(5, 5, -1), 2, 5}, {5, marks(5, 5, 3), 2, 5},
	} {
		gone := make([]bool, 3)
		if c.gone >= 0 {
			gone[c.gone] = true
		}
		if got := Common(c.own, 1, c.marks, gone); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestMessageVersions: the first record of a message decides its version, over a crash, too. A decoder of that
// version reads it, an older one names its version. A message of the first version has the bytes of earlier programs.
func TestMessageVersions(t *testing.T) {
	t.Parallel()
	b := newBox(t, memfs.New(1))
	version := FirstVersion
	write := func() int { return version }
	b.opt.Version = write
	must(t, b.AddLink(keyOf("a"), []byte("a")))
	must(t, b.Flush())
	version = later
	must(t, b.AddLink(keyOf("b"), []byte("b")))
	b.save(false)
	version = FirstVersion
	b.crash()
	b.opt.Version = write
	must(t, b.AddScope(1))
	must(t, b.Flush())
	must(t, b.AddPages(3))
	b.save(true)
	for number, want := range []int{FirstVersion, later, FirstVersion} {
		msg, n, ok, err := b.Next()
		if must(t, err); !ok || n != uint64(number+1) || string(msg[:4]) != fmt.Sprint("dbx", want) {
			t.Fatalf("message %d: %v, %.4q; want %d", n, ok, msg, want)
		}
		h, err := ReadHeader(msg)
		if must(t, err); h.Version != want {
			t.Errorf("message %d has version %d, want %d", n, h.Version, want)
		}
		must(t, (&Decoder{Reads: later}).Records(msg, &h, &received{}))
		err = new(Decoder).Records(msg, &h, &received{})
		if errors.Is(err, ErrVersion) != (want == later) || err != nil && !errors.Is(err, ErrMessage) {
			t.Errorf("message %d: %v", n, err)
		}
		must(t, b.Published())
	}
}

// TestMessageHeads: each version from the first to one digit's last has the same head; others are no messages.
func TestMessageHeads(t *testing.T) {
	t.Parallel()
	b := newBox(t, memfs.New(1))
	must(t, b.AddPages(7))
	b.save(true)
	msg, _, _, err := b.Next()
	must(t, err)
	for c := range 256 {
		msg := slices.Clone(msg)
		msg[3] = byte(c)
		n := len(msg) - messageSum
		binary.LittleEndian.PutUint64(msg[n:], xxhash.Sum64(msg[:n]))
		h, err := ReadHeader(msg)
		if known := c >= '2' && c <= '9'; known != (err == nil) || known && h.Version != c-'0' {
			t.Errorf("%.4q: version %d, %v", msg, h.Version, err)
		}
		if pages := new(Decoder).Pages(msg, &h); err == nil && pages != 7 { // a node counts them in each version
			t.Errorf("%.4q lends %d pages", msg, pages)
		}
	}
}

// TestFormVersions: a mark and a status of a later version are refused by their version; unknown fields are not.
func TestFormVersions(t *testing.T) {
	t.Parallel()
	mark, err := (&Mark{Node: 1, Taken: make([]Taken, 2), Out: make([]int64, 2), Gone: make([]uint64, 2),
		ResendRequests: make([]uint64, 2), ReadsTo: later}).Encode()
	must(t, err)
	status, err := (&Status{Node: 1}).Encode()
	must(t, err)
	for key, data := range map[string][]byte{MarkKey(1): mark, StatusKey(1): status} {
		decode := func(field string) (err error) {
			data := bytes.Replace(data, []byte("{"), []byte("{"+field), 1)
			if strings.HasPrefix(key, "marks") {
				_, err = DecodeMark(key, data, 2)
			} else {
				_, err = DecodeStatus(key, data, 2)
			}
			return err
		}
		for _, field := range []string{"", `"new":[{}],`, fmt.Sprintf(`"v":%d,`, Version)} {
			if err := decode(field); err != nil {
				t.Errorf("%s with %s: %v", key, field, err)
			}
		}
		err := decode(fmt.Sprintf(`"v":%d,`, later))
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
