package drum

import (
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestKeyFilter: a key that was added is always known; the share of others taken for known is as stated.
func TestKeyFilter(t *testing.T) {
	const size = 1 << 20
	f := NewKeyFilter(size)
	defer f.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	var keys []Key
	add := func(n int) {
		for range n {
			k := Key(rng.Uint64())
			f.Add(k)
			keys = append(keys, k)
		}
	}
	for _, tt := range []struct{ bitsPerKey, most float64 }{{10, 0.015}, {4, 0.37}, {2.4, 0.8}} {
		add(int(8*size/tt.bitsPerKey) - len(keys))
		wrong := 0
		const probes = 20_000
		for range probes {
			// A probe adds its key, which is 1 in 40 of the keys at most.
			if f.Add(Key(rng.Uint64())) {
				wrong++
			}
		}
		t.Logf("%.1f bits a key: %.4f", tt.bitsPerKey, float64(wrong)/probes)
		if share := float64(wrong) / probes; share > tt.most {
			t.Errorf("with %.1f bits a key, %.3f of new keys are taken for known, want at most %.3f", tt.bitsPerKey,
				share, tt.most)
		}
	}
	for _, k := range keys {
		if !f.Add(k) {
			t.Fatalf("key %x was added and is not known", k)
		}
	}
}

// TestKeyFilterTouchesLittle: a few keys touch a small part of the memory, and stay known when they are more.
func TestKeyFilterTouchesLittle(t *testing.T) {
	const size = 64 << 20
	f := NewKeyFilter(size)
	defer f.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	keys := make([]Key, 10_000)
	for i := range keys {
		keys[i] = Key(rng.Uint64())
		f.Add(keys[i])
	}
	resident := make([]byte, size/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&f.mem[0])), size,
		uintptr(unsafe.Pointer(&resident[0]))); errno != 0 {
		t.Skip("mincore: ", errno)
	}
	pages := 0
	for _, r := range resident {
		pages += int(r & 1)
	}
	if most := len(resident) / 8; pages > most { // with huge pages, the small part may take two of them
		t.Errorf("%d keys touch %d pages of %d, want at most %d", len(keys), pages, len(resident), most)
	}
	for f.room.Load() > 0 {
		f.Add(Key(rng.Uint64()))
	}
	for range 10_000 {
		keys = append(keys, Key(rng.Uint64()))
		f.Add(keys[len(keys)-1])
	}
	for _, k := range keys {
		if !f.Add(k) {
			t.Fatalf("key %x was added and is not known", k)
		}
	}
}

func BenchmarkKeyFilter(b *testing.B) {
	f := NewKeyFilter(64 << 20)
	defer f.Close()
	k := Key(1)
	for b.Loop() {
		k = k*0x9e3779b97f4a7c15 + 1
		f.Add(k)
	}
}
