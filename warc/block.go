package warc

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base32"
	"io"

	"drumbeat/internal/httphead"
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
	in := bufio.NewReaderSize(io.NewSectionReader(b.file, b.Offset, b.Length), 64<<10)
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

// hasPayload reports whether the part of a response after its head has the given digest: without chunked framing if
// the head names it and the framing is valid, else as it is. It is the rule of digestPayload, with the head read as
// package fetch reads it; package response, which takes records apart for other commands, has the same.
func (b *block) hasPayload(want string) (bool, error) {
	at, _ := httphead.End(b.Block[:min(len(b.Block), httphead.MaxBytes)], 0)
	if at == 0 { // a head that was cut off, without a body
		return b.Size <= httphead.MaxBytes && sha1Of(nil) == want, nil
	}
	if httphead.Chunked(b.Block[:at]) {
		if got, err := b.chunksDigest(int64(at)); err != nil || got != "" {
			return got == want, err
		}
	}
	got, err := b.digest(int64(at))
	return err == nil && got == want, err
}

// chunksDigest returns the digest of the chunks from offset on, "" if the framing is invalid.
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

func sha1Of(b []byte) string {
	sum := sha1.Sum(b)
	return digest(sum[:])
}

func digest(sum []byte) string { return "sha1:" + base32.StdEncoding.EncodeToString(sum) }
