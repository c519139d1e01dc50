package storedweb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/netip"
	"path"
	"sync"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
)

// Options are the settings of a Web.
type Options struct {
	FS   disk.FS
	Dirs []string // with WARC files, or with a directory warc of them
	// Scratch is a directory for the table and the seeds; the caller deletes it after Close.
	Scratch string
	// RAMBytes bounds the memory in which the table is sorted; at least 4 MiB.
	RAMBytes int64
	// Seeds says that the seeds of the stored crawl are wanted.
	Seeds bool
	// Delays says that answers take as long as they took when they were stored, by the field fetchTimeMs.
	Delays bool
	// DNSServers is the number of name servers; 0 means 1.
	DNSServers int
	// Port is the port of the web, DNSPort that of the first name server; 0 means a free one.
	Port, DNSPort uint16
	// Requests gets a line for each request: the time (RFC 3339, UTC), the server's address and the URL, in one
	// Write. It must be safe for concurrent use; its errors are ignored. nil: no lines.
	Requests io.Writer
}

// Web is a stored crawl that can be served.
type Web struct {
	opt    Options
	files  []file
	table  *table
	found  Found
	ports  []ports.Range
	seeds  string
	counts counters

	nameSlots slots
	slots     slots
	ca        *simweb.Authority

	port  uint16
	names []*simweb.NameServer
	conns *simweb.Conns
	once  sync.Once // for Close
	err   error     // of Close
}

// maxOpened bounds the WARC files that stay open.
const maxOpened = 256

// Open indexes the stored crawl. Start serves it. The caller must call Close in any case.
func Open(ctx context.Context, opt Options) (*Web, error) {
	w := &Web{opt: opt, conns: simweb.NewConns()}
	w.slots, w.nameSlots = newSlots(w, maxSlots), newSlots(w, nameSlots)
	damage := new(names)
	var err error
	if w.files, err = findFiles(opt.FS, opt.Dirs, damage.add); err != nil {
		return nil, err
	}
	x := &indexer{fs: opt.FS, files: w.files, damage: damage, maker: &maker{seed: maphash.MakeSeed(),
		sorter: extsort.New(extsort.Options{FS: opt.FS, Dir: path.Join(opt.Scratch, "sort"), RAMBytes: opt.RAMBytes})}}
	err = w.index(ctx, x)
	if err = errors.Join(err, x.sorter.Close()); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.found = x.found
	w.found.Files, w.found.URLs, w.found.Robots, w.found.Hosts = len(w.files), w.table.urls,
		w.table.robots, w.table.hosts
	w.found.DamagedCount, w.found.Damaged = damage.get()
	for p := 1; p < 1<<16; p++ {
		if x.maker.ports[p/64]&(1<<(p%64)) != 0 {
			w.ports = append(w.ports, ports.Of(uint16(p))...)
		}
	}
	for i := range min(len(w.files), maxOpened) {
		if w.files[i].opened, err = opt.FS.OpenRead(w.files[i].path); err != nil {
			return nil, errors.Join(fmt.Errorf("storedweb: %w", err), w.Close())
		}
	}
	return w, nil
}

// index makes the table and the seed file.
func (w *Web) index(ctx context.Context, x *indexer) error {
	x.canceled = func() error { return context.Cause(ctx) }
	if w.opt.Seeds {
		w.seeds = path.Join(w.opt.Scratch, "seeds.txt")
		f, err := w.opt.FS.Create(w.seeds)
		if err != nil {
			return fmt.Errorf("storedweb: %w", err)
		}
		x.seeds = bufio.NewWriter(&appender{f: f})
		err = x.readAll()
		if err == nil {
			err = x.seeds.Flush()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	} else if err := x.readAll(); err != nil {
		return err
	}
	var err error
	if w.table, err = x.maker.write(w.opt.FS, path.Join(w.opt.Scratch, "table")); err != nil {
		return fmt.Errorf("storedweb: write the table: %w", err)
	}
	return nil
}

// Found returns what Open found.
func (w *Web) Found() Found { return w.found }

// SeedFile returns the path of the file of the seeds, one a line; "" without Options.Seeds.
func (w *Web) SeedFile() string { return w.seeds }

// Ports returns the ports of the stored URLs.
func (w *Web) Ports() []ports.Range { return w.ports }

// Authority returns the authority that signs the certificates; nil before Start.
func (w *Web) Authority() *simweb.Authority { return w.ca }

// DNSAddrs returns the addresses of the name servers.
func (w *Web) DNSAddrs() (list []netip.AddrPort) {
	for _, n := range w.names {
		list = append(list, n.Addr())
	}
	return list
}

// Close stops serving, waits for all goroutines and closes the files. Counts cannot be read after it.
func (w *Web) Close() error {
	w.conns.Halt()
	w.once.Do(func() { w.err = w.close() })
	return w.err
}

func (w *Web) close() error {
	var errs []error
	for _, n := range w.names {
		errs = append(errs, n.Close())
	}
	w.conns.Close()
	w.slots.close()
	w.nameSlots.close()
	for i := range w.files {
		if f := w.files[i].opened; f != nil {
			errs = append(errs, f.Close())
		}
	}
	if w.table != nil {
		errs = append(errs, w.table.f.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("storedweb: close: %w", err)
	}
	return nil
}
