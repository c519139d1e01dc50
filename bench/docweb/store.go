package docweb

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime"
	"sync"
	"sync/atomic"
)

// stored is a page: the head in the host's arena, then blocks, which follow from the page's number, and the
// foot.
type stored struct {
	at, head   uint32 // offset and length of the head, as it is sent
	raw        uint32 // length of the page, decoded
	sent       uint32 // length of the body as it is sent
	crc        uint32 // of the decoded page
	big, small uint16 // numbers of blocks
}

// block is text that many pages share.
type block struct{ raw, packed []byte }

// Sizes and numbers of blocks: so many that pages do not resemble each other. A small web has fewer big ones, one
// for so many pages.
const (
	bigBytes    = 8192
	smallBytes  = 1024
	bigBlocks   = 768
	leastBlocks = 64
	blockPages  = 16
	smallBlocks = 256
)

// Levels of compression. There is a head for each page, so heads have the fastest.
const (
	headLevel  = 1
	blockLevel = 6
)

var gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3}

// lastBlock ends a stream of deflate.
var lastBlock = []byte{3, 0}

// packer compresses parts of a stream so that they can be joined.
type packer struct {
	level int
	buf   bytes.Buffer
	z     *flate.Writer
}

// pack returns a part that needs nothing before it and ends at a byte; valid until the next call.
func (p *packer) pack(text []byte) []byte {
	p.buf.Reset()
	if p.z == nil {
		p.z, _ = flate.NewWriter(&p.buf, p.level) // the level is valid
	} else {
		p.z.Reset(&p.buf)
	}
	p.z.Write(text) // to a buffer: no error
	p.z.Flush()
	return p.buf.Bytes()
}

// makeBlocks makes the pool.
func (w *Web) makeBlocks() {
	p := packer{level: blockLevel}
	pack := func(raw []byte) block { return block{raw, bytes.Clone(p.pack(raw))} }
	for i := range max(leastBlocks, min(w.pages/blockPages, bigBlocks)) {
		w.big = append(w.big, pack(newRng(w.opt.Seed, 7, 0, uint64(i)).block(bigBytes)))
	}
	for i := range smallBlocks {
		w.small = append(w.small, pack(newRng(w.opt.Seed, 7, 1, uint64(i)).block(smallBytes)))
	}
	w.foot = pack([]byte(foot))
}

// blocks calls yield with the blocks of a page and the foot, in their order.
func (w *Web) blocks(h *Host, i int, yield func(*block)) {
	s := &h.store[i]
	r := newRng(w.opt.Seed, 8, uint64(h.id), uint64(i))
	for range s.big {
		yield(&w.big[r.below(len(w.big))])
	}
	for range s.small {
		yield(&w.small[r.below(len(w.small))])
	}
	yield(&w.foot)
}

// render makes all pages, on all processors.
func (w *Web) render() error {
	const part = 256 // pages of a host that one goroutine renders at a time
	type job struct {
		h    *Host
		from int
	}
	var jobs []job
	for _, h := range w.hosts {
		if h.role > lists {
			continue
		}
		h.store = make([]stored, h.Pages)
		for from := 0; from < h.Pages; from += part {
			jobs = append(jobs, job{h, from})
		}
	}
	done := make([][]byte, len(jobs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			p := packer{level: headLevel}
			for k := int(next.Add(1) - 1); k < len(jobs); k = int(next.Add(1) - 1) {
				j := jobs[k]
				for i := j.from; i < min(j.from+part, j.h.Pages); i++ {
					done[k] = w.renderPage(&p, done[k], j.h, i)
				}
			}
		})
	}
	wg.Wait()
	for k, j := range jobs {
		at := len(j.h.arena)
		if at+len(done[k]) > 1<<32-1 {
			return fmt.Errorf("docweb: the pages of %s take more than 4 GiB", j.h.Name)
		}
		for i := j.from; i < min(j.from+part, j.h.Pages); i++ {
			j.h.store[i].at += uint32(at)
		}
		j.h.arena = append(j.h.arena, done[k]...)
		done[k] = nil
	}
	return nil
}

// renderPage appends the head of a page to arena and sets the page's entry; at is relative to the arena.
func (w *Web) renderPage(p *packer, arena []byte, h *Host, i int) []byte {
	s := &h.store[i]
	head := w.head(nil, h, i)
	rest := max(0, w.size(h, i)-len(head)-len(foot)+smallBytes/2)
	s.big, s.small = uint16(rest/bigBytes), uint16(rest%bigBytes/smallBytes)
	s.raw, s.crc = uint32(len(head)), crc32.ChecksumIEEE(head)
	packed := 0
	w.blocks(h, i, func(b *block) {
		s.raw += uint32(len(b.raw))
		s.crc = crc32.Update(s.crc, crc32.IEEETable, b.raw)
		packed += len(b.packed)
	})
	if !h.Plain {
		head = p.pack(head)
		s.sent = uint32(len(gzipHead) + len(head) + packed + len(lastBlock) + 8)
	} else {
		s.sent = s.raw
	}
	s.at, s.head = uint32(len(arena)), uint32(len(head))
	return append(arena, head...)
}

// appendBody appends the body of a page as it is sent.
func (w *Web) appendBody(b []byte, h *Host, i int) []byte {
	s := &h.store[i]
	head := h.arena[s.at : s.at+s.head]
	if h.Plain {
		b = append(b, head...)
		w.blocks(h, i, func(k *block) { b = append(b, k.raw...) })
		return b
	}
	b = append(append(b, gzipHead...), head...)
	w.blocks(h, i, func(k *block) { b = append(b, k.packed...) })
	b = append(b, lastBlock...)
	b = binary.LittleEndian.AppendUint32(b, s.crc)
	return binary.LittleEndian.AppendUint32(b, s.raw)
}

// choosePlain lets hosts with about a third of all bytes send their pages uncompressed. The largest two
// compress.
func (w *Web) choosePlain() {
	left := w.pages / 3
	for _, id := range newRng(w.opt.Seed, 9).permutation(w.opt.Hosts) {
		if h := w.hosts[id]; id >= 2 && h.Pages <= left {
			h.Plain = true
			left -= h.Pages
		}
	}
}
