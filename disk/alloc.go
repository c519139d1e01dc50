package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Alloc returns n zero bytes of anonymous memory outside the Go heap, or nil for n = 0. The memory is page
// aligned, and a page takes RAM only once it is touched. Alloc panics with an OutOfMemory when the mapping
// fails. The memory stays allocated until the caller passes it to Free.
func Alloc(n int) []byte {
	if n == 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(OutOfMemory{n, err})
	}
	return b
}

// OutOfMemory is the value with which Alloc panics. It is a fault of the machine, not of the program.
type OutOfMemory struct {
	Bytes int
	Err   error
}

func (e OutOfMemory) Error() string {
	return fmt.Sprintf("disk: out of memory: map %d bytes: %v", e.Bytes, e.Err)
}

func (e OutOfMemory) Unwrap() error { return e.Err }

// Free releases memory from Alloc. b must start where that memory starts. Later accesses to it fault.
func Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	if err := unix.Munmap(b[:cap(b)]); err != nil {
		panic(fmt.Sprintf("BUG: disk: free of %d bytes that Alloc did not return: %v", cap(b), err))
	}
}
