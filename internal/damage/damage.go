package damage

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime/metrics"
	"slices"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// editBytes is the length of one step of a script of Edit: field (2 bytes), operation (1), number (8).
const editBytes = 11

// maxEdits is the number of steps of a script that Edit applies; a state with more faults finds no further
// bugs.
const maxEdits = 4

// Edit changes *v by at most maxEdits steps of script. Each changes one number, flag, string, list or
// pointer, at any depth. It does not change maps and unexported fields.
func Edit(v any, script []byte) {
	for range maxEdits {
		if len(script) < editBytes {
			return
		}
		fields := settable(reflect.ValueOf(v).Elem(), nil)
		if len(fields) == 0 {
			return
		}
		which := int(binary.LittleEndian.Uint16(script)) % len(fields)
		edit(fields[which], fields, script[2], binary.LittleEndian.Uint64(script[3:]))
		script = script[editBytes:]
	}
}

// settable appends the values in v that Edit may change.
func settable(v reflect.Value, all []reflect.Value) []reflect.Value {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				all = settable(v.Field(i), all)
			}
		}
	case reflect.Pointer:
		if all = append(all, v); !v.IsNil() {
			all = settable(v.Elem(), all)
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			all = append(all, v)
		}
		for i := range v.Len() {
			all = settable(v.Index(i), all)
		}
	default:
		if v.CanInt() || v.CanUint() || v.Kind() == reflect.Bool || v.Kind() == reflect.String {
			all = append(all, v)
		}
	}
	return all
}

// extremes are numbers that code often handles wrong.
var extremes = [...]uint64{
	0, 1, math.MaxUint64, math.MaxInt64, 1 << 63, math.MaxUint32, math.MaxInt32, 1 << 31, 1 << 32, 1 << 40, 1 << 62,
	math.MaxInt64 - 4095, 4096, 40, 2, 255,
}

// edit changes one value.
func edit(v reflect.Value, all []reflect.Value, op byte, n uint64) {
	switch {
	case v.CanInt() || v.CanUint():
		old := uint64(0)
		if v.CanInt() {
			old = uint64(v.Int())
		} else {
			old = v.Uint()
		}
		switch op % 4 {
		case 0:
			old = n
		case 1:
			old += uint64(int64(int8(n)))
		case 2:
			old = extremes[n%uint64(len(extremes))]
		case 3:
			old ^= 1 << (n % 64)
		}
		if v.CanInt() {
			v.SetInt(int64(old))
		} else {
			v.SetUint(old)
		}
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.String:
		v.SetString([]string{"", "..", "../../x", "a/b", "\x00", v.String() + "0", fmt.Sprint(n)}[n%7])
	case v.Kind() == reflect.Pointer:
		v.SetZero()
	case v.Kind() == reflect.Slice:
		editSlice(v, all, op, n)
	}
}

// editSlice drops, repeats, swaps or takes over elements.
func editSlice(v reflect.Value, all []reflect.Value, op byte, n uint64) {
	size := v.Len()
	switch op % 5 {
	case 0:
		v.SetZero()
	case 1, 2:
		if size == 0 {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			return
		}
		i := int(n % uint64(size))
		if op%5 == 1 {
			v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, size)))
		} else {
			v.Set(reflect.Append(v.Slice3(0, size, size), v.Index(i)))
		}
	case 3:
		if size > 1 {
			reflect.Swapper(v.Interface())(int(n%uint64(size)), int(n/7%uint64(size)))
		}
	case 4:
		for _, other := range all {
			if other.Type() == v.Type() && other != v && n%3 == 0 {
				v.Set(other)
				return
			}
		}
	}
}

// Files is the content of a file system, by name.
type Files map[string][]byte

// Read returns all files below the directories dirs.
func Read(fsys disk.FS, dirs ...string) (Files, error) {
	all := Files{}
	for _, dir := range dirs {
		names, err := fsys.List(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			name = dir + "/" + name
			if _, err := fsys.List(name); err == nil {
				below, err := Read(fsys, name)
				if err != nil {
					return nil, err
				}
				maps.Copy(all, below)
				continue
			}
			if all[name], err = disk.ReadFile(fsys, name); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// Names returns the names of the files in order.
func (fs Files) Names() []string { return slices.Sorted(maps.Keys(fs)) }

// Write makes a new file system with the files; the directories dirs exist in any case.
func (fs Files) Write(dirs ...string) (*memfs.FS, error) {
	mem := memfs.New(1)
	for _, dir := range dirs {
		if err := mem.MkdirAll(dir); err != nil {
			return nil, err
		}
	}
	for name, data := range fs {
		if err := disk.WriteFileAtomic(mem, name, data); err != nil {
			if err = mem.MkdirAll(parent(name)); err == nil {
				err = disk.WriteFileAtomic(mem, name, data)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return mem, nil
}

func parent(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return "."
}

// flipBytes is the length of one step of a script of Flip: file (1 byte), offset (4), operation (1).
const flipBytes = 6

// Flip returns the files after at most four changes by script. It shares unchanged files with fs, and
// returns the names of the changed ones.
func (fs Files) Flip(script []byte) (damaged Files, changed []string) {
	damaged = maps.Clone(fs)
	names := fs.Names()
	for range maxEdits {
		if len(script) < flipBytes || len(names) == 0 {
			break
		}
		name := names[int(script[0])%len(names)]
		at, how := binary.LittleEndian.Uint32(script[1:]), script[5]
		script = script[flipBytes:]
		b := damaged[name]
		if len(b) == 0 || how == 0 {
			continue
		}
		if !slices.Contains(changed, name) {
			b = slices.Clone(b)
			changed = append(changed, name)
		}
		if i := int(at) % len(b); at>>31 == 1 && how == 1 {
			b = b[:i] // truncate
		} else {
			b[i] ^= how
		}
		damaged[name] = b
	}
	return damaged, changed
}

// Allocated runs fn and returns the number of bytes that it allocated on the Go heap, including freed ones.
// The runtime counts large objects immediately, small ones later.
func Allocated(fn func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	fn()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

// Sweep returns scripts of one edit each for the changes of Edit to *v: each number with each extreme and
// with differences of one, each list with each operation.
func Sweep(v any) [][]byte {
	var all [][]byte
	add := func(field int, op byte, n uint64) {
		script := binary.LittleEndian.AppendUint16(nil, uint16(field))
		all = append(all, binary.LittleEndian.AppendUint64(append(script, op), n))
	}
	for i, field := range settable(reflect.ValueOf(v).Elem(), nil) {
		switch kind := field.Kind(); {
		case kind == reflect.Bool || kind == reflect.Pointer:
			add(i, 0, 0)
		case kind == reflect.String:
			for n := range uint64(7) {
				add(i, 0, n)
			}
		case kind == reflect.Slice:
			for op := range byte(5) {
				add(i, op, 0)
				add(i, op, 8)
			}
		default:
			add(i, 1, 1)
			add(i, 1, math.MaxUint64)
			for n := range extremes {
				add(i, 2, uint64(n))
			}
		}
	}
	return all
}
