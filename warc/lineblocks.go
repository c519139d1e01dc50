package warc

import (
	"io"
	"strconv"

	"github.com/klauspost/compress/gzip"
)

// BlockLines is the number of lines in a block, as in Common Crawl's index.
const BlockLines = 3000

// LineBlocks compresses the lines of an index in blocks, each a gzip member, as ZipNum and WACZ have them. It belongs
// to one goroutine.
type LineBlocks struct {
	to   io.Writer
	zip  *gzip.Writer
	end  func(b *Block) error // is called for each block
	n    int                  // lines in the open block
	size int64                // of the output
	b    Block
}

// Block is a block of lines.
type Block struct {
	Key           []byte // of its first line, valid during a call
	Start, Length int64  // in the output
	Number        int    // from 1
}

// NewLineBlocks returns a LineBlocks that calls end after each block.
func NewLineBlocks(to io.Writer, end func(b *Block) error) *LineBlocks {
	b := &LineBlocks{to: to, end: end}
	b.zip = gzip.NewWriter(b)
	return b
}

// Write takes compressed bytes.
func (b *LineBlocks) Write(p []byte) (int, error) {
	n, err := b.to.Write(p)
	b.size += int64(n)
	return n, err
}

// Add adds a line, with its newline.
func (b *LineBlocks) Add(line []byte) error {
	if b.n == 0 {
		b.b.Key = append(b.b.Key[:0], LineKey(line)...)
	}
	if _, err := b.zip.Write(line); err != nil {
		return err
	}
	if b.n++; b.n == BlockLines {
		return b.Close()
	}
	return nil
}

// Close ends the open block, if there is one.
func (b *LineBlocks) Close() error {
	if b.n == 0 {
		return nil
	}
	if err := b.zip.Close(); err != nil {
		return err
	}
	b.n = 0
	b.b.Number++
	b.b.Length = b.size - b.b.Start
	if err := b.end(&b.b); err != nil {
		return err
	}
	b.b.Start = b.size
	b.zip.Reset(b)
	return nil
}

// ZipNumLine returns a function for NewLineBlocks that writes the summary of ZipNum, for an output of a name.
func ZipNumLine(to io.Writer, name string) func(b *Block) error {
	return func(b *Block) error {
		text := append(append([]byte(nil), b.Key...), "\t"+name+"\t"...)
		text = append(strconv.AppendInt(text, b.Start, 10), '\t')
		text = append(strconv.AppendInt(text, b.Length, 10), '\t')
		text = append(strconv.AppendInt(text, int64(b.Number), 10), '\n')
		_, err := to.Write(text)
		return err
	}
}

// LineKey returns what precedes the second space of a line of an index: SURT key and time.
func LineKey(line []byte) []byte {
	spaces := 0
	for i, c := range line {
		if c == ' ' {
			if spaces++; spaces == 2 {
				return line[:i]
			}
		}
	}
	return line
}
