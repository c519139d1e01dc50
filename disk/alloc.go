package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Alloc returns n zero bytes of anonymous memory outside the Go heap, page aligned; a page takes RAM only
// when it is first touched. n = 0 gives nil. It panics when the system has no address space left, as make
// does. The owner returns it with Free; nothing else does.
func Alloc(n int) []byte {
	if n == 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(fmt.Sprintf("disk: out of memory: map %d bytes: %v", n, err))
	}
	return b
}

// Free returns memory that came from Alloc; b must start where that began. Touching b afterwards is a fault.
func Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	if err := unix.Munmap(b[:cap(b)]); err != nil {
		panic(fmt.Sprintf("BUG: disk: free of %d bytes that Alloc did not return: %v", cap(b), err))
	}
}
