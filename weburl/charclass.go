package weburl

// Bits of byteClass.
const (
	encodedInPath  = 1 << iota // percent-encoded in a path: controls, space, " < > ^ ` { }, non-ASCII
	encodedInQuery             // percent-encoded in a query: controls, space, " # < > ', non-ASCII
	endsSegment                // / \ ? #
	endsQuery                  // #
	isAlpha                    // A-Z a-z
	plainHost                  // unchanged in a host: a-z 0-9 - _ .
	upperHost                  // A-Z
	beginsEscape               // %

	stopsPath = encodedInPath | endsSegment
	endsHost  = endsSegment
)

// byteClass classifies bytes for the parts of a URL (URL standard, section 1.3). It is read-only.
var byteClass = classify()

func classify() (class [256]uint8) {
	for i := range class {
		c := byte(i)
		if c <= ' ' || c >= 0x7F {
			class[c] |= encodedInPath | encodedInQuery
		}
		switch {
		case c >= 'a' && c <= 'z':
			class[c] |= isAlpha | plainHost
		case c >= 'A' && c <= 'Z':
			class[c] |= isAlpha | upperHost
		case c >= '0' && c <= '9', c == '-', c == '_', c == '.':
			class[c] |= plainHost
		}
	}
	for _, c := range []byte("\"<>^`{}") {
		class[c] |= encodedInPath
	}
	for _, c := range []byte("\"#<>'") {
		class[c] |= encodedInQuery
	}
	for _, c := range []byte("/\\?#") {
		class[c] |= endsSegment
	}
	class['#'] |= endsQuery
	class['%'] |= beginsEscape
	return class
}
