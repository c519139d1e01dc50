package parse

// Most tags of a page are of no interest: on real pages, one in nine is an <a>. skipWide passes over the others
// and over the text between them 64 bytes at a time, by AVX2. It takes no step that it can't prove: where a tag
// isn't of the plain form below, it stops before it, and the scanner goes on byte by byte.
//
// # What it does with 64 bytes that begin in text
//
// One bit for each byte says where the bytes < > " = /, white space and letters stand, and one for each '<'
// whether what follows may be the name of an element that matters (wideNames). Then, assuming that no '<' or '>' stands inside
// a tag's values, tags are what lies between '<' and '>', values what lies between an odd quotation mark in
// a tag and the next, and that is proved or refuted, bit for bit:
//
//   - '<' and '>' take turns. (A '>' in text is passed over.)
//   - No value is open at '<' or '>'.
//   - A value begins right behind an '=' outside of values, and behind each such '=' begins one.
//   - There is none of them in a tag's name, which ends at white space or '>'.
//   - What stands before it is part of an attribute's name: no white space, no '/', no quotation mark.
//
// Each such '=' therefore ends an attribute's name: between a tag's name or a value and the next '=' there is nothing but names,
// white space and '/'. So the quotation mark behind it opens a value, the next one closes it, and an apostrophe opens none:
// HTML's tokenizer sees the same tags. All is computed from the left, so what stands before the first refutation is proved. A tag that isn't
// complete in the block begins the next one; one longer than that is left to the scanner.

// wideBlock is how many bytes skipWide looks at, those behind a '<' at the end of its 64 included.
const wideBlock = 68

// wideNames are beginnings of the names of elements that matter to the scanner, and with '?' for any byte, in
// classes of which each is a set of first, second and fourth bytes. Few other names are of a class: the bytes are
// looked up by their lower four bits, the first also by its upper ones.
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

// wideTables are what skipWide looks bytes up in: 16 entries each, twice.
type wideTables struct {
	first, firstHigh, second, fourth [32]byte // classes of wideNames by the lower or upper four bits
	space                            [32]byte // the white space with these lower four bits
}

// wideTable and wideFormTable, which has <form> too, are never written to.
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
		t.space[i] = 0xFF // no byte below 0x80
	}
	for _, c := range []byte("\t\n\f\r ") {
		t.space[c&15], t.space[c&15+16] = c, c
	}
	return t
}
