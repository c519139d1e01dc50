package parse

// Most tags of a page are irrelevant: on real pages one in nine is an <a>. skipWide uses AVX2 to skip the
// others and the text between them, 64 bytes at a time. It skips only what it can prove to be irrelevant.
// Before a tag that is not of the plain form below it stops, and the scanner continues byte by byte.
//
// # Processing 64 bytes that begin in text
//
// Bit masks mark the bytes < > " = /, white space and letters, and for each '<' whether the name of a
// relevant element (wideNames) may follow. Assume that no attribute value contains '<' or '>'. Then tags
// extend from '<' to '>', and values from each odd quotation mark in a tag to the next one. The following
// conditions prove or refute this bit by bit:
//
//   - '<' and '>' alternate, ignoring '>' in text.
//   - No value is open at '<' or '>'.
//   - A value begins directly after an '=' outside values, and a value begins after each such '='.
//   - A tag's name, which ends at white space or '>', has no such '='.
//   - The byte before such an '=' belongs to an attribute name: it is not white space, '/' or a quotation
//     mark.
//
// So each such '=' ends an attribute name: between a tag's name or a value and the next '=' there are only
// names, white space and '/'. The quotation mark after '=' opens a value, the next one closes it, and
// apostrophes open none: HTML's tokenizer sees the same tags. All masks are computed from the left, so
// everything before the first refutation is proved. A tag that is incomplete in a block begins the next
// block. The scanner handles tags longer than a block.

// wideBlock is the number of bytes that skipWide examines: 64, and those after a '<' at their end.
const wideBlock = 68

// wideNames describes the first, second and fourth bytes of the names of relevant elements, in classes. A few
// other names match too. Bytes are looked up by their lower four bits, first bytes also by their upper four.
var wideNames = [8]struct{ first, second, fourth string }{
	{first: "a", second: "\t\n\f\r />r"}, // a, area
	{first: "bm", second: "a"},           // base, math
	{first: "fis", second: "rfcv"},       // frame, iframe, script, svg
	{first: "m", second: "e"},            // meta
	{first: "t", second: "ei"},           // textarea, title
	{first: "npx", second: "olm"},        // noembed, noframes, plaintext, xmp
	{first: "l", second: "i", fourth: "k"},
	{first: "s", second: "t", fourth: "l"}, // style
}

// wideTables are skipWide's lookup tables, each with its 16 entries twice.
type wideTables struct {
	first, firstHigh, second, fourth [32]byte // classes of wideNames by the lower or upper four bits
	space                            [32]byte // the white space byte with these lower four bits
}

// wideTable and wideFormTable, which includes <form>, are read-only.
var wideTable, wideFormTable = newWideTables(false), newWideTables(true)

func newWideTables(forms bool) *wideTables {
	t := new(wideTables)
	set := func(table *[32]byte, at byte, bit uint8) {
		table[at] |= bit
		table[at+16] |= bit
	}
	for class, name := range wideNames {
		if forms && name.first == "npx" {
			name.first += "f"
		}
		bit := uint8(1) << class
		for _, c := range []byte(name.first) {
			set(&t.first, c&15, bit)
			set(&t.firstHigh, c>>4, bit)
			set(&t.firstHigh, c>>4-2, bit) // upper case
		}
		for _, c := range []byte(name.second) {
			set(&t.second, c&15, bit)
		}
		for c := range byte(16) {
			if name.fourth == "" || name.fourth[0]&15 == c {
				set(&t.fourth, c, bit)
			}
		}
	}
	for i := range t.space {
		t.space[i] = 0xFF // matches no byte below 0x80
	}
	for _, c := range []byte("\t\n\f\r ") {
		t.space[c&15], t.space[c&15+16] = c, c
	}
	return t
}
