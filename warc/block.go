package warc

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base32"
	"io"
)

// block is the content of a record that is being verified. If it is too large for RAM, it is read from the
// file again.
type block struct {
	*Record
	file io.ReaderAt // the WARC file
	dec  *decoder    // with its dictionary; free between two records
}

// whole reports whether RAM has the whole content.
func (b *block) whole() bool { return b.Size == int64(len(b.Block)) }

// from returns a reader of the content from offset on.
func (b *block) from(offset int64) (io.Reader, error) {
	if b.whole() {
		return bytes.NewReader(b.Block[offset:]), nil
	}
	in := &countReader{r: bufio.NewReaderSize(io.NewSectionReader(b.file, b.Offset, b.Length), 64<<10)}
	text, err := b.dec.open(in)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(text)
	if _, err := readHeader(r); err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, r, offset); err != nil {
		return nil, err
	}
	return io.LimitReader(r, b.Size-offset), nil
}

// digest returns the digest of the content from offset on.
func (b *block) digest(offset int64) (string, error) {
	r, err := b.from(offset)
	if err != nil {
		return "", err
	}
	sha := sha1.New()
	if _, err := io.Copy(sha, r); err != nil {
		return "", err
	}
	return digest(sha.Sum(nil)), nil
}

// hasDigest reports whether the content has the given digest.
func (b *block) hasDigest(want string) (bool, error) {
	got, err := b.digest(0)
	return got == want, err
}

// maxHeads bounds the empty lines that hasPayload tries as the end of the head.
const maxHeads = 8

// hasPayload reports whether the part of a response after its head has the given digest, with or without
// chunked framing. The record does not say where the head ends, so it tries every empty line.
func (b *block) hasPayload(want string) (bool, error) {
	at := 0
	for range maxHeads {
		n := emptyLineEnd(b.Block[at:])
		if n < 0 {
			return sha1Of(nil) == want, nil
		}
		at += n
		if got, err := b.digest(int64(at)); err != nil || got == want {
			return err == nil, err
		}
		if got, err := b.chunksDigest(int64(at)); err != nil || got == want {
			return err == nil, err
		}
	}
	return false, nil
}

// chunksDigest returns the digest of the chunks from offset on, "" if there are none.
func (b *block) chunksDigest(offset int64) (string, error) {
	sha := sha1.New()
	if b.whole() {
		if !eachChunk(b.Block[offset:], func(p []byte) { sha.Write(p) }) {
			return "", nil
		}
		return digest(sha.Sum(nil)), nil
	}
	r, err := b.from(offset)
	if err != nil {
		return "", err
	}
	if valid, err := copyChunks(sha, r); !valid || err != nil {
		return "", err
	}
	return digest(sha.Sum(nil)), nil
}

// emptyLineEnd returns the number of bytes up to the end of the first empty line that follows another line;
// -1 if there is none.
func emptyLineEnd(b []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return -1
		}
		at += n + 1
		switch rest := b[at:]; {
		case bytes.HasPrefix(rest, []byte("\n")):
			return at + 1
		case bytes.HasPrefix(rest, []byte("\r\n")):
			return at + 2
		}
	}
}

func sha1Of(b []byte) string {
	sum := sha1.Sum(b)
	return digest(sum[:])
}

func digest(sum []byte) string { return "sha1:" + base32.StdEncoding.EncodeToString(sum) }
